"""Text generation with a language model, token by token; `headwise.decoding.sampling` has the random draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.config import Config
from headwise.decoding.sampling import draw, shaped
from headwise.engine.options import GenerationOptions
from headwise.engine.uniforms import uniforms
from headwise.models.build import build_decoder_only, load_trained
from headwise.models.decoder_only import DecoderOnly, DecoderState
from headwise.text.tokens.loading import trained_vocabulary
from headwise.text.tokens.subwords import EOS
from headwise.text.tokens.vocabulary import TextDecoder, Vocabulary, refuse_unknown

_NUMBERS = 256  # random numbers drawn in advance


def first_token(config: Config, vocabulary: Vocabulary) -> int:
    """Return the id from which a text's first token is predicted: the end of the document or line before it."""
    if vocabulary.begin is not None:
        return vocabulary.begin
    return EOS if config.language_model.lines_are_documents else vocabulary.line_end


def read_prompt(config: Config, vocabulary: Vocabulary, text: str, origin: str) -> list[int]:
    """Return the ids from which the continuation of a text is predicted; raises `DataError` for unknown characters."""
    ids = refuse_unknown(vocabulary, text, origin)
    return ids if ids and not vocabulary.opens else [first_token(config, vocabulary), *ids]


def load_language_model(
    run: Path, config: Config, *, device: str = "auto", precision: str = "float32"
) -> tuple[DecoderOnly, Vocabulary]:
    """Load the trained model of a run directory, in evaluation mode, and its vocabulary.

    Raises `CheckpointError` where the run is damaged, and `DeviceError` where the device isn't available.
    """
    vocabulary = trained_vocabulary(run)
    model = load_trained(lambda: build_decoder_only(config.model, vocabulary.size), run, device, precision)
    return model, vocabulary


@torch.no_grad()
def generate_ids(
    model: DecoderOnly,
    prompt: Sequence[int],
    options: GenerationOptions,
    *,
    samples: int = 1,
    forbidden: Sequence[int] = (),
    end: int | None = None,
) -> Iterator[list[int | None]]:
    """Yield the next token of every sample, step by step; None after the sample has ended with the token `end`.

    The prompt must not be empty. A key/value cache holds at most `max_length` tokens: when it is full, the last
    `max_length // 2` tokens are encoded again and continued. A recurrent model has no such limit. A sample
    depends only on the prompt, the seed and its index. The prompt is the prefix of a prefix language model.
    """
    device = next(model.parameters()).device
    greedy, unlimited = options.temperature == 0, not (model.keeps_all or model.bounded)
    # The tokens that may be encoded again, (samples, time).
    history = torch.tensor([list(prompt)] * samples, device=device)
    allowed = torch.zeros(model.size, device=device)
    allowed[list(forbidden)] = -torch.inf
    alive = torch.ones(samples, dtype=torch.bool, device=device)
    numbers = torch.empty(samples, 0, dtype=torch.float64)
    log_probs, state = _prefill(model, history, unlimited, model.config.prefix)
    for step in range(options.max_tokens):
        if step == numbers.size(1) and not greedy:
            count = min(options.max_tokens, max(_NUMBERS, 2 * step))
            numbers = torch.from_numpy(uniforms(list(prompt), samples, count, options.seed)).to(device)
        scores = log_probs + allowed
        if greedy:
            tokens = scores.argmax(dim=-1)
        else:
            probabilities, choices = shaped(scores, options.temperature, options.top_k, options.top_p)
            tokens = choices.gather(-1, draw(probabilities, numbers[:, step])[:, None]).squeeze(-1)
        yield [t if a else None for t, a in zip(tokens.tolist(), alive.tolist(), strict=True)]
        if end is not None:
            alive &= tokens != end
            if not alive.any():
                return
        if step + 1 == options.max_tokens:
            return
        if unlimited:
            log_probs, state = model.step(tokens[:, None], state)
            continue
        history = torch.cat([history, tokens[:, None]], dim=1)
        if state.position < model.max_length:
            log_probs, state = model.step(tokens[:, None], state)
        else:
            history = history[:, -max(1, model.max_length // 2) :]
            log_probs, state = _prefill(model, history, unlimited, False)


def _prefill(model: DecoderOnly, tokens: Tensor, unlimited: bool, prefix: bool) -> tuple[Tensor, DecoderState]:
    """Encode tokens (samples, time), or only the last `max_length` where the model's context is limited."""
    if not unlimited:
        tokens = tokens[:, -model.max_length :]
    lengths = tokens.new_full((tokens.size(0),), tokens.size(1)) if prefix else None
    return model.step(tokens, model.start(), lengths)


class Generator:
    """Text generation with a trained language model."""

    def __init__(self, model: DecoderOnly, vocabulary: Vocabulary, config: Config) -> None:
        """Use a loaded model in evaluation mode, on the device of its parameters."""
        self.model, self.vocabulary, self.config = model, vocabulary, config

    @classmethod
    def load(cls, run: str | Path, *, device: str = "auto", precision: str = "float32") -> Generator:
        """Load a run directory; raises `CheckpointError` where it is missing, damaged or not of a language model."""
        config = Config.of_run(Path(run), "language_model")
        return cls(*load_language_model(Path(run), config, device=device, precision=precision), config)

    def stream(
        self,
        prompt: str = "",
        options: GenerationOptions | None = None,
        *,
        samples: int = 1,
        origin: str = "prompt",
    ) -> Iterator[list[str]]:
        """Yield the text that each step appends to each sample: whole characters, or an empty string.

        Where lines are documents, a sample ends with its document. Raises `DataError`, which names the prompt's
        `origin`, for a prompt with characters that aren't in the vocabulary.
        """
        documents = self.config.language_model.lines_are_documents
        ids = read_prompt(self.config, self.vocabulary, prompt, origin)
        decoders = [TextDecoder(self.vocabulary) for _ in range(samples)]
        steps = generate_ids(
            self.model,
            ids,
            options or GenerationOptions(),
            samples=samples,
            forbidden=self.vocabulary.outside(documents),
            end=EOS if documents else None,
        )
        for tokens in steps:
            yield ["" if t is None else d.feed(t) for d, t in zip(decoders, tokens, strict=True)]
        yield [decoder.end() for decoder in decoders]

    def generate(self, prompt: str = "", options: GenerationOptions | None = None, **arguments: Any) -> list[str]:
        """Return the complete samples, without the prompt; keyword arguments and errors as for `stream`."""
        texts = [""] * arguments.get("samples", 1)
        for parts in self.stream(prompt, options, **arguments):
            texts = [text + part for text, part in zip(texts, parts, strict=True)]
        return texts
