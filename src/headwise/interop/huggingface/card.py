"""The model card of an exported model: data, scores and signatures, as far as the run knows them."""

from __future__ import annotations

from pathlib import Path

from headwise import __version__
from headwise.config import Config
from headwise.interop.base import Trained, TrainedRun, TrainedSingle
from headwise.models.weights import read_recipe
from headwise.training.monitor import read_metrics

# The Hub's names of the tasks.
_TAGS = {
    "translation": "translation",
    "language_model": "text-generation",
    "masked_language_model": "fill-mask",
    "classification": "text-classification",
    "tagging": "token-classification",
    "question_answering": "question-answering",
    "image_classification": "image-classification",
}


def model_card(trained: TrainedRun, architecture: str) -> str:
    """Return README.md with the metadata that the Hub reads."""
    config, recipe = trained.config, read_recipe(trained.run / "model.safetensors")
    data = [Path(file).name for file in (*config.data.source, *config.data.target, *config.data.text)]
    tag = _TAGS[config.task]
    lines = [
        "---",
        "library_name: transformers",
        f"pipeline_tag: {tag}",
        f"tags: [headwise, {tag}]",
        "---",
        "",
        f"# {trained.run.name}",
        "",
        f"A Transformer (Vaswani et al. 2017) trained with Headwise {__version__}, as `{architecture}`.",
        "",
        f"- Model: {_layers(config)}, d_model {config.model.d_model}, {config.model.heads} heads, "
        f"norm={config.model.norm}",
        *_vocabulary(trained),
        f"- Training text: {', '.join(data) or 'not recorded'} (checksum {recipe.get('data', 'not recorded')})",
        f"- Configuration: {config.digest()}, seed {config.training.seed}",
        f"- Averaged checkpoints: {', '.join(map(str, recipe.get('steps') or [])) or 'not recorded'}",
        "",
    ]
    return "\n".join([*lines, *_scores(trained.run)])


def _layers(config: Config) -> str:
    encoder, decoder = f"{config.model.encoder_layers} encoder", f"{config.model.decoder_layers} decoder"
    if config.task == "translation":
        return f"{encoder} and {decoder} layers"
    return f"{decoder if config.task == 'language_model' else encoder} layers"


def _vocabulary(trained: TrainedRun) -> list[str]:
    """Return the line on the vocabulary, if the run has one."""
    if isinstance(trained, Trained):
        subwords = trained.subwords
        return [
            f"- Vocabulary: {subwords.source_size:,} source and {subwords.target_size:,} target subwords"
            f" (SentencePiece, {subwords.digest()})"
        ]
    vocabulary = trained.vocabulary if isinstance(trained, TrainedSingle) else None
    return [] if vocabulary is None else [f"- Vocabulary: {vocabulary.size:,} units ({vocabulary.digest()})"]


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
