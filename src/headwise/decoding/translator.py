"""Strings in, translations out (design, contract 7): the door to a trained model."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.config import Config, DecodingConfig
from headwise.decoding.constraints import Symbols
from headwise.decoding.engine import Ensemble, decode
from headwise.decoding.options import SearchOptions
from headwise.decoding.scoring import score
from headwise.decoding.search import Hypothesis, length_penalty
from headwise.decoding.splitting import join_texts, split_text
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.models.base import Seq2Seq
from headwise.models.build import load_model
from headwise.nn.device import find_device, find_precision
from headwise.text.subword import BOS, EOS, PAD, UNK, Subwords

_SYMBOLS = Symbols(pad=PAD, unknown=UNK, bos=BOS, eos=EOS)


class LongLineWarning(UserWarning):
    """A line is longer than the model can read, and only its beginning was translated."""


@dataclass(frozen=True)
class Output:
    """One output for a source sentence.

    Attributes:
        text: detokenized.
        tokens: its subword ids, without the end symbol.
        pieces: its subwords as they are written, the end symbol last.
        log_probability: log P(text | source), natural logarithm, the end symbol included.
        score: log_probability / length penalty.
        token_log_probabilities: one for each of `pieces`; they sum to `log_probability`.
    """

    text: str
    tokens: tuple[int, ...]
    pieces: tuple[str, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]


@dataclass(frozen=True)
class Translation:
    """What a source sentence was translated to: `outputs`, best first (samples in the order drawn)."""

    source: str
    outputs: tuple[Output, ...]

    @property
    def text(self) -> str:
        """The best output, detokenized."""
        return self.outputs[0].text

    @property
    def score(self) -> float:
        """The best output's log-probability over its length penalty."""
        return self.outputs[0].score

    @property
    def log_probability(self) -> float:
        """The best output's log-probability."""
        return self.outputs[0].log_probability


_EMPTY = Output("", (), (), 0.0, 0.0, ())


