"""Vocabularies of monolingual text: characters, subwords that preserve every space and line end, or imported ones.

Ids 0 to 3 are padding, unknown, beginning and end of a text, as everywhere; then come a task's own symbols (such as
`<mask>`), the line end, and the learned units. All kinds map each id to bytes, so that text can be decoded id by id
(`TextDecoder`), even where a character is split over several ids. `headwise.text.tokens.imported` has the vocabularies
of other toolkits, and `headwise.text.tokens.loading` reads any of them.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from headwise.characters import check_characters
from headwise.config import SubwordConfig
from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError, DataError
from headwise.files import write_bytes
from headwise.text.tokens.splitting import SPACE
from headwise.text.tokens.subwords import EOS, JOINT_FILE, SPECIAL, UNK, read_processor, train_model

CHARACTERS_FILE = "characters.json"
TOKENIZER_FILE = "tokenizer.json"
LINE_END = "\n"
MASK = "<mask>"
_UNKNOWN = "\ufffd"


class Vocabulary(ABC):
    """Mapping between text and ids; encoding adds no special ids but unknown."""

    size: int  # number of ids
    symbols: tuple[str, ...]  # symbols of the task, with ids from 4 on
    leads: bool = False  # whether the space before a word is part of the word's first unit
    # Id from which the first token of a text is predicted; None: the end of the document or line before it.
    begin: int | None = None
    opens: bool = True  # whether the continuation of a text is predicted with that id before the text, too

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts."""

    @abstractmethod
    def piece(self, number: int) -> str:
        """Return the text of an id; `<s>` and the like for special ids."""

    def spelled(self, number: int) -> bytes:
        """Return the UTF-8 bytes of an id, possibly part of a character; special ids are empty, unknown is U+FFFD."""
        if number < self.ordinary:
            return _UNKNOWN.encode() if number == UNK else b""
        return self._spelled(int(number))

    @abstractmethod
    def _spelled(self, number: int) -> bytes:
        """Return the bytes of an ordinary id."""

    @abstractmethod
    def content(self) -> tuple[str, bytes]:
        """Return the name and the bytes of the vocabulary file."""

    def encode(self, text: str) -> list[int]:
        """Encode one text; raises `DataError` for a lone surrogate."""
        return self.encode_batch([check_characters(text, "text")])[0]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to text; invalid UTF-8 becomes U+FFFD."""
        return b"".join(self.spelled(int(i)) for i in ids).decode("utf-8", errors="replace")

    def symbol(self, name: str) -> int:
        """Return the id of one of the task's symbols."""
        return len(SPECIAL) + self.symbols.index(name)

    @property
    def ordinary(self) -> int:
        """Return the first id that is part of texts: from there on, all are."""
        return len(SPECIAL) + len(self.symbols)

    @property
    def line_end(self) -> int:
        """Return the id of the line end."""
        return self.ordinary

    def outside(self, documents: bool) -> list[int]:
        """Return the ids that never occur within a text or at its end, where each line is a document or not."""
        return [i for i in range(self.line_end + 1) if i != (EOS if documents else self.line_end)]

    def appended(self, text: str, number: int) -> str:
        """Return a text with that of an id after it."""
        return text + self.decode([number])

    def digest(self) -> str:
        """Return 12 hexadecimal digits that identify the vocabulary."""
        return hashlib.sha256(self.content()[1]).hexdigest()[:12]

    def save(self, directory: Path) -> None:
        """Write the vocabulary file into a directory; raises `TrainingError`."""
        name, content = self.content()
        write_bytes(directory / name, content)


