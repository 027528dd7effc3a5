"""Creation of traces: a search that records the beam tree, then forced decoding that records attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headwise.analysis.interventions import (
    PARTS,
    Intervention,
    Part,
    attention_parts,
    intervening,
    part_of,
    private_copy,
)
from headwise.analysis.interventions.history import History
from headwise.analysis.trace import Alternative, Forced, Node, Ranked, Side, Trace
from headwise.decoding.batching import padded
from headwise.decoding.beam_tree import BeamNode, BeamTrace
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.search import search
from headwise.engine.hypotheses import Hypothesis, length_penalty
from headwise.engine.options import SearchOptions
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.nn.recording import Recording, recording
from headwise.text.reading.lines import one_line
from headwise.text.tokens.subwords import BOS, EOS, PAD
from headwise.text.tokens.unknown import SideName, split_words

LONGEST = 128  # maximum length of a traced text in subwords; attention grows with its square
_NAMED = 8  # words in a note
_SYMBOLS = (PAD, BOS, EOS)


class Tracer:
    """Tracer of one model's translations; thread-safe.

    Each request uses a copy of the modules that shares the parameters, so interventions don't affect each other.
    """

    def __init__(
        self, translator: Translator, history: History | None = None, *, longest: int = LONGEST
    ) -> None:
        """Use a translator of one run, and the run's history for the intervention `checkpoint`.

        `longest` is the maximum text length in subwords; raises `ConfigError` for an ensemble of several models.
        """
        if isinstance(translator.model, Ensemble):
            raise ConfigError("expected one model to look into, found an ensemble of several")
        self.translator = translator
        self.longest = min(longest, translator.model.max_length - 1)
        self.layers = {
            part: len(attentions)
            for part, attentions in attention_parts(translator.model).items()
            if attentions
        }
        self.history = history
        self._idle_copies: LifoQueue[Seq2Seq] = LifoQueue()
        self._earlier: tuple[int, LifoQueue[Seq2Seq]] | None = None

    @classmethod
    def load(cls, run: Path, device: str = "auto", workers: int = 0) -> Tracer:
        """Load a run directory with its history; arguments and errors as for `Translator.load`."""
        return cls(Translator.load(run, device=device, workers=workers), History(run))

    @contextmanager
    def model(self, interventions: Sequence[Intervention] = ()) -> Iterator[Seq2Seq]:
        """Context manager that gives a private copy of the model with the interventions applied.

        Raises `ConfigError` for one that the model doesn't allow.
        """
        steps = [int(change.amount or 0) for change in interventions if change.kind == "checkpoint"]
        copies = self._copies_of(steps[-1]) if steps else self._idle_copies
        try:
            copy = copies.get_nowait()
        except Empty:
            copy = self._copy(steps[-1] if steps else None)
        try:
            with intervening(copy, interventions):
                yield copy
        finally:
            copies.put(copy)

    def _copies_of(self, step: int) -> LifoQueue[Seq2Seq]:
        """Return the idle copies of a checkpoint's model; those of one step at a time are kept."""
        earlier = self._earlier
        if earlier is None or earlier[0] != step:
            earlier = self._earlier = step, LifoQueue()
        return earlier[1]

    def _copy(self, step: int | None) -> Seq2Seq:
        model = self.translator.model
        if step is None:
            return private_copy(model)
        if self.history is None:
            raise ConfigError(
                "intervention 'checkpoint': expected a run directory with checkpoints, found none"
            )
        return self.history.model(step, model)

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
        source, notes = self.read(text)
        if len(source.ids) == 1:
            return self._trace(source, None, [], [], options, interventions, notes)
        with self.model(interventions) as model, torch.inference_mode():
            if interventions:
                self._force(
                    model, source, [EOS], options.alpha, 1
                )  # raises for a model whose numbers overflow
            hypotheses, tree = self._search(model, source, interventions, options)
            if not 0 <= hypothesis < len(hypotheses):
                raise ConfigError(
                    f"hypothesis: expected a rank from 0 to {len(hypotheses) - 1}, found {hypothesis}"
                )
            target_ids = (*hypotheses[hypothesis].tokens, EOS) if target is None else self.target_ids(target)
            if isinstance(target, str):
                notes = (*notes, *self._unknown_notes(target, "target"))
            forced = self._force(model, source, target_ids, options.alpha, alternatives)
        return self._trace(source, forced, hypotheses, tree, options, interventions, notes)

    def force(
        self,
        text: str,
        target: str | Sequence[int],
        interventions: Sequence[Intervention] = (),
        *,
        alpha: float | None = None,
        alternatives: int = 5,
    ) -> Forced:
        """Force-decode a target: a text, or ids as `Trace.path` returns them, which may lack the end symbol.

        Interventions on the output (prefix, word) are ignored here. Raises `ConfigError` for an empty source, and for
        a target that is empty, too long, or has ids outside the vocabulary.
        """
        source, _ = self.read(text)
        if len(source.ids) == 1:
            raise ConfigError("expected a text to look into, found an empty one")
        ids = self.target_ids(target)
        alpha = self.translator.options.alpha if alpha is None else alpha
        with self.model(interventions) as model, torch.inference_mode():
            return self._force(model, source, ids, alpha, alternatives)

    def forward(self, model: nn.Module, text: str, target: str | Sequence[int]) -> None:
        """Run the model on a text and a target as `force` does."""
        device = next(model.parameters()).device
        tokens, mask = padded([self.read(text)[0].ids], PAD, device)
        model(tokens, mask, torch.tensor([(BOS, *self.target_ids(target)[:-1])], device=device))

    def pieces(
        self, text: str, target: str | Sequence[int], part: Part
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tokens of the queries and of the keys of a part: source tokens, or the decoder's input tokens."""
        source = self.read(text)[0].pieces
        reads = self.side((BOS, *self.target_ids(target)[:-1])).pieces
        return source if part == "encoder" else reads, reads if part == "decoder" else source

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

    def read(self, text: str) -> tuple[Side, tuple[str, ...]]:
        """Encode a source text, end symbol included; the notes report truncation and unknown words."""
        ids = self.translator.subwords.encode_source(_line(text))
        notes = []
        if len(ids) > self.longest:
            notes.append(f"the text has {len(ids)} subwords, and the first {self.longest} are looked into")
        notes += self._unknown_notes(text, "source")
        side = self.side((*ids[: self.longest], EOS), source=True)
        # Unknown subwords decode to ⁇, so unknown words are replaced by those of the text. The words correspond one to
        # one, unless the text itself contains SentencePiece's symbol for a space.
        original_words = split_words(_line(text))
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
        word_of: list[int] = []
        for index, (piece, token) in enumerate(zip(pieces, ids, strict=True)):
            starts_word = index > 0 and (
                piece.startswith("▁") or token in _SYMBOLS or ids[index - 1] in _SYMBOLS
            )
            word_of.append(starts_word + (word_of[-1] if word_of else 0))
        groups: list[list[int]] = [[] for _ in range(word_of[-1] + 1 if word_of else 0)]
        for token, word in zip(ids, word_of, strict=True):
            groups[word].append(token)
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
        ids, mask = padded([source.ids], PAD, next(model.parameters()).device)
        beam_trace = BeamTrace()
        prefixes = [prefix] if prefix else None
        (hypotheses,) = search(
            model, ids, mask, options, self.translator.symbols, prefixes=prefixes, trace=beam_trace
        )
        return hypotheses, beam_trace.tree(0, options.alpha)

    # ------------------------------------------------------------------------------------------------- forcing

    def _force(
        self, model: Seq2Seq, source: Side, target: Sequence[int], alpha: float, alternatives: int
    ) -> Forced:
        device = next(model.parameters()).device
        ids, mask = padded([source.ids], PAD, device)
        inputs = (BOS, *target[:-1])
        with recording(model) as recorded:
            hidden = model(ids, mask, torch.tensor([inputs], device=device))  # (1, target, d_model)
        attention = stacked(recorded)
        log_probs = model.project(hidden[0]).float().log_softmax(-1).cpu()  # (target, vocabulary)
        if not bool(torch.isfinite(log_probs).all()):
            raise ConfigError("expected finite log-probabilities, found others: the model's numbers overflow")
        token_log_probs = log_probs.gather(1, torch.tensor(target)[:, None])[:, 0].tolist()
        if target[0] in self.translator.symbols.given:
            token_log_probs[0] = 0.0
        top = log_probs.topk(min(alternatives, log_probs.size(1)), dim=1)
        pieces = self.translator.subwords.target_pieces
        all_alternatives = tuple(
            tuple(
                Alternative(token, piece, value)
                for token, piece, value in zip(row, pieces(row), values, strict=True)
            )
            for row, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        )
        total, penalty = sum(token_log_probs), length_penalty(len(target), alpha)
        return Forced(
            target=self.side(target),
            reads=self.side(inputs),
            log_probabilities=tuple(token_log_probs),
            alternatives=all_alternatives,
            log_probability=total,
            length_penalty=penalty,
            score=total / penalty,
            attention=attention,
        )

    def _trace(
        self,
        source: Side,
        forced: Forced | None,
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
        pieces = subwords.target_pieces([node.token for node in tree])
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
            architecture=type(self.translator.model).__name__.removesuffix("Seq2Seq").lower(),
            notes=tuple(notes),
        )


def stacked(recorded: Recording, row: int = 0) -> dict[Part, NDArray[np.float32]]:
    """Group one forward pass's attention by part: (layers, heads, rows, columns) of sentence `row`."""
    layers: dict[Part, list[torch.Tensor]] = {part: [] for part in PARTS}
    for name, entries in recorded.attended.items():
        if entries:
            layers[part_of(name)].append(entries[0].weights[row])
    return {part: torch.stack(weights).float().cpu().numpy() for part, weights in layers.items() if weights}


def _line(text: str) -> str:
    return one_line(text).strip()
