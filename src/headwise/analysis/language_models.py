"""Traces of models of one text: a language model's continuation (GPT), and a masked one's filled masks (BERT).

`StackTracer` has the methods of `headwise.analysis.tracer.Tracer` that interventions, heads and products use. It makes
the same `Trace`, with one hypothesis and no beam tree. The only part is `decoder` for a language model, and `encoder`
for a masked one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor, nn

from headwise.analysis.interventions import Intervention, Part, intervening, private_copy
from headwise.analysis.trace import Alternative, Forced, Ranked, Side, Trace
from headwise.analysis.tracer import LONGEST, Tracer, stacked
from headwise.config import Config
from headwise.decoding.generation import Generator, read_prompt
from headwise.errors import ConfigError
from headwise.models.decoder_only import DecoderOnly
from headwise.models.output_heads import HeadedEncoder
from headwise.nn.recording import recording
from headwise.tasks.masked_language_model import encode_masked, load_masked_model
from headwise.text.tokens.vocabulary import MASK, Vocabulary

CONTINUED = 8  # tokens of the continuation whose change is shown


class StackTracer(ABC):
    """Tracer of one model with a single stack; a private copy of the modules serves each request."""

    part: Part
    longest: int

    def __init__(self, stack: nn.Module, vocabulary: Vocabulary, max_length: int) -> None:
        self.stack, self.vocabulary = stack, vocabulary
        self.longest = min(LONGEST, max_length)

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return next(self.stack.parameters()).device

    @contextmanager
    def model(self, interventions: Sequence[Intervention] = ()) -> Iterator[nn.Module]:
        """Context manager that gives a private copy of the model with the interventions applied.

        Raises `ConfigError` for one that the model doesn't allow, and for those on a translation's output.
        """
        for change in interventions:
            if change.kind in ("prefix", "word", "checkpoint"):
                raise ConfigError(f"intervention {str(change)!r}: expected a translation run, found another")
        copy = private_copy(self.stack)
        with intervening(copy, interventions):
            yield copy

    @abstractmethod
    def read(self, text: str) -> tuple[list[int], tuple[str, ...]]:
        """Return the ids that the model reads for a text, and notes about what was left out."""

    @abstractmethod
    def complete(self, model: nn.Module, ids: list[int]) -> list[int]:
        """Return the target ids: the model's own completion of the ids that it reads."""

    @abstractmethod
    def inputs(self, ids: list[int], target: Sequence[int]) -> list[int]:
        """Return the ids that the model reads when it is asked for the probabilities of a target."""

    @abstractmethod
    def logits(self, model: nn.Module, inputs: Sequence[int]) -> Tensor:
        """Return the logits (inputs, vocabulary) at the position of each input."""

    def log_probabilities(self, model: nn.Module, inputs: Sequence[int]) -> Tensor:
        """Return the log-probabilities (inputs, vocabulary) at the position of each input, in float32."""
        return self.logits(model, inputs).float().log_softmax(-1)

    @abstractmethod
    def counted(self, inputs: Sequence[int]) -> list[int]:
        """Return the positions whose log-probabilities add up to that of the target."""

    def trace(
        self,
        text: str,
        interventions: Sequence[Intervention] = (),
        *,
        beam: int | None = None,
        alpha: float | None = None,
    ) -> Trace:
        """Complete a text and return the trace; beam and alpha are a translator's and have no effect.

        Raises `ConfigError` as `model`, `DataError` for unknown characters.
        """
        ids, notes = self.read(text)
        with self.model(interventions) as model, torch.inference_mode():
            target = self.complete(model, ids)
            forced = self._force(model, self.inputs(ids, target), target, 5)
        total = forced.log_probability
        hypothesis = Ranked(0, forced.target.text, tuple(target), total, 1.0, total, forced.log_probabilities)
        return Trace(
            source=self.side(self.inputs(ids, target)),
            forced=forced,
            hypotheses=(hypothesis,),
            tree=(),
            beam=1,
            alpha=0.0,
            interventions=tuple(interventions),
            architecture=f"{self.part}-only",
            notes=notes,
        )

    def force(
        self,
        text: str,
        target: str | Sequence[int],
        interventions: Sequence[Intervention] = (),
        *,
        alpha: float | None = None,
        alternatives: int = 5,
    ) -> Forced:
        """Return the probabilities and the attention for a target, ids as a trace has them; raises `ConfigError`."""
        inputs, checked = self.forced_ids(text, target)
        with self.model(interventions) as model, torch.inference_mode():
            return self._force(model, inputs, checked, alternatives)

    def forced_ids(self, text: str, target: str | Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the ids that `force` reads and those whose probabilities it asks for; raises `ConfigError`."""
        ids, checked = self.read(text)[0], self._checked(target)
        return self.inputs(ids, checked), checked

    def forward(self, model: nn.Module, text: str, target: str | Sequence[int]) -> None:
        """Run the model as `force` does."""
        self.logits(model, self.forced_ids(text, target)[0])

    def pieces(
        self, text: str, target: str | Sequence[int], part: Part
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tokens of the queries and of the keys of self-attention."""
        pieces = self.side(self.forced_ids(text, target)[0]).pieces
        return pieces, pieces

    def side(self, ids: Sequence[int]) -> Side:
        """Return the text, tokens and words of ids; symbols are words of their own."""
        pieces = tuple(map(self.vocabulary.piece, ids))
        starts = [
            index > 0
            and (
                min(number, ids[index - 1]) < self.vocabulary.ordinary
                or piece.startswith(("▁", " ", "\n", "Ġ"))
            )
            for index, (number, piece) in enumerate(zip(ids, pieces, strict=True))
        ]
        word_of = tuple(accumulate(map(int, starts)))
        words = [""] * (word_of[-1] + 1 if word_of else 0)
        for word, piece in zip(word_of, pieces, strict=True):
            words[word] += piece
        return Side(self.vocabulary.decode(ids), tuple(ids), pieces, tuple(words), word_of)

    def _checked(self, target: str | Sequence[int]) -> list[int]:
        if isinstance(target, str):
            raise ConfigError("target: expected ids as a trace has them, found a text")
        ids = list(map(int, target))
        if not 0 < len(ids) <= self.longest:
            raise ConfigError(f"target: expected from 1 to {self.longest} tokens, found {len(ids)}")
        if out_of_range := [i for i in ids if not 0 <= i < self.vocabulary.size]:
            raise ConfigError(f"target: expected ids below {self.vocabulary.size}, found {out_of_range[0]}")
        return ids

    def _force(
        self, model: nn.Module, inputs: Sequence[int], target: Sequence[int], alternatives: int
    ) -> Forced:
        with recording(model) as recorded:
            log_probs = self.log_probabilities(model, inputs).cpu()
        if not bool(torch.isfinite(log_probs).all()):
            raise ConfigError("expected finite log-probabilities, found others: the model's numbers overflow")
        values = log_probs.gather(1, torch.tensor(list(target))[:, None])[:, 0].tolist()
        top = log_probs.topk(min(alternatives, log_probs.size(1)), dim=1)
        total = sum(values[position] for position in self.counted(inputs))
        return Forced(
            target=self.side(target),
            reads=self.side(inputs),
            log_probabilities=tuple(values),
            alternatives=tuple(
                tuple(
                    Alternative(number, self.vocabulary.piece(number), value)
                    for number, value in zip(*row, strict=True)
                )
                for row in zip(top.indices.tolist(), top.values.tolist(), strict=True)
            ),
            log_probability=total,
            length_penalty=1.0,
            score=total,
            attention=stacked(recorded),
        )


def open_tracer(run: Path, device: str = "auto") -> Tracer | StackTracer:
    """Load a run whose model reads text: a translator, a language model, or a masked one.

    Raises `CheckpointError` for a run of another task or a damaged one, and `DeviceError`.
    """
    config = Config.of_run(run, "translation", "language_model", "masked_language_model")
    if config.task == "language_model":
        return LanguageModelTracer(Generator.load(run, device=device))
    if config.task == "masked_language_model":
        return MaskedModelTracer.load(run, config, device)
    return Tracer.load(run, device)


class LanguageModelTracer(StackTracer):
    """Tracer of a decoder-only model: the text and its most probable continuation, token by token."""

    part = "decoder"

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator.model, generator.vocabulary, generator.model.max_length)
        self.generator = generator

    def read(self, text: str) -> tuple[list[int], tuple[str, ...]]:  # noqa: D102
        ids = read_prompt(self.generator.config, self.vocabulary, text, "text")
        room = max(1, self.longest - CONTINUED)
        left_out = len(ids) - room
        if left_out <= 0:
            return ids, ()
        return ids[-room:], (f"the text has {len(ids)} tokens, and the last {room} are looked into",)

    def complete(self, model: nn.Module, ids: list[int]) -> list[int]:
        """Return the text without its first token, and the continuation; every step reads the whole text anew."""
        forbidden = self.vocabulary.outside(self.generator.config.language_model.lines_are_documents)
        for _ in range(min(CONTINUED, max(1, self.longest - len(ids)))):
            scores = self.log_probabilities(model, ids)[-1].clone()
            scores[forbidden] = -torch.inf
            ids = [*ids, int(scores.argmax())]
        return ids[1:]

    def inputs(self, ids: list[int], target: Sequence[int]) -> list[int]:  # noqa: D102
        return [ids[0], *target[:-1]]

    def counted(self, inputs: Sequence[int]) -> list[int]:  # noqa: D102
        return list(range(len(inputs)))

    def logits(self, model: nn.Module, inputs: Sequence[int]) -> Tensor:  # noqa: D102
        assert isinstance(model, DecoderOnly)
        return model.project(model(torch.tensor([list(inputs)], device=self.device))[0])


