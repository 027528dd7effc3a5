"""Tracers of models of one text: a language model's continuation (GPT), and a masked one's filled masks (BERT).

Their traces have one hypothesis and no beam tree. The only part is `decoder` for a language model, and `encoder` for a
masked one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.analysis.interventions import Intervention
from headwise.analysis.recording import Row, Stack
from headwise.analysis.trace import Ranked, Side, Trace
from headwise.analysis.tracer import LONGEST, Model, Tracer
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.config import Config
from headwise.decoding.generation import Generator, read_prompt
from headwise.errors import ConfigError
from headwise.models.decoder_only import DecoderOnly
from headwise.models.output_heads import HeadedEncoder
from headwise.tasks.masked_language_model import encode_masked, load_masked_model
from headwise.text.tokens.vocabulary import MASK, Vocabulary

CONTINUED = 8  # tokens of the continuation whose change is shown
_WITHOUT_PREFIX = "attention is causal, as with a prefix of no tokens; headwise predict reads a prompt as a prefix"


class TextTracer(Tracer[Model]):
    """Tracer of a model of one text, with a single stack of layers."""

    part: Stack

    def __init__(self, trained: Model, vocabulary: Vocabulary, max_length: int) -> None:
        super().__init__(lambda: trained, min(LONGEST, max_length))
        self.vocabulary = vocabulary

    @abstractmethod
    def complete(self, model: Model, ids: Sequence[int]) -> list[int]:
        """Return the target ids: the model's own completion of the ids that it reads."""

    @abstractmethod
    def inputs(self, ids: Sequence[int], target: Sequence[int]) -> Sequence[int]:
        """Return the ids that the model reads when it is asked for the probabilities of a target."""

    def exponent(self, alpha: float | None) -> float:
        """Return 0: there is one hypothesis, whose score is its log-probability."""
        return 0.0

    def trace(self, text: str, interventions: Sequence[Intervention] = (), **options: Any) -> Trace:
        """Complete a text and return the trace; options are a translator's and have no effect.

        Raises `ConfigError` as `model`, `DataError` for unknown characters.
        """
        source, notes = self.read(text)
        with self.model(interventions) as model, torch.inference_mode():
            target = self.complete(model, source.ids)
            sides = self._sides(source, target)
            forced = self.forced_of(self.forward(model, sides, target, interventions), 0.0, 5)
        total = forced.log_probability
        hypothesis = Ranked(0, forced.target.text, tuple(target), total, 1.0, total, forced.log_probabilities)
        return Trace(
            source=sides[self.part],
            forced=forced,
            hypotheses=(hypothesis,),
            tree=(),
            beam=1,
            alpha=0.0,
            interventions=tuple(interventions),
            architecture=f"{self.part}-only",
            notes=notes,
        )

    def forced(  # noqa: D102
        self, text: str | Side, target: str | Sequence[int]
    ) -> tuple[dict[Row, Side], tuple[int, ...]]:
        source, ids = text if isinstance(text, Side) else self.read(text)[0], self._checked(target)
        return self._sides(source, ids), ids

    def _sides(self, source: Side, target: Sequence[int]) -> dict[Row, Side]:
        return {self.part: self.side(self.inputs(source.ids, target))}

    def names(self, ids: Sequence[int]) -> Sequence[str]:  # noqa: D102
        return [self.vocabulary.piece(number) for number in ids]

    def side(self, ids: Sequence[int]) -> Side:
        """Return the text, tokens and words of ids; symbols are words of their own."""
        pieces = tuple(map(self.vocabulary.piece, ids))
        starts = [
            index > 0
            and (
                min(number, ids[index - 1]) < self.vocabulary.ordinary
                or self.vocabulary.spelled(number).startswith((b" ", b"\n"))
            )
            for index, number in enumerate(ids)
        ]
        word_of = tuple(accumulate(map(int, starts)))
        groups = groupby(zip(word_of, ids, strict=True), key=itemgetter(0))
        words = tuple(self._word([number for _, number in group]) for _, group in groups)
        return Side(self.vocabulary.decode(ids), tuple(ids), pieces, words, word_of)

    def _word(self, ids: Sequence[int]) -> str:
        """Return a word as a text has it, without spaces around it; of a symbol, or of spaces alone, the pieces."""
        text = "" if ids[0] < self.vocabulary.ordinary else self.vocabulary.decode(ids).strip()
        return text or "".join(map(self.vocabulary.piece, ids))

    def _checked(self, target: str | Sequence[int]) -> tuple[int, ...]:
        if isinstance(target, str):
            raise ConfigError("target: expected ids as a trace has them, found a text")
        ids = tuple(map(int, target))
        if not 0 < len(ids) <= self.longest:
            raise ConfigError(f"target: expected from 1 to {self.longest} tokens, found {len(ids)}")
        if out_of_range := [i for i in ids if not 0 <= i < self.vocabulary.size]:
            raise ConfigError(f"target: expected ids below {self.vocabulary.size}, found {out_of_range[0]}")
        return ids


