"""The student of a distillation: its training text, and the recipe of two text files with a student's size.

Most of the time of decoding is spent in the decoder, which is run once for every output token, while the encoder is run
once for a sentence. Students with a deep encoder and a shallow decoder translate about as well as ones with as many
layers in both, and faster (Kasai et al. 2021, "Deep encoder, shallow decoder"; Kim et al. 2019, "From research to
production and back").
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwise.config import Config, DataConfig
from headwise.errors import ConfigError
from headwise.tasks.recipes import Recipe, choose, measure
from headwise.text.tokens.subwords import Subwords

_ENCODER_LAYERS, _DECODER_LAYERS = 6, 2
_WIDEST = {
    "d_model": 256,
    "d_ff": 1024,
    "heads": 4,
}  # for students of corpora that the recipe gives the base model


def student_data(
    data: DataConfig, targets: Sequence[Path], references: Sequence[str], *, interpolated: bool
) -> DataConfig:
    """Return a student's text: the sources with the teacher's translations, and then the sources with references.

    `data` has the sources, and its development set if there is one. Translations that were chosen by the references
    (`interpolated`) replace them. Raises `ConfigError` for references without a development set: pairs that are split
    off have sentences whose other translation is in the training text.
    """
    pairs = [] if interpolated else list(references)
    if pairs and data.dev_source is None and data.dev_pairs:
        raise ConfigError(
            "--dev-source: expected a development set beside --target, as a set split off the training text would have "
            "sentences that are also in training with their other translation; found none (data.dev_pairs=0 trains "
            "without one)"
        )
    sources = [*data.source, *data.source] if pairs else data.source
    tree = data.model_dump() | {"source": sources, "target": [*map(str, targets), *pairs]}
    return DataConfig.model_validate(tree)


def student_recipe(
    data: DataConfig, vocabulary: Path | None, *, seed: int = 1, timed: bool = False
) -> Recipe:
    """Return the recipe for a student's text (`headwise.tasks.recipes.choose`) with a student's size.

    `vocabulary` is a folder with the teacher's subword model, which the student uses; without one it learns its own.
    Raises `DataError` if the text can't be read.
    """
    recipe = choose(measure(data), data, seed=seed, timed=timed)
    config = recipe.config
    model, replaced = config.model, ["model"]
    model.encoder_layers, model.decoder_layers = _ENCODER_LAYERS, _DECODER_LAYERS
    if model.d_model > _WIDEST["d_model"]:
        model.d_model, model.d_ff, model.heads = _WIDEST["d_model"], _WIDEST["d_ff"], _WIDEST["heads"]
    reasons = [
        f"model: {_ENCODER_LAYERS}+{_DECODER_LAYERS} layers of width {model.d_model}, as decoding spends most of its "
        "time in the decoder"
    ]
    if vocabulary is not None:
        replaced.append("subwords")
        subwords = Subwords.load(vocabulary)
        config.subwords.joint, config.subwords.lowercase = subwords.joint, subwords.lowercases
        config.subwords.kind = "bpe" if subwords.numbering is None else "imported"
        config.subwords.size = subwords.target_size
        config.subwords.copy_from = str(vocabulary)
        if not subwords.joint:
            model.share_embeddings = "target"
        reasons.insert(0, f"subwords.copy_from={vocabulary}: the teacher's {subwords.target_size:,}")
    kept = [reason for reason in recipe.reasons if not reason.startswith(tuple(replaced))]
    return Recipe(Config.from_tree(config.model_dump()), [*reasons, *kept])
