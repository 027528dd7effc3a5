"""The model card of an exported model: data, scores and signatures, as far as the run knows them."""

from __future__ import annotations

from pathlib import Path

from headwise import __version__
from headwise.interop.base import Trained
from headwise.models.weights import read_recipe
from headwise.training.monitor import read_metrics


def model_card(trained: Trained, architecture: str) -> str:
    """Return README.md with the metadata that the Hub reads."""
    config, recipe = trained.config, read_recipe(trained.run / "model.safetensors")
    data = [Path(file).name for file in (*config.data.source, *config.data.target)]
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: translation",
        "tags: [headwise, translation]",
        "---",
        "",
        f"# {trained.run.name}",
        "",
        f"A Transformer (Vaswani et al. 2017) trained with Headwise {__version__}, as `{architecture}`.",
        "",
        f"- Model: {config.model.encoder_layers} encoder and {config.model.decoder_layers} decoder layers, "
        f"d_model {config.model.d_model}, {config.model.heads} heads, norm={config.model.norm}",
        f"- Vocabulary: {trained.subwords.source_size:,} source and {trained.subwords.target_size:,} target subwords"
        f" (SentencePiece, {trained.subwords.digest()})",
        f"- Training text: {', '.join(data) or 'not recorded'} (checksum {recipe.get('data', 'not recorded')})",
        f"- Configuration: {config.digest()}, seed {config.training.seed}",
        f"- Averaged checkpoints: {', '.join(map(str, recipe.get('steps') or [])) or 'not recorded'}",
        "",
    ]
    return "\n".join([*lines, *_scores(trained.run)])


def _scores(run: Path) -> list[str]:
    """Return the section of the scores on the development set, empty where none are recorded."""
    file = run / "metrics.jsonl"
    averaged = [r for r in read_metrics(file) if r["kind"] == "averaged"] if file.is_file() else []
    if not averaged:
        return []
    scores = {key: value for key, value in averaged[-1].items() if key not in ("kind", "step")}
    rows = [
        f"| {name} | {value:.4g} |" if isinstance(value, float) else f"| {name} | {value} |"
        for name, value in scores.items()
    ]
    return ["Scores of this model on the development set:", "", "| metric | value |", "|---|---|", *rows, ""]
