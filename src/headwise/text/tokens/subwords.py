"""Subword models: SentencePiece byte-pair encoding, learned from the training text (section 5.1 of the paper).

The text is not normalized: decoding inverts encoding, except that runs of spaces become one space and that U+2581,
which SentencePiece uses for a space, is decoded as one. With `lowercase`, letters are lower-cased.

With `joiners`, a word behind an opening bracket or quotation mark, or a hyphen, is segmented as behind a space, and a
joiner (U+FFED, as in OpenNMT's Tokenizer) at the mark says that there is none: `(well-known` is `▁(￭ ▁well -￭ ▁known`.
Otherwise a word has two segmentations, and a model learns little about the rarer one. A joiner in a text itself is
left out.

Both are rules inside the model file, so that every program that loads it (an exported copy included) applies them.

Every character of the training text gets its own id unless `character_coverage` is below 1. Then the rare
characters are spelled in bytes where the vocabulary is large enough for 256 byte ids (at least 4,000), and are
unknown otherwise. With full coverage there are no byte pieces, as these would never be trained. SentencePiece learns
nothing from lines of more than a mebibyte, and from those with U+2585, which it keeps for itself.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import io
import itertools
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from headwise.characters import UNSPACED, check_characters, has_letters_or_digits
from headwise.config import SubwordConfig
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.files import write_bytes
from headwise.text.tokens.pair_vocabulary import FILE as VOCABULARY_FILE
from headwise.text.tokens.pair_vocabulary import PairVocabulary, VocabularyProcessor
from headwise.text.tokens.splitting import SPACE, Split, open_processor

Processor = sentencepiece.SentencePieceProcessor | VocabularyProcessor

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL = (PAD, UNK, BOS, EOS)

JOINT_FILE = "spm.model"
SOURCE_FILE = "spm.source.model"
TARGET_FILE = "spm.target.model"
# Files of source and target for the ways to split a text that a vocabulary may have.
_MODEL_FILES: dict[Split, tuple[str, ...]] = {
    "sentencepiece": (SOURCE_FILE, TARGET_FILE),
    "subword-nmt": ("bpe.source.codes", "bpe.target.codes"),
    "words": (),
    "characters": (),
}

_BYTES_FROM = 4000  # smallest vocabulary with 256 ids for bytes
JOINER = "\uffed"
# Marks behind which a word has a joiner, and pairs whose second one has none: of options, placeholders and links.
_JOINING = (*'(["“„«»‘‚-–—…¿¡', " '")
_APART = ("--", "%(", "](")
_ALPHABET_FROM = 100_000  # sentences; words that begin with another letter have no joiners


class Subwords:
    """One SentencePiece model for both languages (joint), or one per language.

    Ids 0 to 3 are padding, unknown, beginning and end of a sentence; encoding adds none of them but unknown. The ids
    are those of the models, or those of a `vocabulary` of their pieces, by which imported vocabularies are kept; the
    models then may be byte pairs of subword-nmt, or nothing.
    """

    def __init__(
        self,
        source: bytes,
        target: bytes | None = None,
        vocabulary: PairVocabulary | None = None,
        *,
        origin: str = "subword model",
    ) -> None:
        """Read serialized models; without `target` the first one is joint.

        With a vocabulary, both models are given, and the ids are joint if it has one list.

        Raises:
            CheckpointError: the bytes aren't a SentencePiece model, or its special ids aren't Headwise's.
        """
        self.vocabulary = vocabulary
        self._source_bytes = source
        self._target_bytes = source if target is None else target
        self.source_processor: Processor
        self.target_processor: Processor
        if vocabulary is not None:
            self.joint = vocabulary.target is None
            self.source_processor = VocabularyProcessor(source, "source", vocabulary, origin)
            self.target_processor = VocabularyProcessor(self._target_bytes, "target", vocabulary, origin)
        else:
            self.joint = target is None
            self.source_processor = self.target_processor = read_processor(source, origin)
            if target is not None:
                self.target_processor = read_processor(target, origin)
        self._source_pieces = _Pieces(self.source_processor)
        self._target_pieces = _Pieces(self.target_processor)
        self.joiners = not self.target_processor.decode_pieces([JOINER])
        self._spelled: _Spelled | None = None
        self.source_size: int = self.source_processor.vocab_size()
        self.target_size: int = self.target_processor.vocab_size()

    @classmethod
    def train(
        cls,
        source_sentences: Iterable[str],
        target_sentences: Iterable[str],
        config: SubwordConfig,
        directory: Path | None = None,
    ) -> Subwords:
        """Learn the merges from text and write the model file(s) into `directory`, if one is given.

        The same text gives the same model, byte for byte: byte-pair encoding is deterministic.

        Raises:
            ConfigError: the vocabulary is larger than the text allows, or smaller than its characters, or a side is one
                string, such as a file's name.
            DataError: there is no text.
            TrainingError: the files can't be written.
        """
        for side in (source_sentences, target_sentences):
            if isinstance(side, str):
                raise ConfigError(f"Subwords.train: expected lists of sentences, found one string, {side[:60]!r}")
        if config.joint:
            model = cls(train_model(itertools.chain(source_sentences, target_sentences), config))
        else:
            model = cls(train_model(source_sentences, config), train_model(target_sentences, config))
        if directory is not None:
            model.save(directory)
        return model

    @classmethod
    def load(cls, directory: Path, config: SubwordConfig | None = None, digest: str | None = None) -> Subwords:
        """Read the model file(s) of a run directory; `digest` is their expected digest, if known.

        Raises:
            CheckpointError: a file is missing or damaged, doesn't match `config` (joint, lower-cased), or has
                another digest; the digest is checked before SentencePiece parses the file.
        """
        directory = Path(directory)
        numbered = (directory / VOCABULARY_FILE).is_file() if config is None else config.kind == "imported"
        joint = (directory / JOINT_FILE).is_file() if config is None else config.joint and not numbered
        names = (JOINT_FILE,) if joint else (SOURCE_FILE, TARGET_FILE)
        vocabulary, lists = None, []
        if numbered:
            lists = [read_file(directory / VOCABULARY_FILE)]
            vocabulary = PairVocabulary.parse(lists[0], str(directory / VOCABULARY_FILE))
            names = _MODEL_FILES[vocabulary.split]
        models = [read_file(directory / name) for name in names]
        if digest is not None and digest != (found := _digest(*models, *lists)):
            raise CheckpointError(
                f"{directory}: expected the subword model that it was trained with ({digest}), found another ({found})"
            )
        if vocabulary is not None:
            source, target = models or (b"", b"")
            model = cls(source, target, vocabulary, origin=str(directory))
            if config is not None and model.joint != config.joint:
                raise CheckpointError(
                    f"{directory / VOCABULARY_FILE}: expected {'one list' if config.joint else 'two lists'} of "
                    f"pieces as configured (subwords.joint={str(config.joint).lower()}), found "
                    f"{'one' if model.joint else 'two'}"
                )
        else:
            origin = str(directory / (JOINT_FILE if joint else "spm.*.model"))
            model = cls(models[0], None if joint else models[1], origin=origin)
        for name, found in (("lowercase", model.lowercases), ("joiners", model.joiners)):
            if config is not None and found != (wanted := getattr(config, name)):
                raise CheckpointError(
                    f"{directory}: expected a subword model with {name}={wanted} as configured, "
                    f"found one with {name}={found}"
                )
        return model

    @property
    def options(self) -> dict[str, Any]:
        """The keys of the section `subwords` that a run with these subwords must have, with their values."""
        kind = "bpe" if self.vocabulary is None else "imported"
        return {"kind": kind, "joint": self.joint, "lowercase": self.lowercases, "joiners": self.joiners}

    def save(self, directory: Path) -> None:
        """Write the model file(s) into `directory`; raises `TrainingError` where that fails."""
        for name, content in self.content().items():
            write_bytes(Path(directory) / name, content)

    def with_language(self, name: str) -> Subwords:
        """Return these subwords with another language code before each text, such as `>>deu<<`.

        Raises `ConfigError` if the vocabulary has no such code.
        """
        vocabulary = self.vocabulary
        if vocabulary is None:
            raise ConfigError(f"--target-language: expected a vocabulary with language codes, found none for {name!r}")
        vocabulary = dataclasses.replace(vocabulary, language=vocabulary.find_language(name), codes=True)
        other = Subwords(*self.models, vocabulary)
        other._spelled = self._spelled
        return other

    def avoiding(self, tokens: Collection[int]) -> Subwords:
        """Return these subwords with others in place of some source tokens: the fewest of which one consists.

        A punctuation mark with a joiner stays: the joiner alone, which no text has, isn't a token to be read.
        """
        if not tokens:
            return self
        other, (pieces, _) = copy.copy(self), self.lists()
        other._spelled = _Spelled(pieces, [number for number in tokens if JOINER not in pieces[number]])
        return other

    @property
    def given(self) -> tuple[int, ...]:
        """The codes that a target may begin with to name its language, the chosen one first; empty for none."""
        processor = self.target_processor
        return processor.given if isinstance(processor, VocabularyProcessor) else ()

    @property
    def codes(self) -> tuple[str, ...]:
        """The pieces that name a language before a text, on either side; empty for none."""
        return () if self.vocabulary is None else tuple(self.vocabulary.languages)

    def without_language(self, source: Sequence[int]) -> Sequence[int]:
        """Leave out the language code that encoding puts before a source."""
        processor = self.source_processor
        return processor.without_language(source) if isinstance(processor, VocabularyProcessor) else source

    @property
    def models(self) -> tuple[bytes, bytes]:
        """The serialized models of source and target, the same one twice if it is joint."""
        return self._source_bytes, self._target_bytes

    def content(self) -> dict[str, bytes]:
        """Return the names and the bytes of the model file(s)."""
        if self.vocabulary is None and self.joint:
            return {JOINT_FILE: self._source_bytes}
        if self.vocabulary is None:
            return dict(zip((SOURCE_FILE, TARGET_FILE), self.models, strict=True))
        files = dict(zip(_MODEL_FILES[self.vocabulary.split], self.models, strict=False))
        return files | {VOCABULARY_FILE: self.vocabulary.content()}

    @property
    def lowercases(self) -> bool:
        """Whether the model lower-cases what it encodes."""
        return self.source_processor.normalize("A").lstrip(SPACE) == "a"

    def encode_source(self, text: str) -> list[int]:
        """Encode one source sentence, without special ids; raises `DataError` for a lone surrogate."""
        ids = self.source_processor.encode(check_characters(text, "source"))
        if self._spelled is None or self._spelled.avoided.isdisjoint(ids):
            return ids
        return [part for number in ids for part in self._spelled[number]]

    def encode_target(self, text: str) -> list[int]:
        """Encode one target sentence, without special ids; raises `DataError` for a lone surrogate."""
        return self.target_processor.encode(check_characters(text, "target"))

    def unwritable(self, text: str) -> list[str]:
        """Return the characters of a target text that the vocabulary lacks."""
        return [each for each in dict.fromkeys(text) if UNK in self.encode_target(each)]

    def decode_source(self, ids: Sequence[int]) -> str:
        """Decode source ids; padding, begin and end are dropped, unknown becomes `⁇` between spaces."""
        return _decode(self.source_processor, ids)

    def decode_target(self, ids: Sequence[int]) -> str:
        """Decode target ids; padding, begin and end are dropped, unknown becomes `⁇` between spaces."""
        return _decode(self.target_processor, ids)

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the source subwords of a text, with `▁` for a space that it has, and without joiners.

        Special ids give `<pad>`, `<unk>`, `<s>` and `</s>`.
        """
        return self._written([self._source_pieces[i] for i in ids])

    def target_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the target subwords of a text, as `source_pieces` does."""
        return self._written([self._target_pieces[i] for i in ids])

    def lists(self) -> tuple[list[str], list[str]]:
        """Return all subwords of source and target in the order of their ids, as the model has them."""
        return (
            [self._source_pieces[i] for i in range(self.source_size)],
            [self._target_pieces[i] for i in range(self.target_size)],
        )

    def _written(self, pieces: list[str]) -> list[str]:
        if not self.joiners:
            return pieces
        joined = itertools.accumulate(pieces, lambda _, piece: piece.endswith(JOINER), initial=False)
        return [
            (piece.removeprefix(SPACE) if after else piece).replace(JOINER, "")
            for piece, after in zip(pieces, joined, strict=False)
        ]

    def continuing(self) -> bytes:
        """Return a byte for each target id: 1 for a piece that continues the word of the piece before, else 0.

        That is a piece that begins with a letter or a digit. In scripts without spaces, and where pieces mark the ends
        of words, no piece counts as continuing.
        """
        processor = self.target_processor
        pieces = [processor.id_to_piece(number) for number in range(self.target_size)]
        if not any(piece.startswith(SPACE) for piece in pieces):
            return bytes(len(pieces))
        return bytes(piece[:1].isalnum() and not UNSPACED.match(piece) for piece in pieces)

    def lettered(self) -> bytes:
        """Return a byte for each target id: 1 for a piece with a letter or a digit, else 0.

        Special symbols, language codes and bytes other than ASCII have none: several bytes make a letter.
        """
        processor = self.target_processor
        found = bytearray(self.target_size)
        for number in range(self.target_size):
            piece = processor.id_to_piece(number)
            if piece.startswith("<0x") and processor.is_byte(number):
                piece = bytes.fromhex(piece[3:5]).decode("ascii", "ignore")
            found[number] = has_letters_or_digits(piece)
        for number in (*SPECIAL, *self.given):
            found[number] = 0
        return bytes(found)

    def digest(self) -> str:
        """Return 12 hexadecimal digits that identify the model bytes."""
        return _digest(*self.content().values())


class _Pieces(dict[int, str]):
    """The pieces of a processor by their ids, each looked up once."""

    def __init__(self, processor: Processor) -> None:
        super().__init__()
        self._processor = processor

    def __missing__(self, number: int) -> str:
        piece = self[int(number)] = self._processor.id_to_piece(int(number))
        return piece


def _digest(*files: bytes) -> str:
    return hashlib.sha256(b"\0".join(files)).hexdigest()[:12]


def _decode(processor: Processor, ids: Sequence[int]) -> str:
    try:
        return processor.decode([int(i) for i in ids if i not in (PAD, BOS, EOS)])
    except UnicodeDecodeError:
        raise CheckpointError(
            "expected text in UTF-8 from the subword model, found other bytes; it is damaged"
        ) from None


def read_file(path: Path) -> bytes:
    """Read a subword model file; raises `CheckpointError` where it is missing or unreadable."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such subword model") from None
    except OSError as error:
        raise CheckpointError(f"{path}: the subword model can't be read ({error.strerror})") from None