class MaskedModelTracer(StackTracer):
    """Tracer of an encoder-only masked language model: the text with its masks filled, or each token as it reads it."""

    part = "encoder"

    def __init__(self, stack: HeadedEncoder, vocabulary: Vocabulary) -> None:
        super().__init__(stack, vocabulary, stack.encoder.max_length)

    @classmethod
    def load(cls, run: Path, config: Config, device: str = "auto") -> MaskedModelTracer:
        """Load a run of the task masked_language_model; raises `CheckpointError` or `DeviceError`."""
        return cls(*load_masked_model(run, config, device=device, precision="float32"))

    def read(self, text: str) -> tuple[list[int], tuple[str, ...]]:  # noqa: D102
        ids = encode_masked(" ".join(text.split()), self.vocabulary)
        if len(ids) <= self.longest:
            return ids, ()
        note = f"the text has {len(ids)} tokens, and the first {self.longest - 1} are looked into"
        return [*ids[: self.longest - 1], ids[-1]], (note,)

    def complete(self, model: nn.Module, ids: list[int]) -> list[int]:  # noqa: D102
        scores = self.log_probabilities(model, ids).clone()
        scores[:, [*range(self.vocabulary.ordinary), self.vocabulary.line_end]] = -torch.inf
        best = scores.argmax(-1).tolist()
        inner = set(self.counted(ids))
        return [best[i] if i in inner else number for i, number in enumerate(ids)]

    def inputs(self, ids: list[int], target: Sequence[int]) -> list[int]:  # noqa: D102
        if len(target) != len(ids):
            raise ConfigError(
                f"target: expected as many tokens as the text has, {len(ids)}, found {len(target)}"
            )
        return ids

    def counted(self, inputs: Sequence[int]) -> list[int]:
        """Return the positions of the masks, or of all tokens between the first and the last one."""
        mask = self.vocabulary.symbol(MASK)
        return [i for i, number in enumerate(inputs) if number == mask] or list(range(1, len(inputs) - 1))

    def logits(self, model: nn.Module, inputs: Sequence[int]) -> Tensor:  # noqa: D102
        assert isinstance(model, HeadedEncoder)
        hidden = model(torch.tensor([list(inputs)], device=self.device))[0]
        return model.head(hidden, model.encoder.embedding.weight)