class Characters(Vocabulary):
    """Character vocabulary; a character outside of it is the unknown id."""

    def __init__(self, characters: str, symbols: Sequence[str] = (), *, lowercase: bool = False) -> None:
        """Assign ids to the characters in this order; the first one must be the line end."""
        assert characters.startswith(LINE_END)
        self.characters, self.symbols, self.lowercase = characters, tuple(symbols), lowercase
        first = len(SPECIAL) + len(self.symbols)
        self._pieces = [*SPECIAL_PIECES, *self.symbols, *characters]
        self._ids = {character: first + index for index, character in enumerate(characters)}
        self.size = len(self._pieces)

    @classmethod
    def learn(cls, texts: Iterable[str], config: SubwordConfig, symbols: Sequence[str] = ()) -> Characters:
        """Learn the characters of the texts, sorted by code point; `character_coverage` leaves out the rarest."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text.lower() if config.lowercase else text)
        del counts[LINE_END]
        covered_characters, covered_count, total = [], 0, counts.total()
        for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if covered_count >= config.character_coverage * total:
                break
            covered_characters.append(character)
            covered_count += count
        return cls(LINE_END + "".join(sorted(covered_characters)), symbols, lowercase=config.lowercase)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:  # noqa: D102
        lookup = self._ids.get
        return [[lookup(c, UNK) for c in (text.lower() if self.lowercase else text)] for text in texts]

    def piece(self, number: int) -> str:  # noqa: D102
        return self._pieces[number]

    def _spelled(self, number: int) -> bytes:
        return self._pieces[number].encode()

    def content(self) -> tuple[str, bytes]:  # noqa: D102
        fields = {"characters": self.characters, "symbols": list(self.symbols), "lowercase": self.lowercase}
        return CHARACTERS_FILE, (json.dumps(fields, ensure_ascii=False, indent=1) + "\n").encode()


class Pieces(Vocabulary):
    """Lossless SentencePiece byte-pair encoding of whole lines.

    U+2581, which SentencePiece uses for a space, is decoded as one.
    """

    leads = True

    def __init__(self, model: bytes, *, origin: str = "subword model") -> None:
        """Read a serialized model; raises `CheckpointError` where it wasn't created by `learn`."""
        self._model = model
        self.processor = read_processor(model, origin)
        self.size = self.processor.vocab_size()
        first = len(SPECIAL)
        while first < self.size and self.processor.is_control(first):
            first += 1
        self.symbols = tuple(self.processor.id_to_piece(i) for i in range(len(SPECIAL), first))
        if first == self.size or self.processor.id_to_piece(first) != LINE_END:
            raise CheckpointError(f"{origin}: expected a subword model of single texts, found one of sentence pairs")

    @property
    def lowercases(self) -> bool:
        """Whether the model lower-cases what it encodes."""
        return self.processor.normalize("A") == "a"

    @classmethod
    def learn(cls, texts: Iterable[str], config: SubwordConfig, symbols: Sequence[str] = ()) -> Pieces:
        """Learn the merges from lines of text; raises `ConfigError` and `DataError` as `train_model` does."""
        lossless = {"add_dummy_prefix": False, "remove_extra_whitespaces": False}
        learned = {"control_symbols": list(symbols), "user_defined_symbols": [LINE_END]}
        return cls(train_model(texts, config, **lossless, **learned))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:  # noqa: D102
        return self.processor.encode(list(texts), num_threads=1)

    def piece(self, number: int) -> str:  # noqa: D102
        return self.processor.id_to_piece(int(number))

    def _spelled(self, number: int) -> bytes:
        piece = self.piece(number)
        if self.processor.is_byte(number):
            return bytes([int(piece[1:-1], 16)])  # <0xE2>
        return piece.replace(SPACE, " ").encode()

    def content(self) -> tuple[str, bytes]:  # noqa: D102
        return JOINT_FILE, self._model


class TextDecoder:
    """Incremental decoder: returns text id by id, as soon as its characters are complete."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, number: int) -> str:
        """Return the characters that this id completes, possibly none."""
        return self._bytes.decode(self._vocabulary.spelled(number))

    def end(self) -> str:
        """Return the rest: U+FFFD for an incomplete character."""
        return self._bytes.decode(b"", final=True)


def encode_words(vocabulary: Vocabulary, words: Sequence[str]) -> list[list[int]]:
    """Encode each word by itself, including a leading space, if any; every word gets at least one id."""
    return [ids or [UNK] for ids in vocabulary.encode_batch(words)]


def refuse_unknown(vocabulary: Vocabulary, text: str, origin: str) -> list[int]:
    """Encode text without unknown ids; raises `DataError` naming the first unknown character."""
    ids = vocabulary.encode(text)
    if UNK in ids:
        unknown = next((c for c in text if UNK in vocabulary.encode(c)), text)
        raise DataError(f"{origin}: expected characters of the training text, found {unknown!r}")
    return ids