class _Spelled(dict[int, list[int]]):
    """The ids that stand for a token: itself, or if it is to be `avoided`, the fewest others that spell it."""

    def __init__(self, pieces: Sequence[str], avoided: Collection[int]) -> None:
        self.avoided = frozenset(avoided)
        self._pieces = pieces
        self._ids = {piece: number for number, piece in enumerate(pieces) if number not in self.avoided}

    def __missing__(self, number: int) -> list[int]:
        self[number] = [number] if number not in self.avoided else self._parts(self._pieces[number]) or [number]
        return self[number]

    def _parts(self, piece: str) -> list[int]:
        """Return the fewest tokens that are a piece together, the longest ones first; empty where there are none."""
        best: list[list[int] | None] = [*[None] * len(piece), []]  # of what is behind each character
        for start in reversed(range(len(piece))):
            for end in range(len(piece), start, -1):
                rest, first = best[end], self._ids.get(piece[start:end])
                found = best[start]
                if rest is not None and first is not None and (found is None or len(rest) + 1 < len(found)):
                    best[start] = [first, *rest]
        return best[0] or []


def read_processor(model: bytes, origin: str) -> sentencepiece.SentencePieceProcessor:
    """Parse a serialized model; raises `CheckpointError` where it is damaged or has other special ids."""
    processor = open_processor(model, origin)
    special_ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if special_ids != SPECIAL:
        raise CheckpointError(
            f"{origin}: expected padding, unknown, begin and end as ids {SPECIAL}, found {special_ids}; "
            f"this subword model wasn't made by Headwise"
        )
    return processor


