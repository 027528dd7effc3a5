"""The beam tree of a search: every hypothesis with its log-probability, length penalty and score."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from headwise.decoding.beam.hypothesis import Candidates, length_penalty


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis in the beam of one sentence.

    Attributes:
        parent: index of the hypothesis that it continues in the tree's list; None after the start symbol.
        token: the id that was added, the end symbol where `finished`.
        token_log_probability: of that id.
        log_probability: of the whole hypothesis.
        length: |Y|, its subwords, the end symbol included.
        length_penalty: ((5 + |Y|) / 6)^alpha.
        score: log_probability / length_penalty, as if it ended here.
        finished: it did end here.
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
    """Records a search; give it to `headwise.decoding.search.search`."""

    def __init__(self) -> None:
        """Begin with no steps."""
        self._steps: list[tuple[int, Tensor, Candidates]] = []

    def record(self, sentences: Tensor, chosen: Candidates, length: int) -> None:
        """Keep one step's tensors; nothing is copied or computed during the search."""
        self._steps.append((length, sentences, chosen))

    def tree(self, sentence: int, alpha: float) -> list[BeamNode]:
        """Return the hypotheses of sentence `sentence` of the batch (from 0), parents first."""
        nodes: list[BeamNode] = []
        places: dict[int, int | None] = {}
        for length, sentences, chosen in self._steps:
            rows = (sentences == sentence).nonzero()[:, 0].tolist()
            if not rows:
                break
            parents, tokens, gains, totals, ends, columns, alive = (
                getattr(chosen, name)[rows[0]].tolist()
                for name in ("parents", "tokens", "gains", "totals", "ends", "places", "places_totals")
            )
            penalty = length_penalty(length, alpha)
            going = {column: place for place, column in enumerate(columns) if alive[place] > float("-inf")}
            following: dict[int, int | None] = {}
            for column, parent in enumerate(parents):
                if not ends[column] and column not in going:
                    continue
                if column in going:
                    following[going[column]] = len(nodes)
                nodes.append(
                    BeamNode(
                        parent=places.get(parent),
                        token=tokens[column],
                        token_log_probability=gains[column],
                        log_probability=totals[column],
                        length=length,
                        length_penalty=penalty,
                        score=totals[column] / penalty,
                        finished=ends[column],
                    )
                )
            places = following
        return nodes