class Translator:
    """A trained model (or several that vote), its subwords, and the search options of its configuration."""

    def __init__(self, model: Seq2Seq, subwords: Subwords, decoding: DecodingConfig | None = None) -> None:
        """Use a model that is already in memory, on the device where its parameters are."""
        decoding = decoding or DecodingConfig()
        self.model = model
        self.subwords = subwords
        self.batch_tokens = decoding.batch_tokens
        self.options = SearchOptions(
            beam=decoding.beam, alpha=decoding.alpha, extra_length=decoding.extra_length
        )

    @classmethod
    def load(
        cls,
        runs: str | Path | Sequence[str | Path],
        *,
        device: str = "auto",
        precision: str = "float32",
    ) -> Translator:
        """Load a run directory, or several as an ensemble; the first one's configuration gives the defaults.

        Raises `CheckpointError` where a run is missing, damaged or has other subwords than the first, and
        `DeviceError` where the device isn't there.
        """
        paths = [Path(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
        place = find_device(device)
        dtype = find_precision(precision, place)
        models, loaded = [], []
        for path in paths:
            if not path.is_dir():
                raise CheckpointError(f"{path}: expected a run directory, found none")
            config = Config.load(path / "config.yaml")
            subwords = Subwords.load(path, config.subwords)
            model = load_model(path, subwords.source_size, subwords.target_size, config).to(place)
            model.compute_dtype = dtype
            models.append(model)
            loaded.append((config, subwords))
        config, subwords = loaded[0]
        for path, (_, other) in zip(paths, loaded, strict=True):
            if other.digest() != subwords.digest():
                raise CheckpointError(
                    f"{path}: expected the subwords of {paths[0]} ({subwords.digest()}), "
                    f"as every run of an ensemble needs, found {other.digest()}"
                )
        return cls(models[0] if len(models) == 1 else Ensemble(models), subwords, config.decoding)

    def translate(
        self,
        texts: Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        split: bool = False,
        first_line: int = 1,
        **changes: Any,
    ) -> list[Translation]:
        """Translate sentences; the result is in their order and doesn't depend on how they are batched.

        `options` (or the run's) are changed by keyword: `translate(texts, beam=5, n_best=5)`. `prefixes` give
        the text with which each translation begins. An empty or blank sentence becomes an empty one, a line
        break inside a sentence a space. A sentence longer than the model can read is translated up to there,
        with a `LongLineWarning` that names its number (the first has `first_line`), or with `split` in parts,
        whose log-probabilities are added up.

        Raises `ConfigError` for an option that is unknown or out of range.
        """
        if isinstance(texts, str):
            raise ConfigError("translate: expected a list of sentences, found one string")
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError(
                f"prefixes: expected one for each of the {len(texts)} sentences, found {len(prefixes)}"
            )
        options = self._within_model(_changed(options or self.options, changes))
        units = [self._units(text, number, split) for number, text in enumerate(texts, start=first_line)]
        forced = None if prefixes is None else self._prefixes(prefixes, units, first_line)
        found = iter(
            decode(
                self.model,
                [unit for parts in units for unit in parts],
                options,
                _SYMBOLS,
                batch_tokens=self.batch_tokens,
                prefixes=forced,
            )
        )
        results = []
        for text, parts in zip(texts, units, strict=True):
            alternatives = [[self._output(h) for h in next(found)] for _ in parts]
            results.append(Translation(text, _joined(alternatives, options.alpha)))
        return results

    def translate_lines(
        self,
        lines: Iterable[str],
        options: SearchOptions | None = None,
        *,
        chunk: int = 1024,
        **arguments: Any,
    ) -> Iterator[Translation]:
        """Translate a stream in its order, holding at most `chunk` lines of it; arguments as for `translate`.

        The first chunks are smaller, so that the first results come soon.
        """
        stream = iter(lines)
        prefixes = arguments.pop("prefixes", None)
        given = None if prefixes is None else iter(prefixes)
        size, line = min(chunk, 64), arguments.pop("first_line", 1)
        while texts := list(itertools.islice(stream, size)):
            part = None if given is None else list(itertools.islice(given, len(texts)))
            yield from self.translate(texts, options, prefixes=part, first_line=line, **arguments)
            line += len(texts)
            size = min(chunk, 2 * size)

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
        if len(sources) != len(targets):
            raise DataError(
                f"score: expected one target for each of {len(sources)} sources, found {len(targets)}"
            )
        rows = [self._units(text, line, split=False) for line, text in enumerate(sources, start=first_line)]
        forced = []
        for line, target in enumerate(targets, start=first_line):
            ids = self._encode_target(target) if isinstance(target, str) else list(target)
            if len(ids) >= self.model.max_length:
                raise DataError(
                    f"line {line}: expected a target of at most {self.model.max_length - 1} subwords, "
                    f"found {len(ids)}"
                )
            forced.append(ids)
        hypotheses = score(
            self.model,
            [parts[0] if parts else [EOS] for parts in rows],
            forced,
            _SYMBOLS,
            alpha=self.options.alpha if alpha is None else alpha,
            batch_tokens=self.batch_tokens,
        )
        return [self._output(hypothesis) for hypothesis in hypotheses]

    def _units(self, text: str, line: int, split: bool) -> list[list[int]]:
        """Encode a sentence as the rows that are searched for it: none if empty, several if split."""
        room = self.model.max_length - 1
        text = text.replace("\n", " ").strip()
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
            ids = self._encode_target(prefix)
            if len(ids) >= self.model.max_length:
                raise DataError(
                    f"prefix {line}: expected at most {self.model.max_length - 1} subwords, found {len(ids)}"
                )
            rows += [ids if part == 0 else [] for part in range(len(parts))]
        return rows

    def _encode_target(self, text: str) -> list[int]:
        return self.subwords.encode_target(text.replace("\n", " ").strip())

    def _output(self, hypothesis: Hypothesis) -> Output:
        return Output(
            text=self.subwords.decode_target(hypothesis.tokens),
            tokens=hypothesis.tokens,
            pieces=tuple(self.subwords.target_pieces([*hypothesis.tokens, EOS])),
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            token_log_probabilities=hypothesis.token_log_probabilities,
        )

    def _within_model(self, options: SearchOptions) -> SearchOptions:
        """Bound the output by the positions that the model has."""
        room = self.model.max_length - 1
        if options.min_length > room:
            raise ConfigError(f"min_length: expected at most the model's {room}, found {options.min_length}")
        longest = room if options.max_length is None else min(options.max_length, room)
        return dataclasses.replace(options, max_length=longest)


def _changed(options: SearchOptions, changes: dict[str, Any]) -> SearchOptions:
    known = [field.name for field in dataclasses.fields(SearchOptions)]
    for name in changes:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known options: {', '.join(known)}"
            raise ConfigError(f"{name}: unknown search option ({hint})")
    return dataclasses.replace(options, **changes)


def _joined(parts: list[list[Output]], alpha: float) -> tuple[Output, ...]:
    """Join the outputs of a sentence's parts rank by rank; a part with fewer repeats its last one."""
    if not parts:
        return (_EMPTY,)
    if len(parts) == 1:
        return tuple(parts[0])
    joined = []
    for rank in range(max(map(len, parts))):
        chosen = [outputs[min(rank, len(outputs) - 1)] for outputs in parts]
        gains = tuple(itertools.chain.from_iterable(output.token_log_probabilities for output in chosen))
        log_probability = sum(output.log_probability for output in chosen)
        joined.append(
            Output(
                text=join_texts([output.text for output in chosen]),
                tokens=tuple(itertools.chain.from_iterable(output.tokens for output in chosen)),
                pieces=tuple(itertools.chain.from_iterable(output.pieces for output in chosen)),
                log_probability=log_probability,
                score=log_probability / length_penalty(len(gains), alpha),
                token_log_probabilities=gains,
            )
        )
    return tuple(joined)
