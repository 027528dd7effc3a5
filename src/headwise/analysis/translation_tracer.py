"""Traces of translations: a search that records the beam tree, then the recorded forced decoding of a hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.analysis.interventions import Copies, Intervention
from headwise.analysis.interventions.history import History
from headwise.analysis.recording import Row
from headwise.analysis.trace import ForcedDecoding, Node, Ranked, Side, Trace
from headwise.analysis.tracer import LONGEST, Tracer
from headwise.decoding.batching import padded
from headwise.decoding.beam_tree import BeamNode, BeamTrace
from headwise.decoding.search import search
from headwise.decoding.translator_model import is_ensemble, pytorch_model
from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis, length_penalty
from headwise.engine.options import SearchOptions
from headwise.engine.readings.reading import read_texts
from headwise.engine.sentences import readable
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.text.reading.lines import one_line
from headwise.text.tokens.pair_vocabulary import Side as SideName
from headwise.text.tokens.subwords import BOS, EOS, PAD
from headwise.text.tokens.unknown import by_word, split_words

_NAMED = 8  # words in a note


class TranslationTracer(Tracer[Seq2Seq]):
    """Tracer of a translator."""

    what = "this translation's token"

    def __init__(self, translator: Translator, history: History | None = None, *, longest: int = LONGEST) -> None:
        """Use a translator of one run, and the run's history for the intervention `checkpoint`.

        `longest` is the maximum text length in subwords; raises `ConfigError` for an ensemble of several models.
        """
        engine = translator.engine
        if is_ensemble(translator):
            raise ConfigError("expected one model to look into, found an ensemble of several")
        super().__init__(lambda: pytorch_model(translator), min(longest, engine.max_length - 1))
        self.translator, self.history = translator, history
        self.free = translator.symbols.given
        self._earlier: tuple[int, Copies[Seq2Seq]] | None = None

    @classmethod
    def load(cls, run: Path, device: str = "auto", workers: int = 0) -> TranslationTracer:
        """Load a run directory with its history; arguments and errors as for `Translator.load`."""
        return cls(Translator.load(run, device=device, workers=workers), History(run))

    def copies_for(self, interventions: Sequence[Intervention]) -> Copies[Seq2Seq]:
        """Return the copies of the run's model, or of the last checkpoint that interventions name, which is kept."""
        steps = [int(change.amount or 0) for change in interventions if change.kind == "checkpoint"]
        if not steps:
            return self.copies
        earlier = self._earlier
        if earlier is None or earlier[0] != steps[-1]:
            if self.history is None:
                raise ConfigError("intervention 'checkpoint': expected a run directory with checkpoints, found none")
            copies = Copies(self.history.model(steps[-1], self.trained))
            earlier = self._earlier = steps[-1], copies
        return earlier[1]

    def exponent(self, alpha: float | None) -> float:  # noqa: D102
        return self.translator.options.alpha if alpha is None else alpha

    def names(self, ids: Sequence[int]) -> Sequence[str]:  # noqa: D102
        return [self.translator.subwords.target_pieces([number])[0] for number in ids]

    def forced(  # noqa: D102
        self, text: str | Side, target: str | Sequence[int]
    ) -> tuple[dict[Row, Side], tuple[int, ...]]:
        source = text if isinstance(text, Side) else self.read(text)[0]
        if len(source.ids) == 1:
            raise ConfigError("expected a text to look into, found an empty one")
        ids = self.target_ids(target)
        return self._sides(source, ids), ids

    def _sides(self, source: Side, target: Sequence[int]) -> dict[Row, Side]:
        return {"encoder": source, "decoder": self.side((BOS, *target[:-1]))}

    def logits(self, model: Seq2Seq, sides: dict[Row, Side]) -> Tensor:  # noqa: D102
        ids, mask = padded([sides["encoder"].ids], PAD, model.device)
        hidden = model(ids, mask, torch.tensor([sides["decoder"].ids], device=model.device))
        return model.project(hidden[0])

    def trace(
        self,
        text: str,
        interventions: Sequence[Intervention] = (),
        options: SearchOptions | None = None,
        *,
        hypothesis: int = 0,
        target: str | Sequence[int] | None = None,
        alternatives: int = 5,
        **changes: Any,
    ) -> Trace:
        """Translate a text and return its trace.

        `hypothesis` is the rank of the hypothesis that `forced` records; `target` (text, or ids) replaces it. Search
        options are those of `Translator.translate`, but the n-best list is as long as the beam. Raises `ConfigError`
        for an invalid option or intervention, and for a rank beyond the n-best list.
        """
        options = self._options(options, changes)
        source, notes = self.read(text, recase=options.recase)
        if len(source.ids) == 1:
            return self._trace(source, None, [], [], options, interventions, notes)
        with self.model(interventions) as model, torch.inference_mode():
            if interventions:
                self._force(model, source, [EOS], interventions, options.alpha, 1)  # raises where numbers overflow
            hypotheses, tree = self._search(model, source, interventions, options)
            if not 0 <= hypothesis < len(hypotheses):
                raise ConfigError(
                    f"hypothesis: expected one of the {len(hypotheses)} that were found, found rank {hypothesis + 1}"
                )
            target_ids = (*hypotheses[hypothesis].tokens, EOS) if target is None else self.target_ids(target)
            if isinstance(target, str):
                notes = (*notes, *self._unknown_notes(target, "target"))
            forced = self._force(model, source, target_ids, interventions, options.alpha, alternatives)
        return self._trace(source, forced, hypotheses, tree, options, interventions, notes)

    def _force(
        self,
        model: Seq2Seq,
        source: Side,
        target: Sequence[int],
        interventions: Sequence[Intervention],
        alpha: float,
        alternatives: int,
    ) -> ForcedDecoding:
        recorded = self.forward(model, self._sides(source, target), target, interventions)
        return self.forced_of(recorded, alpha, alternatives)

    def target_ids(self, target: str | Sequence[int]) -> tuple[int, ...]:
        """Encode a target text, end symbol included, or check ids; raises `ConfigError` as `force` does."""
        subwords = self.translator.subwords
        unchecked = [*subwords.encode_target(_line(target)), EOS] if isinstance(target, str) else target
        ids = tuple(map(int, unchecked))
        if not 0 < len(ids) <= self.longest + 1:
            raise ConfigError(f"target: expected from 1 to {self.longest + 1} subwords, found {len(ids)}")
        if out_of_range := [i for i in ids if not 0 <= i < subwords.target_size]:
            raise ConfigError(f"target: expected ids below {subwords.target_size}, found {out_of_range[0]}")
        return ids

    def line(self, text: str, *, recase: bool | None = None) -> str:
        """Return the line that is read for a text.

        It is that of `translate`: with `recase`, the run's option unless given, text in one case is read as ordinary
        text, and what the vocabulary can't spell as something that it can; long numbers are read as they are.
        """
        lines = [readable(self.translator.subwords, text, "source")]
        recase = self.translator.options.recase if recase is None else recase
        for found in self.translator.reader.readings(lines, recase=recase):
            lines = read_texts(lines, found)
        return lines[0]

    def read(self, text: str, *, recase: bool | None = None) -> tuple[Side, tuple[str, ...]]:
        """Encode a source text as `line` has it, end symbol included; notes report truncation and unknown words."""
        given, notes = readable(self.translator.subwords, text, "source"), []
        text = self.line(given, recase=recase)
        if text != given:
            notes.append(f"read as: {text}")
        ids = self.translator.subwords.encode_source(text)
        if len(ids) > self.longest:
            notes.append(f"the text has {len(ids)} subwords, and the first {self.longest} are looked into")
        notes += [*self._unknown_notes(text, "source"), *self.translator.reader.about(text)]
        side = self.side((*ids[: self.longest], EOS), source=True)
        # Unknown subwords decode to ⁇, so unknown words are replaced by those of the text. The words correspond one to
        # one, unless the text itself contains SentencePiece's symbol for a space.
        original_words = split_words(text)
        if len(original_words) != len(self.side(ids, source=True).words):
            return side, tuple(notes)
        words = tuple(original_words[n] if n in side.unknown else word for n, word in enumerate(side.words))
        return replace(side, words=words), tuple(notes)

    def _unknown_notes(self, text: str, side: SideName) -> list[str]:
        words = list(dict.fromkeys(self.translator.unknown[side].of(_line(text))))
        if not words:
            return []
        more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
        which = "" if side == "source" else " as target text"
        names = ", ".join(words[:_NAMED])
        printable = "".join(character if character.isprintable() else "�" for character in names)
        return [f"the model spells{which} by single letters, or not at all: {printable}{more}"]

    def side(self, ids: Sequence[int], *, source: bool = False) -> Side:
        """Return the text, subwords and words of ids; start and end symbols are words of their own."""
        subwords = self.translator.subwords
        pieces = (subwords.source_pieces if source else subwords.target_pieces)(ids)
        decode = subwords.decode_source if source else subwords.decode_target
        groups = by_word(ids, pieces)
        word_of = [word for word, group in enumerate(groups) for _ in group]
        words = [decode(group).strip() or pieces[word_of.index(word)] for word, group in enumerate(groups)]
        unknown_words = self.translator.unknown["source" if source else "target"]
        unknown = tuple(word for word, group in enumerate(groups) if group in unknown_words)
        return Side(decode(ids), tuple(ids), tuple(pieces), tuple(words), tuple(word_of), unknown)

    # ------------------------------------------------------------------------------------------------ searching

    def _options(self, options: SearchOptions | None, changes: dict[str, Any]) -> SearchOptions:
        options = self.translator.options_with(options, **changes)
        max_length = self.longest if options.max_length is None else min(self.longest, options.max_length)
        n_best = options.n_best if options.sample else options.beam
        return replace(options, max_length=max_length, n_best=n_best)

    def _search(
        self, model: Seq2Seq, source: Side, interventions: Sequence[Intervention], options: SearchOptions
    ) -> tuple[list[Hypothesis], list[BeamNode]]:
        """Search with the interventions on the output; a forced word follows the previous search's best output."""
        encode = self.translator.subwords.encode_target
        prefix = encode(_line(" ".join(change.text for change in interventions if change.kind == "prefix")))
        hypotheses, tree = self._search_with_prefix(model, source, prefix, options)
        words = sorted((c for c in interventions if c.kind == "word"), key=lambda c: c.amount or 0)
        for word in words:
            output_words = self.translator.subwords.decode_target(hypotheses[0].tokens).split()
            if len(output_words) < (word.amount or 0):
                raise ConfigError(
                    f"intervention {str(word)!r}: expected a number up to {len(output_words)}, as the output has "
                    f"{len(output_words)} words, found {word.amount}"
                )
            prefix = encode(" ".join([*output_words[: word.amount], word.text]))
            hypotheses, tree = self._search_with_prefix(model, source, prefix, options)
        return hypotheses, tree

    def _search_with_prefix(
        self, model: Seq2Seq, source: Side, prefix: list[int], options: SearchOptions
    ) -> tuple[list[Hypothesis], list[BeamNode]]:
        if len(prefix) > self.longest:
            raise ConfigError(
                f"prefix: expected an output that begins with at most {self.longest} subwords, found {len(prefix)}"
            )
        beam_trace = BeamTrace()
        text = " ".join(source.words[:-1])
        lettered = not options.allow_empty and self.translator.needs_letter(text, prefix or None)
        sentence = SearchSentence(source.ids, options, prefix or None, lettered=lettered)
        (hypotheses,) = search(model, [sentence], self.translator.symbols, trace=beam_trace)
        return hypotheses, beam_trace.tree(0, options.alpha)

    def _trace(
        self,
        source: Side,
        forced: ForcedDecoding | None,
        hypotheses: Sequence[Hypothesis],
        tree: Sequence[BeamNode],
        options: SearchOptions,
        interventions: Sequence[Intervention],
        notes: Sequence[str],
    ) -> Trace:
        subwords = self.translator.subwords
        children = {(node.parent, node.token): index for index, node in enumerate(tree)}
        ranked = []
        for hypothesis in hypotheses:
            index: int | None = None
            for token in (*hypothesis.tokens, EOS):
                index = children[index, token]
            assert index is not None
            ranked.append(
                Ranked(
                    node=index,
                    text=one_line(subwords.decode_target(hypothesis.tokens)),
                    ids=hypothesis.tokens,
                    log_probability=hypothesis.log_probability,
                    length_penalty=length_penalty(len(hypothesis.token_log_probabilities), options.alpha),
                    score=hypothesis.score,
                    token_log_probabilities=hypothesis.token_log_probabilities,
                )
            )
        ranks = {hypothesis.node: rank for rank, hypothesis in enumerate(ranked)}
        pieces = self.names([node.token for node in tree])
        nodes = tuple(
            Node(piece=piece, rank=ranks.get(index), **asdict(node))
            for index, (node, piece) in enumerate(zip(tree, pieces, strict=True))
        )
        return Trace(
            source=source,
            forced=forced,
            hypotheses=tuple(ranked),
            tree=nodes,
            beam=options.rows,
            alpha=options.alpha,
            interventions=tuple(interventions),
            architecture=type(self.trained).__name__.removesuffix("Seq2Seq").lower(),
            notes=tuple(notes),
        )


def _line(text: str) -> str:
    return one_line(text).strip()
