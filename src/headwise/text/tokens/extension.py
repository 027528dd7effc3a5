"""Extension of a subword vocabulary by what new text needs (`training.add_subwords`).

Byte-pair encoding goes on where training stopped: the new text is segmented by the model, what it doesn't know becomes
subwords, and then the most frequent pair of adjacent subwords is joined, again and again. The new subwords come after
the old ones. In a BPE model their scores are lower, so SentencePiece applies all old merges first and then the new ones
in their order. In a Unigram model (Kudo 2018) each has hardly more than the sum of its parts' log-probabilities, so it
is chosen where its parts were. Old ids, and the segmentation of words without a new subword, stay the same.

An imported vocabulary numbers the subwords of its models by a list. Subwords of a model that its list lacks are among
what isn't known.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import sentencepiece

from headwise.chunks import chunks
from headwise.errors import ConfigError
from headwise.text.tokens.bpe_dropout import DropoutSegmenter
from headwise.text.tokens.pair_vocabulary import PairVocabulary, Side, VocabularyProcessor
from headwise.text.tokens.sentencepiece_file import (
    BPE,
    MODEL_TYPE,
    SPACE_IS_SUFFIX,
    TRAINER,
    UNIGRAM,
    VOCABULARY_SIZE,
    bytes_field,
    number_field,
    piece_field,
    whole_numbers,
)
from headwise.text.tokens.splitting import SPACE, open_processor
from headwise.text.tokens.subwords import UNK, Processor, Subwords

_LEAST = 2  # occurrences of a pair that is joined
_BLOCK = 4096  # sentences segmented at once
_UNKNOWN = -1e6  # log-probability of an unknown character
_BONUS = 1e-3  # log-probability by which a joined subword is better than its parts


def check_extensible(subwords: Subwords) -> None:
    """Raise `ConfigError` if a vocabulary can't be extended."""
    vocabulary = subwords.vocabulary
    if vocabulary is not None and (vocabulary.split != "sentencepiece" or vocabulary.symbols):
        symbols = vocabulary.split == "sentencepiece"
        found = f"symbols such as {vocabulary.symbols[0]}" if symbols else vocabulary.split
        raise ConfigError(f"training.add_subwords: expected a vocabulary of SentencePiece alone, found {found}")
    for model in subwords.models:
        options = whole_numbers(model, TRAINER)
        kind = options.get(MODEL_TYPE, UNIGRAM)
        if kind not in (BPE, UNIGRAM) or options.get(SPACE_IS_SUFFIX):
            found = "spaces at the ends of words" if kind in (BPE, UNIGRAM) else f"type {kind}"
            raise ConfigError(
                f"training.add_subwords: expected a BPE or Unigram model of SentencePiece with spaces before words, "
                f"found {found}"
            )