def train_model(sentences: Iterable[str], config: SubwordConfig, **more: Any) -> bytes:
    """Learn one SentencePiece model and return its bytes; `more` are further options of the trainer.

    Raises `ConfigError` for a vocabulary that doesn't fit the text, and `DataError` where there is no text.
    """
    model = io.BytesIO()
    options: dict[str, Any] = {
        "model_type": "bpe",
        "vocab_size": config.size,
        "character_coverage": config.character_coverage,
        "byte_fallback": config.character_coverage < 1.0 and config.size >= _BYTES_FROM,
        "pad_id": PAD,
        "unk_id": UNK,
        "bos_id": BOS,
        "eos_id": EOS,
        "shuffle_input_sentence": False,
        "max_sentence_length": 1 << 20,  # bytes; SentencePiece skips longer lines
        "num_threads": 1,
        "minloglevel": 2,
        "user_defined_symbols": config.symbols,
        **more,
    }
    first = next(iterator := iter(sentences), None)
    if first is None:
        raise DataError("there is no text to learn subwords from")
    head = [first, *itertools.islice(iterator, _ALPHABET_FROM)] if config.joiners else [first]
    text = itertools.chain(head, iterator)
    with tempfile.TemporaryDirectory() as scratch:
        options |= _normalization(config, set().union(*head), Path(scratch))
        try:
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=text, model_writer=model, **options)
        except RuntimeError as error:
            raise _explain(str(error), config) from None
    return model.getvalue()


