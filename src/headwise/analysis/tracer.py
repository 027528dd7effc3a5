"""Making traces: search with the beam recorded, then forced decoding with the attention recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from queue import Empty, LifoQueue
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.analysis.interventions import (
    PARTS,
    Intervention,
    Part,
    attention_parts,
    intervening,
    part_of,
    private_copy,
)
from headwise.analysis.trace import Alternative, Forced, Node, Ranked, Side, Trace
from headwise.decoding.batching import padded
from headwise.decoding.beam.hypothesis import Hypothesis, length_penalty
from headwise.decoding.beam.tree import BeamNode, BeamTrace
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.options import SearchOptions
from headwise.decoding.search import search
from headwise.decoding.translator import SYMBOLS, Translator
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.nn.multihead import recording
from headwise.text.reading.lines import one_line
from headwise.text.tokens.seen import SideName, split_words
from headwise.text.tokens.subwords import BOS, EOS, PAD

LONGEST = 128  # subwords of a text that is looked into; attention grows with the square
_NAMED = 8  # words in a note
_SYMBOLS = (PAD, BOS, EOS)


class Tracer:
    """Traces translations of one model; many threads may use it at once.

    Each request works on a copy of the modules that shares the parameters, so interventions never meet.
    """

    def __init__(self, translator: Translator, *, longest: int = LONGEST) -> None:
        """Trace texts up to `longest` subwords; raises `ConfigError` for an ensemble, which has no one attention."""
        if isinstance(translator.model, Ensemble):
            raise ConfigError("expected one model to look into, found an ensemble of several")
        self.translator = translator
        self.longest = min(longest, translator.model.max_length - 1)
        self.layers = {part: len(found) for part, found in attention_parts(translator.model).items() if found}
        self._spare: LifoQueue[Seq2Seq] = LifoQueue()

    @contextmanager
    def model(self, interventions: Sequence[Intervention] = ()) -> Iterator[Seq2Seq]:
        """Lend a private copy of the model with the interventions in place."""
        try:
            copy = self._spare.get_nowait()
        except Empty:
            copy = private_copy(self.translator.model)
        try:
            with intervening(copy, interventions):
                yield copy
        finally:
            self._spare.put(copy)

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
        """Translate a text and look at everything.

        `hypothesis` is the rank of the one that `forced` reads; a `target` (text, or ids) is read in its place. Search
        options as for `Translator.translate`, but as many hypotheses are kept as the beam holds. Raises
        `ConfigError` for an option or an intervention that can't be, and for a rank that there is none of.
        """
        options = self._options(options, changes)
        source, notes = self.read(text)
        if len(source.ids) == 1:
            return self._trace(source, None, [], [], options, interventions, notes)
        with self.model(interventions) as model, torch.inference_mode():
            found, tree = self._search(model, source, interventions, options)
            if not 0 <= hypothesis < len(found):
                raise ConfigError(
                    f"hypothesis: expected a rank from 0 to {len(found) - 1}, found {hypothesis}"
                )
            chosen = (*found[hypothesis].tokens, EOS) if target is None else self.target_ids(target)
            if isinstance(target, str):
                notes = (*notes, *self._unknown_notes(target, "target"))
            forced = self._force(model, source, chosen, options.alpha, alternatives)
        return self._trace(source, forced, found, tree, options, interventions, notes)

    def force(
        self,
        text: str,
        target: str | Sequence[int],
        interventions: Sequence[Intervention] = (),
        *,
        alpha: float | None = None,
        alternatives: int = 5,
    ) -> Forced:
        """Make the model say a target: a text, or ids as `Trace.path` gives them, which needn't end.

        What the output must say by an intervention is left aside here. Raises `ConfigError` for an empty source, for
        a target without tokens or with some the model doesn't have, and for one that is too long.
        """
        source, _ = self.read(text)
        if len(source.ids) == 1:
            raise ConfigError("expected a text to look into, found an empty one")
        ids = self.target_ids(target)
        alpha = self.translator.options.alpha if alpha is None else alpha
        with self.model(interventions) as model, torch.inference_mode():
            return self._force(model, source, ids, alpha, alternatives)

    def target_ids(self, target: str | Sequence[int]) -> tuple[int, ...]:
        """Encode a target text, its end symbol included, or check ids; raises `ConfigError` for what can't be said."""
        subwords = self.translator.subwords
        given = [*subwords.encode_target(_line(target)), EOS] if isinstance(target, str) else target
        ids = tuple(map(int, given))
        if not 0 < len(ids) <= self.longest + 1:
            raise ConfigError(f"target: expected from 1 to {self.longest + 1} subwords, found {len(ids)}")
        if wrong := [i for i in ids if not 0 <= i < subwords.target_size]:
            raise ConfigError(f"target: expected ids below {subwords.target_size}, found {wrong[0]}")
        return ids

    def read(self, text: str) -> tuple[Side, tuple[str, ...]]:
        """Encode a source text, its end symbol included; the notes say whether its end was left out."""
        ids = self.translator.subwords.encode_source(_line(text))
        notes = []
        if len(ids) > self.longest:
            notes.append(f"the text has {len(ids)} subwords, and the first {self.longest} are looked into")
        notes += self._unknown_notes(text, "source")
        side = self.side((*ids[: self.longest], EOS), source=True)
        # Subwords that are unknown read ⁇; here the words are at hand as they were written, one for one but where the
        # text itself has SentencePiece's sign for a space.
        written = split_words(_line(text))
        if len(written) != len(self.side(ids, source=True).words):
            return side, tuple(notes)
        words = tuple(written[n] if n in side.unknown else word for n, word in enumerate(side.words))
        return replace(side, words=words), tuple(notes)

    def _unknown_notes(self, text: str, side: SideName) -> list[str]:
        novelty = self.translator.novelty
        words = list(dict.fromkeys(novelty.words(_line(text), side)))
        if not words:
            return []
        more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
        what = "never saw in training" if novelty.seen is not None else "has no subwords for"
        which = "" if side == "source" else " as target text"
        named = ", ".join(words[:_NAMED])
        shown = "".join(character if character.isprintable() else "�" for character in named)
        return [f"the model {what}{which}, in whole or in part: {shown}{more}"]

    def side(self, ids: Sequence[int], *, source: bool = False) -> Side:
        """Name the pieces and words of ids; start and end symbols are words of their own."""
        subwords = self.translator.subwords
        pieces = (subwords.source_pieces if source else subwords.target_pieces)(ids)
        decode = subwords.decode_source if source else subwords.decode_target
        word_of: list[int] = []
        for place, (piece, token) in enumerate(zip(pieces, ids, strict=True)):
            begins = place > 0 and (piece.startswith("▁") or token in _SYMBOLS or ids[place - 1] in _SYMBOLS)
            word_of.append(begins + (word_of[-1] if word_of else 0))
        groups: list[list[int]] = [[] for _ in range(word_of[-1] + 1 if word_of else 0)]
        for token, word in zip(ids, word_of, strict=True):
            groups[word].append(token)
        words = [decode(group).strip() or pieces[word_of.index(word)] for word, group in enumerate(groups)]
        new = self.translator.novelty.pieces(ids, "source" if source else "target")
        unknown = sorted({word for word, is_new in zip(word_of, new, strict=True) if is_new})
        return Side(decode(ids), tuple(ids), tuple(pieces), tuple(words), tuple(word_of), tuple(unknown))

    # ------------------------------------------------------------------------------------------------ searching

    def _options(self, options: SearchOptions | None, changes: dict[str, Any]) -> SearchOptions:
        options = self.translator.options_with(options, **changes)
        longest = self.longest if options.max_length is None else min(self.longest, options.max_length)
        kept = options.n_best if options.sample else options.beam
        return replace(options, max_length=longest, n_best=kept)

    def _search(
        self, model: Seq2Seq, source: Side, interventions: Sequence[Intervention], options: SearchOptions
    ) -> tuple[list[Hypothesis], list[BeamNode]]:
        """Search with what the output must say; each forced word follows what the search before it found."""
        encode = self.translator.subwords.encode_target
        prefix = encode(_line(" ".join(change.text for change in interventions if change.kind == "prefix")))
        found, tree = self._searched(model, source, prefix, options)
        words = sorted((c for c in interventions if c.kind == "word"), key=lambda c: c.amount or 0)
        for word in words:
            said = self.translator.subwords.decode_target(found[0].tokens).split()
            if len(said) < (word.amount or 0):
                raise ConfigError(
                    f"intervention {str(word)!r}: expected a number up to {len(said)}, as the output has "
                    f"{len(said)} words, found {word.amount}"
                )
            prefix = encode(" ".join([*said[: word.amount], word.text]))
            found, tree = self._searched(model, source, prefix, options)
        return found, tree

    def _searched(
        self, model: Seq2Seq, source: Side, prefix: list[int], options: SearchOptions
    ) -> tuple[list[Hypothesis], list[BeamNode]]:
        if len(prefix) > self.longest:
            raise ConfigError(
                f"prefix: expected an output that begins with at most {self.longest} subwords, found {len(prefix)}"
            )
        ids, mask = padded([source.ids], PAD, next(model.parameters()).device)
        beam_trace = BeamTrace()
        prefixes = [prefix] if prefix else None
        (found,) = search(model, ids, mask, options, SYMBOLS, prefixes=prefixes, trace=beam_trace)
        return found, beam_trace.tree(0, options.alpha)

    # ------------------------------------------------------------------------------------------------- forcing

    def _force(
        self, model: Seq2Seq, source: Side, target: Sequence[int], alpha: float, alternatives: int
    ) -> Forced:
        device = next(model.parameters()).device
        ids, mask = padded([source.ids], PAD, device)
        reads = (BOS, *target[:-1])
        with recording(model) as records:
            hidden = model(ids, mask, torch.tensor([reads], device=device))  # (1, target, d_model)
        attention = stacked(records)
        log_probs = model.project(hidden[0]).float().log_softmax(-1).cpu()  # (target, vocabulary)
        gains = log_probs.gather(1, torch.tensor(target)[:, None])[:, 0].tolist()
        best = log_probs.topk(min(alternatives, log_probs.size(1)), dim=1)
        pieces = self.translator.subwords.target_pieces
        others = tuple(
            tuple(
                Alternative(token, piece, value)
                for token, piece, value in zip(row, pieces(row), values, strict=True)
            )
            for row, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        )
        total, penalty = sum(gains), length_penalty(len(target), alpha)
        return Forced(
            target=self.side(target),
            reads=self.side(reads),
            log_probabilities=tuple(gains),
            alternatives=others,
            log_probability=total,
            length_penalty=penalty,
            score=total / penalty,
            attention=attention,
        )

    def _trace(
        self,
        source: Side,
        forced: Forced | None,
        found: Sequence[Hypothesis],
        tree: Sequence[BeamNode],
        options: SearchOptions,
        interventions: Sequence[Intervention],
        notes: Sequence[str],
    ) -> Trace:
        subwords = self.translator.subwords
        children = {(node.parent, node.token): place for place, node in enumerate(tree)}
        ranked = []
        for hypothesis in found:
            place: int | None = None
            for token in (*hypothesis.tokens, EOS):
                place = children[place, token]
            assert place is not None
            ranked.append(
                Ranked(
                    node=place,
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
            Node(piece=piece, rank=ranks.get(place), **asdict(node))
            for place, (node, piece) in enumerate(zip(tree, pieces, strict=True))
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


def stacked(records: dict[str, list[torch.Tensor]], row: int = 0) -> dict[Part, NDArray[np.float32]]:
    """Sort what `recording` recorded of one forward pass into parts, (layers, heads, rows, columns) of one sentence."""
    layers: dict[Part, list[torch.Tensor]] = {part: [] for part in PARTS}
    for name, entries in records.items():
        if entries:
            layers[part_of(name)].append(entries[0][row])
    return {part: torch.stack(found).float().cpu().numpy() for part, found in layers.items() if found}


def _line(text: str) -> str:
    return one_line(text).strip()