class LanguageModelTracer(TextTracer[DecoderOnly]):
    """Tracer of a decoder-only model: the text and its most probable continuation, token by token."""

    part = "decoder"
    what = "the next token of this text"

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator.model, generator.vocabulary, generator.model.max_length)
        self.generator = generator

    @classmethod
    def load(cls, run: Path, device: str = "auto") -> LanguageModelTracer:
        """Load a run of the task language_model; raises `CheckpointError` or `DeviceError`."""
        return cls(Generator.load(run, device=device))

    def read(self, text: str) -> tuple[Side, tuple[str, ...]]:  # noqa: D102
        ids = read_prompt(self.generator.config, self.vocabulary, text, "text")
        notes = (_WITHOUT_PREFIX,) if self.trained.config.prefix else ()
        room = max(1, self.longest - CONTINUED)
        if len(ids) <= room:
            return self.side(ids), notes
        note = f"the text has {len(ids)} tokens, and the last {room} are looked into"
        return self.side(ids[-room:]), (*notes, note)

    def complete(self, model: DecoderOnly, ids: Sequence[int]) -> list[int]:
        """Return the text without its first token, and the continuation; every step reads the whole text anew."""
        forbidden = self.vocabulary.outside(self.generator.config.language_model.lines_are_documents)
        for _ in range(min(CONTINUED, max(1, self.longest - len(ids)))):
            scores = self._logits(model, ids).float().log_softmax(-1)[-1].clone()
            scores[forbidden] = -torch.inf
            ids = [*ids, int(scores.argmax())]
        return [*ids[1:]]

    def inputs(self, ids: Sequence[int], target: Sequence[int]) -> Sequence[int]:  # noqa: D102
        return [ids[0], *target[:-1]]

    def logits(self, model: DecoderOnly, sides: dict[Row, Side]) -> Tensor:  # noqa: D102
        return self._logits(model, sides["decoder"].ids)

    def _logits(self, model: DecoderOnly, ids: Sequence[int]) -> Tensor:
        return model.project(model(torch.tensor([list(ids)], device=next(model.parameters()).device))[0])


class MaskedModelTracer(TextTracer[HeadedEncoder]):
    """Tracer of an encoder-only masked language model: the text with its masks filled, or each token as it reads it."""

    part = "encoder"
    what = "this text's token"

    def __init__(self, trained: HeadedEncoder, vocabulary: Vocabulary) -> None:
        super().__init__(trained, vocabulary, trained.encoder.max_length)

    @classmethod
    def load(cls, run: Path, device: str = "auto") -> MaskedModelTracer:
        """Load a run of the task masked_language_model; raises `CheckpointError` or `DeviceError`."""
        config = Config.of_run(run, "masked_language_model")
        return cls(*load_masked_model(run, config, device=device, precision="float32"))

    def read(self, text: str) -> tuple[Side, tuple[str, ...]]:  # noqa: D102
        ids = encode_masked(" ".join(text.split()), self.vocabulary)
        if len(ids) <= self.longest:
            return self.side(ids), ()
        note = f"the text has {len(ids)} tokens, and the first {self.longest - 1} are looked into"
        return self.side([*ids[: self.longest - 1], ids[-1]]), (note,)

    def complete(self, model: HeadedEncoder, ids: Sequence[int]) -> list[int]:  # noqa: D102
        side = self.side(ids)
        scores = self.logits(model, {"encoder": side}).float().log_softmax(-1).clone()
        scores[:, [*range(self.vocabulary.ordinary), self.vocabulary.line_end]] = -torch.inf
        best = scores.argmax(-1).tolist()
        inner = set(self.counted(side))
        return [best[i] if i in inner else number for i, number in enumerate(ids)]

    def inputs(self, ids: Sequence[int], target: Sequence[int]) -> Sequence[int]:  # noqa: D102
        if len(target) != len(ids):
            raise ConfigError(f"target: expected as many tokens as the text has, {len(ids)}, found {len(target)}")
        return ids

    def counted(self, reads: Side) -> Sequence[int]:
        """Return the positions of the masks, or of all tokens between the first and the last one."""
        mask = self.vocabulary.symbol(MASK)
        masks = [i for i, number in enumerate(reads.ids) if number == mask]
        return masks or range(1, len(reads.ids) - 1)

    def logits(self, model: HeadedEncoder, sides: dict[Row, Side]) -> Tensor:  # noqa: D102
        hidden = model(torch.tensor([sides["encoder"].ids], device=next(model.parameters()).device))[0]
        return model.head(hidden, model.encoder.embedding.weight)


_TRACERS: dict[str, type[TranslationTracer] | type[LanguageModelTracer] | type[MaskedModelTracer]] = {
    "translation": TranslationTracer,
    "language_model": LanguageModelTracer,
    "masked_language_model": MaskedModelTracer,
}


def open_tracer(run: Path, device: str = "auto") -> Tracer:
    """Load a run whose model reads text: a translator, a language model, or a masked one.

    Raises `CheckpointError` for a run of another task or a damaged one, and `DeviceError`.
    """
    return _TRACERS[Config.of_run(run, *_TRACERS).task].load(run, device)
