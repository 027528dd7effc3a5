"""The sections `data` and `subwords`: text files, cleaning, and subword segmentation."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from headwise import bounds
from headwise.config.base import Natural, Positive, Probability, Processes, Section, Writable
from headwise.config.keys import LABELED, MAY_CHANGE, PAIRS, TEXTS, YOUNGER, Tasks
from headwise.config.languages import is_code, language_of_files


def _language_code(code: str) -> str:
    if not is_code(code):
        raise ValueError(f"expected a language code such as en, deu or pt-BR, found {code[:40]!r}")
    return code


Language = Annotated[str, AfterValidator(_language_code)]
Weight = Annotated[float, Field(ge=0.0, le=bounds.WEIGHT)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")  # of every vocabulary, with the ids 0 to 3
_PAIRS, _TEXTS = Tasks(*PAIRS), Tasks(*TEXTS)


class CleaningConfig(Section):
    """Filters of sentence pairs; each filter reports how many pairs it removed."""

    max_words: Annotated[Positive, _PAIRS] = 250
    # longer side / shorter side, in characters
    max_ratio: Annotated[float, Field(ge=1.0, le=bounds.RATIO), _PAIRS] = 9.0
    drop_duplicates: Annotated[bool, Tasks.all_but("denoising", *LABELED)] = False
    # pairs whose sides are the same sentence, of more than three words
    drop_untranslated: Annotated[bool, _PAIRS, YOUNGER] = False
    # files, such as test sets: a pair with a sentence of theirs on either side isn't trained on
    held_out: Annotated[list[str], Writable, _PAIRS, MAY_CHANGE, YOUNGER] = Field(default_factory=list)


class AugmentConfig(Section):
    """Share of the training pairs that gets each change (`headwise.text.augmentation`), anew in every epoch."""

    capitals: Share = 0.0  # both sides in capitals
    title: Share = 0.0  # a capital at the beginning of each word, on both sides
    lower_case: Share = 0.0  # the source in lower case
    first_letter: Share = 0.0  # the source's first letter in the other case
    no_diacritics: Share = 0.0  # the source without diacritics
    typos: Share = 0.0  # a typing error in one of ten words of the source, and in one at least
    no_punctuation: Share = 0.0  # both sides without their final punctuation
    # on both sides, a symbol such as 😀 or ©, a placeholder or an amount in front, behind or for a name; or brackets or
    # quotes around
    inserted: Share = 0.0
    # likewise, a made-up word with Latin letters such as ł and ğ, or in Cyrillic or Greek where neither side has them
    foreign: Annotated[Share, YOUNGER] = 0.0
    copied: Share = 0.0  # the target as the source, too
    joined: Share = 0.0  # with another pair behind it

    @model_validator(mode="after")
    def _one_case(self) -> AugmentConfig:
        if self.capitals + self.title + self.lower_case > 1:
            raise ValueError(
                "expected capitals, title and lower_case to be at most 1 together, "
                f"found {self.capitals}, {self.title} and {self.lower_case}"
            )
        return self

    @property
    def active(self) -> bool:
        """Whether any pair is changed."""
        return any(share > 0 for share in self.model_dump().values())


class DataConfig(Section):
    """Training, development and test text."""

    # paths: text or .gz, or .tsv / .jsonl files with both sides
    source: Annotated[list[str], Writable, _PAIRS, MAY_CHANGE] = Field(default_factory=list)
    # empty where `source` lists .tsv or .jsonl files
    target: Annotated[list[str], Writable, _PAIRS, MAY_CHANGE] = Field(default_factory=list)
    # mixing weight of each file (pair) or corpus; empty: no reweighting
    weights: Annotated[list[Weight], _PAIRS] = Field(default_factory=list)
    # folders of `headwise data prepare`, instead of files
    prepared: Annotated[list[str], Writable, _PAIRS, MAY_CHANGE] = Field(default_factory=list)
    # by default what the files' names tell: `languages`
    source_language: Annotated[Language | None, MAY_CHANGE] = None
    target_language: Annotated[Language | None, MAY_CHANGE] = None
    dev_source: Annotated[str | None, Writable, _PAIRS, MAY_CHANGE] = None
    dev_target: Annotated[str | None, Writable, _PAIRS, MAY_CHANGE] = None
    # size of the development set split off the training data without dev files
    dev_pairs: Annotated[Natural, _PAIRS] = 1000
    # new files at the start of `source`, that it is split off; 0: all
    dev_files: Annotated[Natural, _PAIRS] = 0
    # for tasks on single texts: paths of plain text or .gz
    text: Annotated[list[str], Writable, _TEXTS, MAY_CHANGE] = Field(default_factory=list)
    dev_text: Annotated[str | None, Writable, _TEXTS, MAY_CHANGE] = None
    # without dev_text: share at the end of `text`
    dev_share: Annotated[float, Field(ge=0.0, lt=1.0), _TEXTS] = 0.1
    source_field: Annotated[str, Writable, _PAIRS] = "source"  # field of a .jsonl line with the source
    target_field: Annotated[str, Writable, _PAIRS] = "target"
    cleaning: CleaningConfig = CleaningConfig()
    augment: Annotated[AugmentConfig, _PAIRS, YOUNGER] = AugmentConfig()
    # processes that encode text; 0: one per core
    workers: Annotated[Processes, Tasks.all_but(*LABELED), MAY_CHANGE] = 0

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Language codes of source and target: as given, or those in the names of the files; None if unknown."""
        return (
            self.source_language or language_of_files(self.source),
            self.target_language or language_of_files(self.target),
        )

    def with_languages(self) -> DataConfig:
        """Return a copy with the language codes that the names of its files tell, if they aren't given."""
        source, target = self.languages
        return self.model_copy(update={"source_language": source, "target_language": target})


