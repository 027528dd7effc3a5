"""A look at two texts before a training begins: what would waste it is said, or stops it.

Sides that are identical or swapped, or surely in another language than declared, are a mistake. All else that is found
is said, with the next step, in one paragraph. The first pairs are read; their languages are told by samples of them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.config import DataConfig
from headwise.config.languages import NAMES, base_code, language_name
from headwise.errors import DataError
from headwise.extras import OPTIONAL, installed
from headwise.text.reading.pairs import read_pairs, training_files

_LIBRARY = "py3langid"
_READ = 20_000  # pairs
_SAMPLES, _SAMPLE = 15, 20  # samples of a side, lines of one
_LETTERS = 150  # of a sample that is told by, at least
_LEAST_SAMPLES = 5
_SURE, _AGREEING = 0.99, 0.9  # confidence of a sample's language; share of the samples that agree
_IDENTICAL, _SAME = 0.9, 0.1  # share of identical pairs that is a mistake, and that is said
_REPEATED = 0.2  # share of repeated pairs that is said
_RATIO = 5.0  # of the sides' characters
_COUNTED, _CORRELATED = 200, 0.3  # pairs whose lengths are compared; least correlation
_FEW = 10_000  # pairs, below which a model of nothing learns little
_LIKE = """no nn nb da sv, hr sr bs sl sh, id ms jv ace, cs sk, pt gl es ca oc ext an, zh yue wuu ja, hi mr ne sa,
    ru uk be bg mk, fa ps ur sdh ku, nl af fy lb de, it co vec lij, xh zu st nso tn, fr wa ht oc gcf gcr,
    az tr tk uz uzs crh tt, ar ary arz, ro mo, en pcm"""  # languages that are taken for each other


@dataclass(frozen=True)
class _Side:
    """What was found of one side: its language where the samples agree, and how many did."""

    name: str
    declared: str | None
    language: str | None
    agreeing: int
    samples: int

    @property
    def other(self) -> bool:
        """Whether the text is surely in another language than declared, and none that is taken for it."""
        if self.language is None or self.declared is None or _alike(self.language, self.declared):
            return False
        from headwise.text.reading.detection import is_known

        return is_known(base_code(self.declared)) or _names_nothing(self.declared)

    def __str__(self) -> str:
        """Name the language."""
        return f"{language_name(self.language or '')} ({self.agreeing} of {self.samples} samples)"


def inspect_texts(data: DataConfig, pairs: int, begun_from: tuple[str | None, str | None] | None = None) -> list[str]:
    """Return what is found in the texts of a new training, as one paragraph; none where there is nothing to say.

    `pairs` is their number, and `begun_from` the languages of the run that training begins from, if any. Raises
    `DataError` for texts that are surely a mistake.
    """
    found = list(itertools.islice(_first_pairs(data), _READ))
    if not found:
        return []
    sides = _languages(data, found)
    _refuse(data, sides, found)
    remarks = [*_about_languages(data, sides, begun_from), *_about_pairs(found)]
    if pairs < _FEW and begun_from is None:
        codes = "-".join(base_code(side.declared or side.language or "") for side in sides)
        name = codes if codes.strip("-") == codes and "-" in codes else "en-de"
        remarks.append(
            f"{pairs:,} pairs are few for a model that begins with nothing, whose translations will be poor; adapting "
            f"a trained one would serve: `headwise import hf:Helsinki-NLP/opus-mt-{name} -o runs/opus`, for instance, "
            "then `--from runs/opus`"
        )
    looks = f"source {sides[0]}, target {sides[1]}" if all(side.language for side in sides) else ""
    sentences = [*([looks] if looks else []), *remarks]
    return [f"texts: {'; '.join(sentences)}"] if sentences else []


def _first_pairs(data: DataConfig) -> Iterator[tuple[str, str]]:
    for files in training_files(data):
        for source, target, _ in read_pairs(files, data.source_field, data.target_field):
            yield source.decode("utf-8", "replace").strip(), target.decode("utf-8", "replace").strip()


def _languages(data: DataConfig, pairs: Sequence[tuple[str, str]]) -> tuple[_Side, _Side]:
    sources, targets = zip(*pairs, strict=True)
    source, target = data.languages
    return _side("source", source, sources), _side("target", target, targets)


def _side(name: str, declared: str | None, texts: Sequence[str]) -> _Side:
    """Tell a side's language from samples that stand evenly in the text; None where they don't agree."""
    if not installed(_LIBRARY):
        return _Side(name, declared, None, 0, 0)
    from headwise.text.reading.detection import detect

    votes: Counter[str] = Counter()
    step = max(_SAMPLE, len(texts) // _SAMPLES)
    for start in range(0, len(texts), step)[:_SAMPLES]:
        sample = " ".join(texts[start : start + _SAMPLE])
        if sum(map(str.isalpha, sample)) < _LETTERS:
            continue
        first = detect(sample)[0]
        votes[first.language if first.confidence >= _SURE else ""] += 1
    count = votes.total()
    language, agreeing = votes.most_common(1)[0] if votes else ("", 0)
    sure = language and count >= _LEAST_SAMPLES and agreeing >= _AGREEING * count
    return _Side(name, declared, language if sure else None, agreeing, count)


def _refuse(data: DataConfig, sides: tuple[_Side, _Side], pairs: Sequence[tuple[str, str]]) -> None:
    """Raise `DataError` for sides that are identical, swapped, or surely in another language than declared."""
    source, target = sides
    files = dict(zip(sides, (data.source, data.target or data.source), strict=True))
    end = "`--no-checks` trains nevertheless"
    same = sum(left == right for left, right in pairs)
    if same >= _IDENTICAL * len(pairs):
        raise DataError(
            f"{_named(files[target])}: expected the translation of {_named(files[source])}, found the same text in "
            f"{same:,} of {len(pairs):,} lines; {end}"
        )
    if source.other and target.other and _is(source, target.declared) and _is(target, source.declared):
        raise DataError(
            f"{_named(files[source])}: expected {language_name(source.declared or '')} as source, found {source}, and "
            f"the target is {target}: the two sides are swapped; {end}"
        )
    for side in sides:
        if side.other:
            expected = language_name(side.declared or "") if side.declared in NAMES else repr(side.declared)
            raise DataError(
                f"{_named(files[side])}: expected {expected} as {side.name}, as --languages or the file's name says, "
                f"found {side}; give the right file or --languages; {end}"
            )


def _about_languages(
    data: DataConfig, sides: tuple[_Side, _Side], begun_from: tuple[str | None, str | None] | None
) -> Iterator[str]:
    source, target = sides
    if not installed(_LIBRARY):
        yield f"their languages aren't checked, which needs `pip install '{OPTIONAL[_LIBRARY]}'`"
    if source.language is not None and source.language == target.language:
        yield "both sides look like one language; is one of the files the wrong one?"
    for side in sides:
        if side.declared is not None and _names_nothing(side.declared):
            yield f"{side.declared} names no language (--languages)"
    if begun_from is None:
        return
    for side, begun in zip(sides, begun_from, strict=True):
        own = side.language or side.declared
        if own is not None and begun is not None and not _alike(own, begun):
            yield (
                f"the run to begin from has {language_name(begun)} as {side.name}, this text {language_name(own)}: "
                "little of what it has learned will serve; begin from a run of these languages, or from nothing"
            )


def _about_pairs(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    count = len(pairs)
    if (same := sum(left == right for left, right in pairs)) >= _SAME * count:
        yield f"{same / count:.0%} of the pairs are the same on both sides, which teaches copying; remove them"
    if (repeated := count - len(set(pairs))) >= _REPEATED * count:
        yield f"{repeated / count:.0%} of the pairs are repetitions, which count once"
    lengths = np.array([[len(left), len(right)] for left, right in pairs], dtype=np.float64)
    ratio = float(lengths[:, 1].sum() / max(lengths[:, 0].sum(), 1.0))
    if not 1 / _RATIO <= ratio <= _RATIO:
        yield f"the target has {ratio:.2g} times as many characters as the source; is line N of one that of the other?"
    elif count >= _COUNTED and (lengths.std(axis=0) > 0).all():
        correlation = float(np.asarray(np.corrcoef(lengths.T))[0, 1])
        if correlation < _CORRELATED:
            yield (
                f"the lengths of a pair's sides have little to do with each other (correlation {correlation:.2f}); is "
                "line N of one the translation of line N of the other?"
            )


def _names_nothing(code: str) -> bool:
    """Whether a code of two letters is none of ISO 639-1, which are all known."""
    return len(code) == 2 and code not in NAMES


def _alike(one: str, other: str) -> bool:
    one, other = base_code(one), base_code(other)
    return one == other or any({one, other} <= set(group.split()) for group in _LIKE.split(","))


def _is(side: _Side, code: str | None) -> bool:
    return side.language is not None and code is not None and _alike(side.language, code)


def _named(files: Sequence[str]) -> str:
    return ", ".join(files[:2]) + (f" and {len(files) - 2} more" if len(files) > 2 else "")
