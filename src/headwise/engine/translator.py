"""Translation of text with a trained model: strings in, translations out.

The same sentence gets the same translation in any batch. Its log-probabilities differ only by rounding, because matrix
products of another size are summed in another order: by less than 1e-4 in float32 and by about 1 % in bfloat16, where
two nearly tied candidates may therefore change places. (The native engine sums in the same order in every batch,
in all precisions.)
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.characters import check_characters, has_letters_or_digits
from headwise.chunks import chunks, growing, results
from headwise.config import Config, DecodingConfig
from headwise.documents.pieces import has_words
from headwise.engine.alignment import Link, SubwordWeights, word_links
from headwise.engine.base import Engine, Ids, SearchSentence
from headwise.engine.guards.numbers import SourceNumbers
from headwise.engine.guards.quotations import SourceQuotations
from headwise.engine.guards.second_search import search_checked
from headwise.engine.guards.words import DictionaryWords
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.loading import EngineOptions, ensemble, open_run
from headwise.engine.options import SearchOptions, changed_options
from headwise.engine.outputs import Output, Translation, join_translations
from headwise.engine.quality import QualityCurve, mean_probability
from headwise.engine.readings.line_reader import LineReader
from headwise.engine.readings.reading import read_texts
from headwise.engine.readings.spelling import Speller, unlearned
from headwise.engine.sentences import EncodedSentences, Split, encode_source, listed, readable, with_prefixes
from headwise.engine.shortlist import FILE as SHORTLIST
from headwise.engine.shortlist import Shortlist
from headwise.engine.symbols import SYMBOLS
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.shipped.runs import find_run
from headwise.text.reading.glossary import Glossary
from headwise.text.reading.lines import one_line
from headwise.text.tokens.pair_vocabulary import Side
from headwise.text.tokens.subwords import EOS, Subwords
from headwise.text.tokens.unknown import UnknownWordFinder
from headwise.weights import Weights, model_file


class Translator:
    """An engine with the subwords of its model and the search options of its configuration."""

    def __init__(self, engine: Engine, subwords: Subwords, decoding: DecodingConfig | None = None) -> None:
        """Use an engine of one model or of an ensemble."""
        decoding = decoding or DecodingConfig()
        self.engine = engine
        self.subwords = subwords
        self.reader = LineReader(subwords, Speller(subwords))
        self.symbols = dataclasses.replace(
            SYMBOLS, given=subwords.given, continuing=subwords.continuing(), lettered=subwords.lettered()
        )
        self.batch_tokens = decoding.batch_tokens
        self.options = SearchOptions(**decoding.search)
        self.shortlist: Shortlist | None = None
        self.quality: QualityCurve | None = None  # None: not measured
        self.unknown: dict[Side, UnknownWordFinder] = {
            "source": UnknownWordFinder(subwords, "source"),
            "target": UnknownWordFinder(subwords, "target"),
        }

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
        language: str | None = None,
        configs: Sequence[Config] = (),
    ) -> Translator:
        """Load a run, by its directory or name, or several as an ensemble; the first gives the defaults.

        For `device`, `precision`, `engine` and `workers` see `headwise.engine.loading.EngineOptions`. `shortlist`
        restricts translations to the first run's vocabulary shortlist. `language` is a language code of an imported
        vocabulary, to translate to another language than the run names. `configs` are the runs' configurations, if they
        have been read already. Raises `CheckpointError` where a run is missing or damaged, lacks the requested
        shortlist, or has other subwords than the first run, and `ConfigError` or `DeviceError` where it doesn't support
        the options.
        """
        paths = [find_run(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
        options = EngineOptions(engine, precision, device, workers)
        read = configs or [None] * len(paths)
        loaded_runs = [open_run(path, options, config) for path, config in zip(paths, read, strict=True)]
        config, subwords = loaded_runs[0].config, loaded_runs[0].subwords
        digest = subwords.digest()
        for path, other in zip(paths, loaded_runs, strict=True):
            if other.subwords.digest() != digest:
                raise CheckpointError(
                    f"{path}: expected the subwords of {paths[0]} ({digest}), as every run of an ensemble needs, "
                    f"found {other.subwords.digest()}"
                )
        lacking = unlearned(Weights(model_file(paths[0])), config.model.d_model, subwords)
        subwords = subwords.avoiding(lacking)
        translator = cls(ensemble([each.engine for each in loaded_runs]), subwords, config.decoding)
        translator.reader = LineReader.of_run(paths[0], config, subwords, Speller(subwords, lacking))
        translator.quality = QualityCurve.of_run(paths[0]) if len(paths) == 1 else None
        if shortlist:
            sizes = subwords.source_size, subwords.target_size
            translator.shortlist = Shortlist.load(paths[0] / SHORTLIST, digest, *sizes)
        return translator if language is None else translator.in_language(language)

    def in_language(self, language: str) -> Translator:
        """Return a translator of the same model to another language, a code of an imported vocabulary.

        Raises `ConfigError` if the vocabulary has no such code.
        """
        other = copy.copy(self)
        other.subwords = self.subwords.with_language(language)
        other.symbols = dataclasses.replace(self.symbols, given=other.subwords.given)
        other.reader = self.reader.in_language(other.subwords)
        return other

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The codes of the source and target language, where known."""
        return self.reader.languages

    @property
    def description(self) -> str:
        """A phrase about the engine, its precision and the shortlist."""
        shortlist = "" if self.shortlist is None else f", shortlist ({self.shortlist})"
        return f"{self.engine.description}{shortlist}"

    def options_with(self, options: SearchOptions | None = None, **changes: Any) -> SearchOptions:
        """Return `options`, or the run's options, with some of them changed.

        Raises `ConfigError` for a value out of range and for an unknown option, with the nearest known one.
        """
        return changed_options(options or self.options, changes)

    def translate(
        self,
        texts: Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        glossary: Glossary | None = None,
        split: Split = False,
        alignments: bool = False,
        first_line: int = 1,
        **changes: Any,
    ) -> list[Translation]:
        """Translate sentences; the results are in their order and don't depend on the batches.

        Keyword arguments override `options`, or the run's options: `translate(texts, beam=5, n_best=5)`. `prefixes` are
        the texts with which the translations begin. The translation of an empty or blank sentence is empty, and without
        prefixes a sentence without a letter or a digit, such as emoji, is its own. A line end
        inside a sentence or a translation is replaced by a space. A sentence longer than the model's maximum length is
        truncated, with a `LongLineWarning` that has its line number (`first_line` for the first sentence), or with
        `split="long"` translated in parts, whose log-probabilities are summed; with `split=True` every sentence of a
        line is a part, or several if it is too long (extra `documents`). `alignments` adds word alignments (see
        `align`). For each term of `glossary` in a sentence, one of its translations is placed, or there is a warning.

        Raises `ConfigError` for an option that is unknown or out of range, and for a glossary with sampling.
        """
        options = self.options_with(options, **changes)
        encoded = self.encode(texts, options, prefixes=prefixes, glossary=glossary, split=split, first_line=first_line)
        return self.search(encoded, alignments=alignments)

    def search(self, encoded: EncodedSentences, *, alignments: bool = False) -> list[Translation]:
        """Return the translation of each sentence that `encode` returned; see `translate`."""
        hypotheses = search_checked(self.engine, encoded.searched, self.symbols, batch_tokens=self.batch_tokens)
        return self.with_unknown(encoded, self.translations(encoded, hypotheses, alignments=alignments))

    def with_unknown(self, encoded: EncodedSentences, found: Sequence[Translation]) -> list[Translation]:
        """Return translations with the unknown words of each sentence that `encode` returned."""
        unknown = map(self.unknown["source"].of, map(encoded.written, range(len(encoded.texts))))
        return [
            dataclasses.replace(each, unknown=tuple(word for word in words if word not in each.text)) if words else each
            for each, words in zip(found, unknown, strict=True)
        ]

    def encode(
        self,
        texts: Sequence[str],
        options: SearchOptions,
        *,
        prefixes: Sequence[str] | None = None,
        glossary: Glossary | None = None,
        glossary_texts: Sequence[str] | None = None,
        split: Split = False,
        first_line: int = 1,
    ) -> EncodedSentences:
        """Return sentences in the form in which a search takes them; arguments and errors as for `translate`.

        `glossary_texts` are the texts in which the glossary's terms are looked up, by default the sentences; in the
        parts of a split sentence, others have none.
        """
        texts = listed(texts, "translate", first_line)
        prefixes = None if prefixes is None else listed(prefixes, "prefixes", first_line)
        if split not in (True, False, "long"):
            raise ConfigError(f"split: expected True, False or 'long', found {split!r}")
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError(f"prefixes: expected one for each of the {len(texts)} sentences, found {len(prefixes)}")
        longest = self.engine.max_length - 1
        options = options.within(longest)
        if glossary is not None and options.sample:
            raise ConfigError("glossary: expected beam search with it, found sampling")
        kept = self.reader.already_translated(texts) if options.keep_translated else frozenset()
        if prefixes is None:
            is_text = has_words if options.guard else has_letters_or_digits
            same = [n for n, text in enumerate(texts) if text.strip() and not is_text(text)]
            kept |= {n for n in same if glossary is None or not glossary.find(one_line(texts[n]))}
        read = [readable(self.subwords, text, f"line {line}") for line, text in enumerate(texts, start=first_line)]
        found = self.reader.readings(
            read,
            recase=options.recase,
            markers=prefixes is not None,
            shortened=options.guard,
            glossary=glossary,
        )
        _, ordinary, usual, spelled = found
        written = read_texts(read, ordinary)  # as in the line, except for the case
        read = read_texts(read_texts(written, usual), spelled)
        read = ["" if number in kept else text for number, text in enumerate(read)]
        encoded = [
            encode_source(self.subwords, text, longest, number, split, self.languages[0])
            for number, text in enumerate(read, start=first_line)
        ]
        part_ids = [parts for _, parts in encoded]
        sources = [(text, ids) for texts, parts in encoded for text, ids in zip(texts, parts, strict=True)]
        prefix_ids: Sequence[Sequence[int] | None] = [None] * len(sources)
        if prefixes is not None:
            prefix_ids = self._encode_prefixes(prefixes, part_ids, first_line)
        searched = [
            self._sentence(text, source, options, prefix)
            for (text, source), prefix in zip(sources, prefix_ids, strict=True)
        ]
        counts = [len(parts) for parts in part_ids]
        result = EncodedSentences(
            texts, read, counts, searched, options.alpha, readings=found, kept=kept, prefixes=prefixes
        )
        if glossary is None:
            return result
        parts = [
            [spelled[number].restore(part) for part in texts] if number in spelled else texts
            for number, (texts, _) in enumerate(encoded)
        ]
        rooms = [self._room(longest, each.prefix, lettered=each.lettered) for each in searched]
        return result.with_glossary(glossary, glossary_texts or written, parts, self.subwords, rooms)

    def _sentence(
        self, text: str, source: Sequence[int], options: SearchOptions, prefix: Sequence[int] | None
    ) -> SearchSentence:
        allowed = None if self.shortlist is None else self.shortlist(source)
        lettered = not options.allow_empty and self.needs_letter(text, prefix)
        numbers = words = quotations = None
        if options.guard:
            assert options.max_length is not None  # they are `within` what the model writes
            room = self._room(options.max_length, prefix, lettered=lettered)
            numbers = SourceNumbers.of(text, self.subwords, room)
            words = DictionaryWords.of(text, self.reader.dictionary, self.subwords, room)
            quotations = SourceQuotations.of(text, self.subwords, room)
        return SearchSentence(
            source, options, prefix, allowed, lettered=lettered, numbers=numbers, words=words, quotations=quotations
        )

    def _room(self, longest: int, prefix: Sequence[int] | None, *, lettered: bool) -> int:
        """Return the most tokens of all terms of an output of at most `longest` tokens."""
        return longest - len(self.symbols.beginning(prefix)) - lettered

    def needs_letter(self, text: str, prefix: Sequence[int] | None) -> bool:
        """Whether a source has a letter or a digit, and a prefix of its outputs has none but room for one."""
        begun = self.symbols.beginning(prefix)
        lettered = any(self.symbols.lettered[token] for token in begun)
        return has_letters_or_digits(text) and not lettered and len(begun) < self.engine.max_length - 1

    def translations(
        self,
        encoded: EncodedSentences,
        hypotheses: Sequence[Sequence[Hypothesis]],
        *,
        alignments: bool = False,
    ) -> list[Translation]:
        """Return the translation of each sentence, from the hypotheses that a search found for its parts."""
        sources = [sentence.source for sentence in encoded.searched]
        links: Iterator[tuple[Link, ...] | None] = itertools.repeat(None)  # of each hypothesis
        if alignments:
            repeated = [ids for ids, found in zip(sources, hypotheses, strict=True) for _ in found]
            links = iter(self._align_ids(repeated, [each.tokens for found in hypotheses for each in found]))
        part_translations = (
            self._translation(source, found, links) for source, found in zip(sources, hypotheses, strict=True)
        )
        return [
            encoded.finished(
                number,
                join_translations(
                    list(itertools.islice(part_translations, parts)), text, encoded.alpha, aligned=alignments
                ),
                self.subwords,
            ).with_warnings(self.reader.about(encoded.written(number)))
            for number, (text, parts) in enumerate(zip(encoded.texts, encoded.parts, strict=True))
        ]

    def translate_lines(
        self,
        lines: Iterable[str],
        options: SearchOptions | None = None,
        *,
        chunk: int = 1024,
        **arguments: Any,
    ) -> Iterator[Translation]:
        """Translate a stream of lines in order, with at most `chunk` lines in memory; arguments as for `translate`.

        The first chunks are smaller, so that the first results come early. Where a line or a prefix can't be read, the
        lines before it are translated before the error is raised.
        """
        if chunk < 1:
            raise ConfigError(f"chunk: expected a whole number of at least 1, found {chunk}")
        if isinstance(lines, str):
            raise ConfigError("translate_lines: expected lines, found one string")
        first_line = arguments.pop("first_line", 1)
        prefixes = arguments.pop("prefixes", None)
        if isinstance(prefixes, str):
            raise ConfigError("prefixes: expected a list of sentences, found one string")

        def work(batch: Sequence[tuple[int, str, str | None]]) -> list[Translation]:
            numbers, texts, line_prefixes = zip(*batch, strict=True)
            chunk_prefixes = None if prefixes is None else line_prefixes
            return self.translate(texts, options, prefixes=chunk_prefixes, first_line=numbers[0], **arguments)

        for batch in chunks(with_prefixes(lines, prefixes, first_line), growing(64, chunk)):
            yield from results(work, batch)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str | Sequence[int]],
        *,
        alpha: float | None = None,
        first_line: int = 1,
    ) -> list[Output]:
        """Return the log-probabilities of given translations, text or subword ids, by forced decoding.

        For the ids of a translation these are the values that the search reported, if it read the source as it is
        written (`recase` changes it) and chose from all subwords. `alpha` is the exponent of the length penalty, the
        run's unless given. A source longer than the model's maximum length is truncated, with a
        `LongLineWarning`. Raises `DataError` with the line number of a target that is too long.
        """
        pairs = self._encode_pairs(sources, targets, first_line)
        hypotheses = self.engine.score(
            *pairs,
            self.symbols,
            alpha=self.options.alpha if alpha is None else self.options_with(alpha=alpha).alpha,
            batch_tokens=self.batch_tokens,
        )
        return [self._output(hypothesis) for hypothesis in hypotheses]

    @property
    def longest_target(self) -> int:
        """The most subwords of a translation that can be scored."""
        return self.engine.max_length - 1 - len(self.symbols.given[:1])

    def align(
        self, sources: Sequence[str], targets: Sequence[str | Sequence[int]], *, first_line: int = 1
    ) -> list[tuple[Link, ...]]:
        """Align each target word to a source word by cross-attention: `(source word, target word)` links from 0.

        Words are separated by spaces; see `headwise.engine.alignment`.
        """
        return self._align_ids(*self._encode_pairs(sources, targets, first_line))

    def _encode_pairs(
        self, sources: Sequence[str], targets: Sequence[str | Sequence[int]], first_line: int
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Encode sentence pairs for forced decoding."""
        sources = listed(sources, "sources", first_line)
        targets = listed(targets, "targets", first_line, ids=True)
        if len(sources) != len(targets):
            raise DataError(f"expected one target for each of the {len(sources)} sources, found {len(targets)}")
        longest = self.engine.max_length - 1
        source_parts = [
            encode_source(self.subwords, readable(self.subwords, text, f"line {line}"), longest, line)[1]
            for line, text in enumerate(sources, start=first_line)
        ]
        target_ids = []
        for line, target in enumerate(targets, start=first_line):
            if isinstance(target, str):
                ids = self._encode_target(target, f"line {line}")
            else:
                ids = [*(() if self._given(target) else self.symbols.given[:1]), *target]
            if len(ids) >= self.engine.max_length:
                raise DataError(
                    f"line {line}: expected a target of at most {self.engine.max_length - 1} subwords, found {len(ids)}"
                )
            target_ids.append(ids)
        return [parts[0] if parts else [EOS] for parts in source_parts], target_ids

    def _encode_prefixes(
        self, prefixes: Sequence[str], encoded_sources: Sequence[Ids], first_line: int
    ) -> list[list[int]]:
        """Encode each sentence's prefix; only the first of its parts gets it."""
        prefix_ids: list[list[int]] = []
        for line, (prefix, parts) in enumerate(zip(prefixes, encoded_sources, strict=True), start=first_line):
            ids = self._encode_target(prefix, f"prefix {line}")
            if len(ids) >= self.engine.max_length:
                raise DataError(
                    f"prefix {line}: expected at most {self.engine.max_length - 1} subwords, found {len(ids)}"
                )
            prefix_ids += [ids if part == 0 else [*self.symbols.given[:1]] for part in range(len(parts))]
        return prefix_ids

    def _align_ids(self, sources: Ids, targets: Ids) -> list[tuple[Link, ...]]:
        weights = self.engine.cross_attention(sources, targets, self.symbols, batch_tokens=self.batch_tokens)
        return [self.links(*each) for each in zip(weights, sources, targets, strict=True)]

    def links(self, weights: NDArray[np.float32], source: Sequence[int], target: Sequence[int]) -> tuple[Link, ...]:
        """Return the word alignment that cross-attention weights (layers, heads, target, source) give."""
        return word_links(*self.subword_weights(weights, source, target))

    def subword_weights(
        self, attention: NDArray[np.float32], source: Sequence[int], target: Sequence[int]
    ) -> SubwordWeights:
        """Return the weights of subwords that cross-attention (layers, heads, target, source) gives, and the subwords.

        `source` ends with the end symbol, `target` doesn't; both symbols and language codes are left out.
        """
        text, given = self.subwords.without_language(source[:-1]), self._given(target)
        weights = (attention[1:-1] if len(attention) > 2 else attention).mean((0, 1))
        pieces = self.subwords.source_pieces(text), self.subwords.target_pieces(target[given:])
        return weights[given : len(target), len(source) - 1 - len(text) : len(source) - 1], *pieces

    def _given(self, target: Sequence[int]) -> int:
        """Return the number of language codes at the beginning of a target, 0 or 1."""
        return int(bool(target) and target[0] in self.symbols.given)

    def _encode_target(self, text: str, label: str) -> list[int]:
        return self.subwords.encode_target(one_line(check_characters(text, label)).strip())

    def _translation(
        self,
        source: Sequence[int],
        hypotheses: Sequence[Hypothesis],
        links: Iterator[tuple[Link, ...] | None],
    ) -> Translation:
        """Return the translation of a part of a sentence, without the text of its source, which the sentence has."""
        outputs = [self._output(hypothesis, next(links)) for hypothesis in hypotheses]
        pieces = tuple(self.subwords.source_pieces(self.subwords.without_language(source[:-1])))
        notes = tuple(hypothesis.note for hypothesis in hypotheses[:1] if hypothesis.note)
        return Translation("", pieces, tuple(outputs), (), notes)

    def _output(self, hypothesis: Hypothesis, links: tuple[Link, ...] | None = None) -> Output:
        given = self._given(hypothesis.tokens)  # its log-probability is 0
        tokens = hypothesis.tokens[given:]
        curve, length = self.quality, len(hypothesis.token_log_probabilities) - given
        probability = mean_probability(hypothesis.log_probability, length)
        return Output(
            text=one_line(self.subwords.decode_target(tokens)),
            tokens=tokens,
            pieces=tuple(self.subwords.target_pieces([*tokens, EOS])),
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            token_log_probabilities=hypothesis.token_log_probabilities[given:],
            alignment=links,
            quality=None if curve is None else curve.expected(probability),
            review=None if curve is None else probability < curve.review,
        )
