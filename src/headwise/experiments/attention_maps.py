"""What a trained Transformer attends to, for the figures: the maps of one sentence, and a summary of every head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from headwise.decoding.translator import Translator
from headwise.errors import DataError
from headwise.experiments.gradient_flow import trained_run
from headwise.experiments.rows import Place
from headwise.experiments.scoring import test_pairs
from headwise.models.weights import read_recipe
from headwise.nn.multihead import recording
from headwise.text.subword import BOS, EOS

PARTS = {
    "encoder": "encoder.{}.self_attention",
    "decoder": "decoder.{}.self_attention",
    "cross": "decoder.{}.cross_attention",
}
_SHORTEST, _LONGEST = 7, 10  # subwords of the sentence that is shown


def measure(*, seed: int, place: Place, sentences: int) -> dict[str, Any]:
    """Record one short test sentence, and summarize the heads over the first `sentences` of the test set."""
    run = trained_run(place, "transformer", seed)
    translator = Translator.load(run, device="cpu")
    pairs = list(zip(*test_pairs(place.scale), strict=True))[:sentences]
    encoded = [_encode(translator, *pair) for pair in pairs]
    shown = next(
        (pair for pair in encoded if all(_SHORTEST <= len(side) - 1 <= _LONGEST for side in pair)), None
    )
    if shown is None:
        raise DataError(
            f"{place.scale.test_source}: expected a sentence pair of {_SHORTEST} to {_LONGEST} subwords among the "
            f"first {sentences}, found none"
        )
    maps = _weights(translator, *shown)
    layers = translator.model.config.encoder_layers  # type: ignore[union-attr]
    return {
        "source": [*translator.subwords.source_pieces(shown[0][:-1]), "</s>"],
        "target": ["<s>", *translator.subwords.target_pieces(shown[1][1:])],
        "maps": {part: [(weights * 1000).round().int().tolist() for weights in maps[part]] for part in PARTS},
        "layers": layers,
        "heads": list(_summaries(translator, encoded)),
        "sentences": len(encoded),
        "checksums": read_recipe(run / "model.safetensors"),
    }


def _encode(translator: Translator, source: str, target: str) -> tuple[list[int], list[int]]:
    """Ids as the encoder and the decoder read them."""
    subwords = translator.subwords
    return [*subwords.encode_source(source), EOS], [BOS, *subwords.encode_target(target)]


@torch.no_grad()
def _weights(translator: Translator, source: Sequence[int], target: Sequence[int]) -> dict[str, list[Tensor]]:
    """Return for each part the weights of its layers, (heads, query, key)."""
    ids = torch.tensor([source])
    with recording(translator.model) as records:
        translator.model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([target]))
    found: dict[str, list[Tensor]] = {}
    for part, pattern in PARTS.items():
        layers = sum(1 for number in range(len(records)) if pattern.format(number) in records)
        found[part] = [records[pattern.format(number)][0][0] for number in range(layers)]
    return found


def _summaries(
    translator: Translator, pairs: Sequence[tuple[list[int], list[int]]]
) -> Iterator[dict[str, Any]]:
    """Say of each head how often it looks most at one fixed offset, how sharply, and how much at the end or start.

    The decoder's first query, which sees only itself, isn't counted.
    """
    offsets: dict[tuple[str, int, int], Counter[int]] = {}
    sums: dict[tuple[str, int, int], Tensor] = {}
    for source, target in pairs:
        for part, layers in _weights(translator, source, target).items():
            for layer, weights in enumerate(layers):
                rows = weights[:, 1:] if part == "decoder" else weights
                first = 1 if part == "decoder" else 0
                place = torch.arange(first, first + rows.size(1))
                border = rows[..., 0 if part == "decoder" else -1]
                entropy = -torch.special.xlogy(rows, rows).sum(-1)
                for head, best in enumerate(rows.argmax(-1)):
                    key = (part, layer, head)
                    offsets.setdefault(key, Counter()).update((best - place).tolist())
                    sums.setdefault(key, torch.zeros(2)).add_(
                        torch.stack([entropy[head].sum(), border[head].sum()])
                    )
    for key, counts in offsets.items():
        offset, often = counts.most_common(1)[0]
        rows_seen = sum(counts.values())
        entropy, border = (sums[key] / rows_seen).tolist()
        yield {
            "part": key[0],
            "layer": key[1],
            "head": key[2],
            "offset": offset,
            "share": often / rows_seen,
            "entropy": entropy,
            "border": border,
        }
