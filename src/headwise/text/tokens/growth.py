"""Growth of a subword vocabulary by what new text needs (`training.add_subwords`).

Byte-pair encoding goes on where it stopped: the new text is segmented by the model, its unknown characters become
subwords, and then the most frequent pair of adjacent subwords is joined, again and again. The new subwords come after
the old ones, with lower scores, so SentencePiece applies all old merges first and then the new ones in their order. Old
ids, and the segmentation of words without a new subword, stay the same.
"""

from __future__ import annotations

import heapq
import itertools
import struct
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable

import sentencepiece

from headwise.text.tokens.bpe_dropout import DropoutSegmenter
from headwise.text.tokens.subwords import UNK, Processor, Subwords

_SPACE = "\u2581"
_LEAST = 2  # occurrences of a pair that is joined
# Fields of sentencepiece_model.proto: ModelProto.pieces and .trainer_spec, SentencePiece.piece and .score,
# TrainerSpec.vocab_size; and the wire types of a varint, bytes and a float.
_PIECES, _TRAINER, _PIECE, _SCORE, _SIZE = 1, 2, 1, 2, 4
_VARINT, _BYTES, _FLOAT = 0, 2, 5


def grown_model(model: bytes, sentences: Iterable[str], most: int) -> bytes:
    """Return a serialized BPE model with at most `most` further subwords, learned from sentences.

    There are fewer if no pair of subwords occurs twice. A subword that joins others consists of letters, after an
    optional space; so punctuation and numbers aren't joined with words.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    size = processor.vocab_size()
    lowest = min(processor.get_score(index) for index in range(size))
    pieces = _learn(processor, sentences, most)
    added = b"".join(_field(_PIECES, _piece(piece, lowest - 1 - n)) for n, piece in enumerate(pieces))
    # A serialized message that is appended to another one is merged with it: repeated fields are extended.
    return model + added + _field(_TRAINER, _key(_SIZE, _VARINT) + _varint(size + len(pieces)))


def grow(subwords: Subwords, sources: Iterable[str], targets: Iterable[str], most: int) -> Subwords:
    """Return subwords with at most `most` further ones, in each model where there are two (see `grown_model`)."""
    source, target = subwords.models
    if subwords.joint:
        return Subwords(grown_model(source, itertools.chain(sources, targets), most))
    return Subwords(grown_model(source, sources, most), grown_model(target, targets, most))


def old_pieces(old: Processor, grown: Processor) -> list[list[int]]:
    """Return, for each new subword of a grown model, the ids that the old model segments it into."""
    assert isinstance(old, sentencepiece.SentencePieceProcessor)  # the configuration refuses others
    assert isinstance(grown, sentencepiece.SentencePieceProcessor)
    segmenter = DropoutSegmenter(old, 0.0)
    return [segmenter.segment(grown.id_to_piece(i)) for i in range(old.vocab_size(), grown.vocab_size())]


def _learn(processor: sentencepiece.SentencePieceProcessor, sentences: Iterable[str], most: int) -> list[str]:
    words = Counter(
        _SPACE + word
        for sentence in sentences
        for word in processor.normalize(sentence).split(_SPACE)[1:]
        if word
    )
    known = {processor.id_to_piece(i) for i in range(processor.vocab_size())}
    has_bytes = any(processor.is_byte(i) for i in range(processor.vocab_size()))
    added = [] if has_bytes else _unknown_characters(words, known)[:most]
    segmenter = DropoutSegmenter(processor, 0.0)
    table = [([processor.id_to_piece(i) for i in segmenter.segment(word)], n) for word, n in words.items()]
    unknown = processor.id_to_piece(UNK)
    table = [(pieces, n) for pieces, n in table if unknown not in pieces]
    return added + _joined_pairs(table, known, most - len(added))


def _unknown_characters(words: Counter[str], known: set[str]) -> list[str]:
    """Return the characters that aren't subwords, the most frequent first."""
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in set(word) - known:
            characters[character] += count
    return sorted(characters, key=lambda character: (-characters[character], character))


def _joined_pairs(table: list[tuple[list[str], int]], known: set[str], most: int) -> list[str]:
    """Join the most frequent pair of adjacent subwords `most` times, and return the results.

    `table` has segmented words and their counts; it and `known` are changed.
    """
    counts: Counter[str] = Counter()  # of the texts of adjacent pairs
    places: defaultdict[str, set[int]] = defaultdict(set)  # words that have or had such a pair
    for number, (pieces, count) in enumerate(table):
        for pair in map(str.__add__, pieces, pieces[1:]):
            counts[pair] += count
            places[pair].add(number)
    added: list[str] = []
    # A pair's entry may be outdated: it counts only if it has the pair's current count.
    queue = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(queue)
    while queue and len(added) < most:
        count, best = heapq.heappop(queue)
        if -count < _LEAST:
            break
        if -count != counts[best] or best in known or not _is_word(best):
            continue
        added.append(best)
        known.add(best)
        changed: set[str] = set()
        for number in places[best]:
            pieces, count = table[number]
            joined = _join(pieces, best)
            for parts, change in ((pieces, -count), (joined, count)):
                for pair in map(str.__add__, parts, parts[1:]):
                    counts[pair] += change
                    places[pair].add(number)
                    changed.add(pair)
            table[number] = (joined, count)
        for pair in changed:
            heapq.heappush(queue, (-counts[pair], pair))
    return added


def _join(pieces: list[str], pair: str) -> list[str]:
    joined: list[str] = []
    index = 0
    while index < len(pieces):
        if index + 1 < len(pieces) and pieces[index] + pieces[index + 1] == pair:
            joined.append(pair)
            index += 2
        else:
            joined.append(pieces[index])
            index += 1
    return joined


def _is_word(text: str) -> bool:
    letters = text.removeprefix(_SPACE)
    return bool(letters) and all(c.isalpha() or unicodedata.category(c).startswith("M") for c in letters)


def _piece(text: str, score: float) -> bytes:
    return _field(_PIECE, text.encode()) + _key(_SCORE, _FLOAT) + struct.pack("<f", score)


def _field(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
