"""Strings in, translations out: a trained model for those who know nothing of ids.

The same sentence gets the same translation in any batch. Its log-probabilities differ by rounding alone, as matrix
products of another size add up in another order: below 1e-4 in float32, by about 1 % in bfloat16, where two
candidates that are nearly tied may therefore change places. (The native engine adds up in one order, whatever the
batch, in every precision.)
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from headwise.characters import check_characters
from headwise.chunks import chunks, growing, results
from headwise.config import DecodingConfig
from headwise.decoding.alignment import Link, cross_attention, word_links
from headwise.decoding.batching import decode
from headwise.decoding.beam.constraints import Symbols
from headwise.decoding.beam.hypothesis import Hypothesis
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.forced import score
from headwise.decoding.loading import EngineOptions, Watch, open_run
from headwise.decoding.options import SearchOptions
from headwise.decoding.outputs import Output, Translation, joined
from headwise.decoding.shortlist import FILE as SHORTLIST
from headwise.decoding.shortlist import Shortlist
from headwise.decoding.splitting import split_text
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.models.base import Seq2Seq
from headwise.text.reading.lines import one_line
from headwise.text.tokens.seen import FILE as SEEN
from headwise.text.tokens.seen import Novelty, Seen
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK, Subwords

SYMBOLS = Symbols(pad=PAD, unknown=UNK, bos=BOS, eos=EOS)


class LongLineWarning(UserWarning):
    """A line is longer than the model can read, and only its beginning was translated."""


class Translator:
    """A trained model (or several that vote), its subwords, and the search options of its configuration."""

    def __init__(
        self, model: Seq2Seq, subwords: Subwords, decoding: DecodingConfig | None = None, engine: str = ""
    ) -> None:
        """Use a model, or an engine that stands for one; `engine` describes it in a phrase."""
        decoding = decoding or DecodingConfig()
        self.subwords = subwords
        self.batch_tokens = decoding.batch_tokens
        self.options = SearchOptions(
            beam=decoding.beam, alpha=decoding.alpha, extra_length=decoding.extra_length
        )
        self.engine = engine
        self.shortlist: Shortlist | None = None
        self.novelty = Novelty(subwords)
        self._fast = model
        self._readable: tuple[Seq2Seq, Watch] | None = None

    @classmethod
    def load(
        cls,
        runs: str | Path | Sequence[str | Path],
        *,
        device: str = "auto",
        precision: str | None = None,
        engine: str = "auto",
        workers: int = 0,
        shortlist: bool = False,
    ) -> Translator:
        """Load a run directory, or several as an ensemble; the first one's configuration gives the defaults.

        For `device`, `precision`, `engine` and `workers` see `headwise.decoding.loading.EngineOptions`. `shortlist`
        lets translations hold only the subwords that the first run's shortlist gives for their source. Raises
        `CheckpointError` where a run is missing, damaged, without the shortlist asked for, or has other subwords than
        the first, and `ConfigError` or `DeviceError` where it can't be decoded as asked.
        """
        paths = [Path(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
        options = EngineOptions(engine, precision, device, workers)
        opened = [open_run(path, options) for path in paths]
        first = opened[0]
        for path, other in zip(paths, opened, strict=True):
            if other.subwords.digest() != first.subwords.digest():
                raise CheckpointError(
                    f"{path}: expected the subwords of {paths[0]} ({first.subwords.digest()}), "
                    f"as every run of an ensemble needs, found {other.subwords.digest()}"
                )
        models = [each.model for each in opened]
        model = models[0] if len(models) == 1 else Ensemble(models)
        translator = cls(model, first.subwords, first.config.decoding, first.engine)
        translator.novelty = Novelty(first.subwords, _seen(paths, first.subwords))
        if shortlist:
            sizes = first.subwords.source_size, first.subwords.target_size
            translator.shortlist = Shortlist.load(paths[0] / SHORTLIST, first.subwords.digest(), *sizes)
            translator.engine += f", shortlist ({translator.shortlist})"
        return translator

    @property
    def model(self) -> Seq2Seq:
        """The readable model, loaded when it is first asked for.

        Where it is changed, or probes are set, translations come from it and no longer from an engine.
        """
        if self._readable is None:
            with torch.inference_mode(False):  # whoever asks: its parameters' changes must be seen
                model = self._fast.readable
            self._readable = model, Watch(model)
        return self._readable[0]

    @model.setter
    def model(self, model: Seq2Seq) -> None:
        self._fast, self._readable, self.engine = model, None, ""

    @property
    def searched(self) -> Seq2Seq:
        """What translations come from: the engine, or the readable model once that was changed."""
        changed = self._readable is not None and self._readable[1].touched()
        return self.model if changed else self._fast

    def options_with(self, options: SearchOptions | None = None, **changes: Any) -> SearchOptions:
        """Return the given options, or the run's, with some of them changed.

        Raises `ConfigError` for an option that is unknown, naming the nearest known one, or out of range.
        """
        known = [field.name for field in dataclasses.fields(SearchOptions)]
        for name in changes:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known options: {', '.join(known)}"
                raise ConfigError(f"{name}: unknown search option ({hint})")
        return dataclasses.replace(options or self.options, **changes)

    def translate(
        self,
        texts: Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        split: bool = False,
        alignments: bool = False,
        first_line: int = 1,
        **changes: Any,
    ) -> list[Translation]:
        """Translate sentences; the result is in their order and doesn't depend on how they are batched.

        `options` (or the run's) are changed by keyword: `translate(texts, beam=5, n_best=5)`. `prefixes` give
        the text with which each translation begins. An empty or blank sentence becomes an empty one, a line end
        inside a sentence a space, in a translation, too. A sentence longer than the model can read is translated up
        to there, with a `LongLineWarning` that names its number (the first has `first_line`), or with `split` in parts,
        whose log-probabilities are added up. `alignments` links the words (see `align`).

        Raises `ConfigError` for an option that is unknown or out of range.
        """
        if isinstance(texts, str):
            raise ConfigError("translate: expected a list of sentences, found one string")
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError(
                f"prefixes: expected one for each of the {len(texts)} sentences, found {len(prefixes)}"
            )
        options = self._within_model(self.options_with(options, **changes))
        units = [self._units(text, number, split) for number, text in enumerate(texts, start=first_line)]
        sources = [ids for parts in units for ids in parts]
        forced = None if prefixes is None else self._prefixes(prefixes, units, first_line)
        found = decode(
            self.searched,
            sources,
            options,
            SYMBOLS,
            batch_tokens=self.batch_tokens,
            prefixes=forced,
            shortlist=self.shortlist,
        )
        links = self._links(sources, found) if alignments else itertools.repeat(None)
        translated = (self._translation(*each) for each in zip(sources, found, links, strict=False))
        whole = [
            joined(list(itertools.islice(translated, len(parts))), text, options.alpha, aligned=alignments)
            for text, parts in zip(texts, units, strict=True)
        ]
        new = (self.novelty.words(text, "source") for text in texts)
        return [
            dataclasses.replace(one, unknown=words) if words else one
            for one, words in zip(whole, new, strict=True)
        ]

    def translate_lines(
        self,
        lines: Iterable[str],
        options: SearchOptions | None = None,
        *,
        chunk: int = 1024,
        **arguments: Any,
    ) -> Iterator[Translation]:
        """Translate a stream in its order, holding at most `chunk` lines of it; arguments as for `translate`.

        The first chunks are smaller, so that the first results come soon. Where a line or a prefix can't be read, the
        lines before it are translated first, and then the error is raised.
        """
        first = arguments.pop("first_line", 1)
        prefixes = arguments.pop("prefixes", None)

        def work(part: Sequence[tuple[int, str, str | None]]) -> list[Translation]:
            numbers, texts, beginnings = zip(*part, strict=True)
            forced = None if prefixes is None else beginnings
            return self.translate(texts, options, prefixes=forced, first_line=numbers[0], **arguments)

        for part in chunks(_with_prefixes(lines, prefixes, first), growing(64, chunk)):
            yield from results(work, part)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str | Sequence[int]],
        *,
        alpha: float | None = None,
        first_line: int = 1,
    ) -> list[Output]:
        """Return the log-probability of given translations, text or subword ids, by forced decoding.

        For the ids of a translation this is what the search reported for it. `alpha` is the length penalty's
        exponent in `score`, the run's unless given. A source longer than the model can read counts up to
        there, with a `LongLineWarning`. Raises `DataError` for a target longer than that, naming its number.
        """
        rows = self._pairs(sources, targets, first_line)
        hypotheses = score(
            self.model,
            *rows,
            SYMBOLS,
            alpha=self.options.alpha if alpha is None else self.options_with(alpha=alpha).alpha,
            batch_tokens=self.batch_tokens,
        )
        return [self._output(hypothesis) for hypothesis in hypotheses]

    def align(
        self, sources: Sequence[str], targets: Sequence[str | Sequence[int]], *, first_line: int = 1
    ) -> list[tuple[Link, ...]]:
        """Link each target word to a source word by cross-attention, as `(source word, target word)` from 0.

        Words are what spaces separate; see `headwise.decoding.alignment`.
        """
        return self._aligned(*self._pairs(sources, targets, first_line))

    def _pairs(
        self, sources: Sequence[str], targets: Sequence[str | Sequence[int]], first_line: int
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Encode pairs for forced decoding."""
        if len(sources) != len(targets):
            raise DataError(
                f"expected one target for each of the {len(sources)} sources, found {len(targets)}"
            )
        rows = [self._units(text, line, split=False) for line, text in enumerate(sources, start=first_line)]
        forced = []
        for line, target in enumerate(targets, start=first_line):
            ids = self._encode_target(target, f"line {line}") if isinstance(target, str) else list(target)
            if len(ids) >= self._fast.max_length:
                raise DataError(
                    f"line {line}: expected a target of at most {self._fast.max_length - 1} subwords, "
                    f"found {len(ids)}"
                )
            forced.append(ids)
        return [parts[0] if parts else [EOS] for parts in rows], forced

    def _units(self, text: str, line: int, split: bool) -> list[list[int]]:
        """Encode a sentence as the rows that are searched for it: none if empty, several if split."""
        room = self._fast.max_length - 1
        text = one_line(check_characters(text, f"line {line}")).strip()
        ids = self.subwords.encode_source(text)
        if len(ids) <= room:
            return [[*ids, EOS]] if ids else []
        if split:
            parts = split_text(text, lambda part: len(self.subwords.encode_source(part)) <= room)
            return [[*self.subwords.encode_source(part)[:room], EOS] for part in parts]
        message = f"line {line}: {len(ids)} subwords, the model reads the first {room} of them"
        warnings.warn(message, LongLineWarning, stacklevel=4)
        return [[*ids[:room], EOS]]

    def _prefixes(
        self, prefixes: Sequence[str], units: Sequence[Sequence[Sequence[int]]], first_line: int
    ) -> list[list[int]]:
        """Encode each sentence's prefix, for the first of its parts."""
        rows: list[list[int]] = []
        for line, (prefix, parts) in enumerate(zip(prefixes, units, strict=True), start=first_line):
            ids = self._encode_target(prefix, f"prefix {line}")
            if len(ids) >= self._fast.max_length:
                raise DataError(
                    f"prefix {line}: expected at most {self._fast.max_length - 1} subwords, found {len(ids)}"
                )
            rows += [ids if part == 0 else [] for part in range(len(parts))]
        return rows

    def _links(
        self, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Hypothesis]]
    ) -> Iterator[list[tuple[Link, ...]]]:
        """Align every hypothesis with its source."""
        flat = [ids for ids, hypotheses in zip(sources, found, strict=True) for _ in hypotheses]
        targets = [hypothesis.tokens for hypotheses in found for hypothesis in hypotheses]
        links = iter(self._aligned(flat, targets))
        return (list(itertools.islice(links, len(hypotheses))) for hypotheses in found)

    def _aligned(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[tuple[Link, ...]]:
        weights = cross_attention(self.model, sources, targets, SYMBOLS, batch_tokens=self.batch_tokens)
        return [
            word_links(part, self.subwords.source_pieces(source[:-1]), self.subwords.target_pieces(target))
            for part, source, target in zip(weights, sources, targets, strict=True)
        ]

    def _encode_target(self, text: str, place: str) -> list[int]:
        return self.subwords.encode_target(one_line(check_characters(text, place)).strip())

    def _translation(
        self,
        source: Sequence[int],
        hypotheses: Sequence[Hypothesis],
        links: Sequence[tuple[Link, ...]] | None,
    ) -> Translation:
        aligned = itertools.repeat(None) if links is None else links
        outputs = [self._output(*each) for each in zip(hypotheses, aligned, strict=False)]
        pieces = tuple(self.subwords.source_pieces(source[:-1]))
        return Translation(one_line(self.subwords.decode_source(source)), pieces, tuple(outputs))

    def _output(self, hypothesis: Hypothesis, links: tuple[Link, ...] | None = None) -> Output:
        return Output(
            text=one_line(self.subwords.decode_target(hypothesis.tokens)),
            tokens=hypothesis.tokens,
            pieces=tuple(self.subwords.target_pieces([*hypothesis.tokens, EOS])),
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            token_log_probabilities=hypothesis.token_log_probabilities,
            alignment=links,
        )

    def _within_model(self, options: SearchOptions) -> SearchOptions:
        """Bound the output by the positions that the model has."""
        room = self._fast.max_length - 1
        if options.min_length > room:
            raise ConfigError(f"min_length: expected at most the model's {room}, found {options.min_length}")
        longest = room if options.max_length is None else min(options.max_length, room)
        return dataclasses.replace(options, max_length=longest)


def _seen(runs: Sequence[Path], subwords: Subwords) -> Seen | None:
    """Read what any of an ensemble's runs saw in training; None where one of them doesn't say."""
    found = [Seen.find(run / SEEN, subwords) for run in runs]
    known = [one for one in found if one is not None]
    return functools.reduce(Seen.joined, known) if len(known) == len(runs) else None


def _with_prefixes(
    lines: Iterable[str], prefixes: Iterable[str] | None, first: int
) -> Iterator[tuple[int, str, str | None]]:
    """Number the lines and put a prefix beside each; raises `DataError` where there are fewer or more of them."""
    beginnings = None if prefixes is None else iter(prefixes)
    line = first - 1
    for line, text in enumerate(lines, start=first):
        prefix = None if beginnings is None else next(beginnings, None)
        if beginnings is not None and prefix is None:
            raise DataError(f"prefixes: expected one for each line, found none for line {line}")
        yield line, text, prefix
    if beginnings is not None and next(beginnings, None) is not None:
        raise DataError(f"prefixes: expected one for each of the {line} lines, found more")
