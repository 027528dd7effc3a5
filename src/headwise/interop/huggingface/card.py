"""What every exported directory has: config.json, the parameters, and the model card with what the run knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwise import __version__
from headwise.config import Config
from headwise.files import write_bytes, write_text
from headwise.interop.base import Array, Trained, TrainedRun, TrainedSingle
from headwise.interop.huggingface.keys import as_json
from headwise.metrics import averaged_scores, read_measured
from headwise.weights import model_file, read_recipe, saved

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

_SIGNED = ("bleu",)  # scores that have a signature


def write_model(
    trained: TrainedRun,
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Array],
    generation: Mapping[str, Any] | None = None,
) -> None:
    """Write config.json, generation_config.json if there is one, model.safetensors and README.md."""
    write_text(folder / "config.json", as_json(config))
    if generation is not None:
        write_text(folder / "generation_config.json", as_json(generation))
    write_bytes(folder / "model.safetensors", saved(tensors, {"format": "pt"}))
    write_text(folder / "README.md", _model_card(trained, config["architectures"][0]))


def _model_card(trained: TrainedRun, architecture: str) -> str:
    """Return README.md with the metadata that the Hub reads."""
    tag = _TAGS[trained.config.task]
    lines = [
        "---",
        "library_name: transformers",
        f"pipeline_tag: {tag}",
        f"tags: [headwise, {tag}]",
        "---",
        "",
        f"# {trained.run.resolve().name}",
        "",
        f"A Transformer (Vaswani et al. 2017) trained with Headwise {__version__}, as `{architecture}`.",
        "",
    ]
    return "\n".join([*lines, *facts(trained), "", *_scores(trained.run)])


def facts(trained: TrainedRun) -> list[str]:
    """Return a list in Markdown of what a model is and what it was trained on."""
    config, recipe = trained.config, read_recipe(model_file(trained.run))
    data = [Path(file).name for file in (*config.data.source, *config.data.target, *config.data.text)]
    return [
        f"- Model: {_layers(config)}, d_model {config.model.d_model}, {config.model.heads} heads, "
        f"norm={config.model.norm}",
        *_vocabulary(trained),
        f"- Training text: {', '.join(data) or 'not recorded'} (checksum {recipe.get('data', 'not recorded')})",
        f"- Configuration: {config.digest()}, seed {config.training.seed}",
        f"- Averaged checkpoints: {', '.join(map(str, recipe.get('steps') or [])) or 'not recorded'}",
    ]


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
    averaged = averaged_scores(run)
    if not averaged:
        return []
    measured = read_measured(run)
    signatures = measured.get("signatures", {})
    rows = [
        f"| {name} | {_shown(value)} | {_signature(name, signatures)} |"
        for name, value in averaged.items()
        if name not in ("kind", "step")
    ]
    head = [
        "Scores of this model on the development set:",
        "",
        "| metric | value | signature |",
        "|---|---|---|",
    ]
    return [*head, *rows, "", *_hardware(measured)]


def _shown(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _signature(name: str, signatures: Mapping[str, str]) -> str:
    """Return the signature of a score; only some have one."""
    missing = "not recorded" if name in _SIGNED else ""
    return f"`{signatures[name]}`".replace("|", "\\|") if name in signatures else missing


def _hardware(measured: Mapping[str, Any]) -> list[str]:
    """Return what the model was trained and scored with, where the run has recorded it."""
    if not measured:
        return []
    hardware = measured["hardware"]
    machine = ", ".join(map(str, hardware.get("gpus") or [])) or hardware.get("processor", "an unnamed processor")
    versions = ", ".join(f"{name} {version}" for name, version in measured.get("versions", {}).items())
    return [
        f"Training ended, and was scored, on {machine} ({hardware.get('threads')} threads; {versions}).",
        "",
    ]