def _normalization(config: SubwordConfig, characters: Collection[str], scratch: Path) -> dict[str, str]:
    """Return the trainer's options for what is done to a text before it is segmented, and undone after decoding."""
    rules: dict[str, str] = {}
    if config.lowercase:
        rules = {char: char.lower() for char in map(chr, range(0x110000)) if char.lower() != char}
    if config.joiners:
        letters = [char for char in sorted(characters) if char.isalpha() and not UNSPACED.match(char)]
        rules |= {f"{mark}{char}": f"{mark}{JOINER} {rules.get(char, char)}" for mark in _JOINING for char in letters}
        # A rule that changes nothing isn't allowed, and decoding takes every joiner away.
        rules |= {pair: JOINER.join(pair) for pair in _APART} | {JOINER: ""}
    if not rules:
        return {"normalization_rule_name": "identity"}
    options = {"normalization_rule_tsv": _write_rules(rules, scratch / "rules.tsv")}
    if config.joiners:
        undone = {f"{JOINER} ": "", JOINER: ""}
        options["denormalization_rule_tsv"] = _write_rules(undone, scratch / "undone.tsv")
    return options


def _write_rules(rules: Mapping[str, str], file: Path) -> str:
    """Write SentencePiece's rules to replace texts, as hexadecimal code points: text TAB replacement."""
    lines = (f"{_code_points(text)}\t{_code_points(replacement)}\n" for text, replacement in rules.items())
    file.write_text("".join(lines), encoding="utf-8")
    return str(file)


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def _explain(message: str, config: SubwordConfig) -> ConfigError | DataError:
    """Convert an error of the trainer to a message that names the nearest valid size."""
    if match := re.search(r"Please set it to a value <= (\d+)", message):
        return ConfigError(
            f"subwords.size: expected at most {match[1]}, the most that this text allows, found {config.size}"
        )
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ConfigError(
            f"subwords.size: expected at least {match[1]}, one for each character of this text "
            f"(or a subwords.character_coverage below {config.character_coverage:g}), found {config.size}"
        )
    return DataError(f"SentencePiece can't learn subwords from this text: {' '.join(message.split())}")
