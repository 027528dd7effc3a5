"""The beam tree of a search: every hypothesis in the beam with its log-probability, length penalty and score."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from headwise.decoding.selection import Candidates
from headwise.engine.hypotheses import length_penalty


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis in the beam of one sentence.

    Attributes:
        parent: index in the tree's list of the hypothesis that this one continues; None after the start symbol.
        token: id of the appended token, the end symbol where `finished`.
        token_log_probability: log-probability of that token.
        log_probability: log-probability of the whole hypothesis.
        length: |Y|, its number of subwords, the end symbol included.
        length_penalty: ((5 + |Y|) / 6)^alpha.
        score: log_probability / length_penalty, as if the hypothesis ended here.
        finished: whether the hypothesis ends here.
    """

    parent: int | None
    token: int
    token_log_probability: float
    log_probability: float
    length: int
    length_penalty: float
    score: float
    finished: bool


class BeamTrace:
    """Recorder of a beam search, the argument `trace` of `headwise.decoding.search.search`."""

    def __init__(self) -> None:
        """Start with no steps."""
        self._steps: list[tuple[int, Tensor, Candidates]] = []

    def record(self, sentences: Tensor, chosen: Candidates, length: int) -> None:
        """Store the tensors of one step; nothing is copied or computed during the search."""
        self._steps.append((length, sentences, chosen))

    def tree(self, sentence: int, alpha: float) -> list[BeamNode]:
        """Return the beam tree of the sentence with index `sentence` in the batch (from 0), parents first."""
        nodes: list[BeamNode] = []
        node_of_place: dict[int, int | None] = {}
        for length, sentences, chosen in self._steps:
            matching_rows = (sentences == sentence).nonzero()[:, 0].tolist()
            if not matching_rows:
                break
            row = matching_rows[0]
            parents, tokens, token_log_probs, totals, ends, live_columns, live_totals = (
                values[row].tolist()
                for values in (
                    *(chosen.parents, chosen.tokens, chosen.token_log_probs, chosen.totals, chosen.ends),
                    *(chosen.places, chosen.places_totals),
                )
            )
            penalty = length_penalty(length, alpha)
            live_places = {
                column: place for place, column in enumerate(live_columns) if live_totals[place] > float("-inf")
            }
            next_node_of_place: dict[int, int | None] = {}
            for column, parent in enumerate(parents):
                if not ends[column] and column not in live_places:
                    continue
                if column in live_places:
                    next_node_of_place[live_places[column]] = len(nodes)
                nodes.append(
                    BeamNode(
                        parent=node_of_place.get(parent),
                        token=tokens[column],
                        token_log_probability=token_log_probs[column],
                        log_probability=totals[column],
                        length=length,
                        length_penalty=penalty,
                        score=totals[column] / penalty,
                        finished=ends[column],
                    )
                )
            node_of_place = next_node_of_place
        return nodes