class SubwordConfig(Section):
    """SentencePiece BPE (the paper's section 5.1 uses byte-pair encoding, shared by both languages)."""

    # characters: only for tasks on single texts; imported: the vocabulary of another toolkit (`headwise import`)
    kind: Literal["bpe", "characters", "imported"] = "bpe"
    size: Annotated[int, Field(ge=bounds.LEAST_VOCABULARY, le=bounds.VOCABULARY)] = 37000
    joint: Annotated[bool, _PAIRS] = True
    # BPE-dropout (Provilkov et al. 2020), on training text only
    dropout: Annotated[Probability, _PAIRS] = 0.0
    character_coverage: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    lowercase: bool = False
    # words behind an opening bracket, quotation mark or hyphen are segmented as behind a space
    joiners: Annotated[bool, _PAIRS] = False
    # words that are a subword each
    symbols: Annotated[list[str], Writable, _PAIRS] = Field(default_factory=list)
    # for translation: a run whose subword model is used instead of a learned one
    copy_from: Annotated[str | None, Writable, _PAIRS, MAY_CHANGE] = None

    @model_validator(mode="after")
    def _symbols_are_words(self) -> SubwordConfig:
        if wrong := [symbol for symbol in self.symbols if symbol.split() != [symbol]]:
            raise ValueError(f"symbols: expected words, found {wrong[0]!r}")
        counts = Counter((*SPECIAL_PIECES, *self.symbols))
        if again := [name for name, count in counts.items() if count > 1]:
            raise ValueError(
                f"symbols: expected words, each once and none of {' '.join(SPECIAL_PIECES)}, found {again[0]}"
            )
        if self.symbols and self.kind == "imported":
            raise ValueError(
                f"symbols: expected none of a vocabulary with kind=imported, found {', '.join(self.symbols)}"
            )
        return self

    @model_validator(mode="after")
    def _dropout_has_merges(self) -> SubwordConfig:
        if self.dropout and self.kind == "imported":
            raise ValueError(
                f"dropout needs the merges of an own BPE vocabulary, found kind=imported and dropout={self.dropout}"
            )
        return self