def extend(subwords: Subwords, sources: Iterable[str], targets: Iterable[str], most: int) -> Subwords:
    """Return subwords with at most `most` further ones, in each list where there are two (see `extended_model`).

    One list of the pieces of two models gets `most` in all, half of them by the text of each side unless that needs
    fewer. Raises `ConfigError` as `check_extensible`.
    """
    check_extensible(subwords)
    source, target = subwords.models
    vocabulary = subwords.vocabulary
    if vocabulary is None and subwords.joint:
        return Subwords(extended_model(source, itertools.chain(sources, targets), most))
    if vocabulary is None:
        return Subwords(extended_model(source, sources, most), extended_model(target, targets, most))
    lists = vocabulary.source, vocabulary.target or vocabulary.source
    sides = subwords.source_processor, subwords.target_processor
    if source == target:
        words = _words(sides[0], sources) + _words(sides[1], targets)
        added = [_learn(words, source, set(lists[0]) & set(lists[1]), most)] * 2
    else:
        texts = sources, targets
        added = [
            _learn(_words(side, text), model, set(pieces), most)
            for side, text, model, pieces in zip(sides, texts, subwords.models, lists, strict=True)
        ]
        if vocabulary.target is None:
            half = max(most - most // 2, most - len(added[1]))
            added = [added[0][:half], added[1][: most - len(added[0][:half])]]
    models = [_extended(model, pieces) for model, pieces in zip(subwords.models, added, strict=True)]
    return Subwords(models[0], models[1], _extended_vocabulary(vocabulary, added))


def extended_model(model: bytes, sentences: Iterable[str], most: int) -> bytes:
    """Return a serialized model with at most `most` further subwords, learned from sentences.

    There are fewer if no pair of subwords occurs twice. A subword that joins others consists of letters, after an
    optional space; so punctuation and numbers aren't joined with words.
    """
    processor = open_processor(model, "subword model")
    return _extended(model, _learn(_words(processor, sentences), model, _pieces(processor), most))


def old_pieces(old: Subwords, grown: Subwords, side: Side) -> list[list[int]]:
    """Return, for each new subword of a side, the old ids that it was segmented into."""
    before, after = (
        subwords.source_processor if side == "source" else subwords.target_processor for subwords in (old, grown)
    )
    if not isinstance(before, VocabularyProcessor):
        places, find = [0 if side == "source" else 1], before.piece_to_id
    else:
        places, find = [0, 1] if old.joint else [0 if side == "source" else 1], before.find
    segmenters = [_Segmenter(old.models[place], grown.models[place], find) for place in places]
    rows = []
    for piece in after.id_to_piece(list(range(before.vocab_size(), after.vocab_size()))):
        # One list may have pieces of two models; a new one is in one of them, or in both.
        candidates = [segmenter.ids(piece) for segmenter in segmenters if piece in segmenter.grown]
        rows.append(min(candidates, key=lambda ids: (UNK in ids, len(ids))))
    return rows


class _Segmenter:
    """Segments new subwords, which are among the pieces of a `grown` model, by the old one."""

    def __init__(self, model: bytes, grown: bytes, find: Callable[[str], int]) -> None:
        """`find` returns the id of a piece, that of unknown for one without."""
        self.grown = _pieces(open_processor(grown, "subword model"))
        self._processor = open_processor(model, "subword model")
        self._find = find
        self._merges: DropoutSegmenter | None = None
        self._scores: dict[str, float] = {}
        if _is_bpe(model):
            self._merges = DropoutSegmenter(self._processor, 0.0)
        else:
            scores = _scores(self._processor)
            self._scores = {piece: score for piece, score in scores.items() if find(piece) != UNK}

    def ids(self, piece: str) -> list[int]:
        """Return the ids of the pieces that a subword consists of."""
        if self._merges is not None:
            parts = self._processor.id_to_piece(self._merges.segment(piece))
        else:
            parts = _best_path(piece, self._scores)[1]
        ids = [self._find(part) for part in parts]
        return [number for n, number in enumerate(ids) if number != UNK or n == 0 or ids[n - 1] != UNK]


def _pieces(processor: sentencepiece.SentencePieceProcessor) -> set[str]:
    return set(processor.id_to_piece(list(range(processor.vocab_size()))))


def _scores(processor: sentencepiece.SentencePieceProcessor) -> dict[str, float]:
    """Return the log-probabilities of the pieces that a text can be segmented into."""
    return {
        processor.id_to_piece(i): processor.get_score(i)
        for i in range(processor.vocab_size())
        if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
    }


def _is_bpe(model: bytes) -> bool:
    return whole_numbers(model, TRAINER).get(MODEL_TYPE, UNIGRAM) == BPE


def _best_path(text: str, scores: Mapping[str, float]) -> tuple[float, list[str]]:
    """Return the best segmentation of a text by a Unigram model and its log-probability; unknown characters are last.

    Viterbi's algorithm (Kudo 2018, section 3.2).
    """
    best = [(0.0, 0), *[(-math.inf, 0)] * len(text)]  # of each end: log-probability, begin of the last piece
    for end in range(1, len(text) + 1):
        for begin in range(end):
            score = scores.get(text[begin:end], _UNKNOWN if begin == end - 1 else -math.inf)
            best[end] = max(best[end], (best[begin][0] + score, begin), key=lambda each: each[0])
    pieces, end = [], len(text)
    while end:
        begin = best[end][1]
        pieces.append(text[begin:end])
        end = begin
    return best[-1][0], pieces[::-1]


def _words(processor: Processor, sentences: Iterable[str]) -> Counter[tuple[str, ...]]:
    """Segment sentences; return the pieces of each word and its count."""
    words: Counter[tuple[str, ...]] = Counter()
    for block in chunks(sentences, itertools.repeat(_BLOCK)):
        if isinstance(processor, VocabularyProcessor):
            segmented = processor.segment(block)
        else:
            segmented = processor.encode(block, out_type=str, num_threads=1)
        for pieces in segmented:
            begins = [0, *(n for n in range(1, len(pieces)) if pieces[n].startswith(SPACE)), len(pieces)]
            words.update(tuple(pieces[a:b]) for a, b in itertools.pairwise(begins) if a < b)
    return words


def _learn(words: Counter[tuple[str, ...]], model: bytes, known: set[str], most: int) -> list[str]:
    """Return at most `most` new pieces: what isn't `known`, the most frequent first, and then joined pairs."""
    own = _pieces(open_processor(model, "subword model"))
    unknown: Counter[str] = Counter()
    for pieces, count in words.items():
        for piece in set(pieces) - known:
            parts = [piece] if piece in own else set(piece) - known
            unknown.update(dict.fromkeys(parts, count))
    added = sorted(unknown, key=lambda piece: (-unknown[piece], piece))[:most]
    table = [(list(pieces), n) for pieces, n in words.items() if all(piece in known for piece in pieces)]
    return added + _joined_pairs(table, {*known, *own, *added}, most - len(added))


def _extended(model: bytes, pieces: Sequence[str]) -> bytes:
    """Return a serialized model with further pieces; those that it has are left out."""
    processor = open_processor(model, "subword model")
    own, size = _pieces(processor), processor.vocab_size()
    new = [piece for piece in pieces if piece not in own]
    lowest = min(processor.get_score(number) for number in range(size))
    if _is_bpe(model):
        values = [lowest - 1 - number for number in range(len(new))]
    else:
        scores, values = _scores(processor), []
        for piece in new:
            value = lowest if len(piece) == 1 else _best_path(piece, scores)[0] + _BONUS
            scores[piece] = value
            values.append(value)
    added = b"".join(map(piece_field, new, values))
    # A serialized message that is appended to another one is merged with it: repeated fields are extended.
    return model + added + bytes_field(TRAINER, number_field(VOCABULARY_SIZE, size + len(new)))


def _extended_vocabulary(vocabulary: PairVocabulary, added: Sequence[Sequence[str]]) -> PairVocabulary:
    """Return a vocabulary with the further pieces of each side at the end of its list."""
    if vocabulary.target is None:
        added = [[*added[0], *added[1]]]
    source = tuple(dict.fromkeys([*vocabulary.source, *added[0]]))
    target = None if vocabulary.target is None else tuple(dict.fromkeys([*vocabulary.target, *added[-1]]))
    return dataclasses.replace(vocabulary, source=source, target=target)


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
    joined, place = list(pieces), 0
    while place < len(joined) - 1:
        if joined[place] + joined[place + 1] == pair:
            joined[place : place + 2] = [pair]
        place += 1
    return joined


def _is_word(text: str) -> bool:
    letters = text.removeprefix(SPACE)
    return bool(letters) and all(c.isalpha() or unicodedata.category(c).startswith("M") for c in letters)
