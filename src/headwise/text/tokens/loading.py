"""Vocabularies of monolingual text of any kind: learned from text, or read from a run directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from headwise.config import SubwordConfig
from headwise.errors import CheckpointError, ConfigError
from headwise.parsing import read_json
from headwise.text.tokens.imported import ImportedVocabulary
from headwise.text.tokens.subwords import JOINT_FILE, read_file
from headwise.text.tokens.vocabulary import CHARACTERS_FILE, TOKENIZER_FILE, Characters, Pieces, Vocabulary
from headwise.weights import model_file, read_recipe


def learn_vocabulary(texts: Iterable[str], config: SubwordConfig, symbols: Sequence[str] = ()) -> Vocabulary:
    """Learn a vocabulary of the kind `subwords.kind`; raises `ConfigError` and `DataError` where that fails."""
    if config.kind == "imported":
        raise ConfigError(
            "subwords.kind: expected characters or bpe to learn a vocabulary, found imported, which "
            "training.initialize_from takes from a run of `headwise import`"
        )
    kind = Characters if config.kind == "characters" else Pieces
    return kind.learn(texts, config, symbols)


def load_vocabulary(directory: Path) -> Vocabulary:
    """Read the vocabulary of a run directory or prepared folder; raises `CheckpointError` if missing or damaged."""
    file = directory / CHARACTERS_FILE
    if (directory / TOKENIZER_FILE).exists():
        return ImportedVocabulary.load(directory / TOKENIZER_FILE)
    if not file.exists():
        return Pieces(read_file(directory / JOINT_FILE), origin=str(directory / JOINT_FILE))
    try:
        fields = read_json(file)
        return Characters(fields["characters"], fields["symbols"], lowercase=fields["lowercase"])
    except (OSError, ValueError, KeyError, TypeError, AssertionError, AttributeError):
        raise CheckpointError(f"{file}: expected a vocabulary of characters, found a damaged file") from None


def trained_vocabulary(run: Path) -> Vocabulary:
    """Read the vocabulary of a trained run; raises `CheckpointError` also if its model was trained with another one."""
    vocabulary = load_vocabulary(run)
    trained_with = read_recipe(model_file(run)).get("vocabulary", vocabulary.digest())
    if trained_with != vocabulary.digest():
        raise CheckpointError(
            f"{run}: expected the vocabulary that it was trained with ({trained_with}), "
            f"found another ({vocabulary.digest()})"
        )
    return vocabulary
