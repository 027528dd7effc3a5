"""CTranslate2: the workload's own weights in its format, so that both decode the same model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwise.bench.peer import Decoder, Decoding, Peer, Room, Setting
from headwise.bench.workload import Workload
from headwise.config import ModelConfig

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")  # in the order of our ids
_KINDS = ("fused", "reference", "memory_efficient")  # what computes plain attention
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}


class System(Peer):
    """`Translator.translate_batch` on int8 and floating-point weights, workers x threads."""

    name = "ctranslate2"
    packages = ("ctranslate2",)

    def refuses(self, workload: Workload) -> str:  # noqa: D102
        return refuses(workload.config.model)

    def load(self) -> None:  # noqa: D102
        # Its converters import torch and transformers where they are installed; decoding needs neither, and
        # without them it takes less memory.
        for name in ("torch", "transformers"):
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]
        super().load()

    def prepare(self, workload: Workload, folder: Path) -> None:  # noqa: D102
        for quantization in (None, "int8"):
            convert(workload, folder / f"ctranslate2-{quantization or 'float'}", quantization)

    def training_settings(self, room: Room) -> list[Setting]:  # noqa: D102
        return []

    def decoding_settings(self, room: Room, job: Decoding) -> list[Setting]:  # noqa: D102
        if room.device != "cpu":
            return [Setting(precision, 1) for precision in ("float16", "int8_float16")]
        shapes = {(1, room.threads), (1, 1)}
        if job.batch > 1:
            shapes |= {(room.threads, 1)}
        return [
            Setting(precision, threads, workers)
            for precision in ("float32", "int8")
            for workers, threads in sorted(shapes)
        ]

    def open_decoding(self, workload: Workload, setting: Setting, device: str) -> Decoder:  # noqa: D102
        import ctranslate2

        kind = "int8" if setting.precision.startswith("int8") else "float"
        translator = ctranslate2.Translator(
            str(workload.folder / f"ctranslate2-{kind}"),
            device=device,
            compute_type=setting.precision,
            inter_threads=setting.workers,
            intra_threads=setting.threads,
        )
        words = vocabulary(workload.source_size)

        def run(sources: Sequence[list[int]], job: Decoding) -> list[list[int]]:
            found: Any = translator.translate_batch(
                [[words[token] for token in row] for row in sources],
                max_batch_size=job.batch,
                beam_size=job.beam,
                length_penalty=0,
                min_decoding_length=job.length or 1,
                max_decoding_length=job.length or max(map(len, sources)) + 50,
                disable_unk=job.strict,
                suppress_sequences=[["<pad>"], ["<s>"]] if job.strict else None,
            )
            return [[_number(word) for word in each.hypotheses[0]] for each in found]

        return run


def refuses(model: ModelConfig) -> str:
    """Say what of a model CTranslate2 hasn't, or return an empty string."""
    if model.architecture != "transformer":
        return f"ctranslate2: skipped, it has no architecture {model.architecture}"
    if model.positions not in ("sinusoidal", "learned"):
        return f"ctranslate2: skipped, the conversion has no positions={model.positions}"
    if model.attention not in _KINDS or model.key_value_heads or model.d_k or model.d_v:
        return "ctranslate2: skipped, it has plain attention of d_model/heads, and this model hasn't"
    return ""


def vocabulary(size: int) -> list[str]:
    """Return one word for each id: the special symbols by their names, the others by their numbers."""
    return [*_SPECIAL, *(str(token) for token in range(len(_SPECIAL), size))]


def _number(word: str) -> int:
    return _SPECIAL.index(word) if word in _SPECIAL else int(word)


def convert(workload: Workload, folder: Path, quantization: str | None) -> None:
    """Write the workload's weights as a CTranslate2 model."""
    from ctranslate2.specs import Activation, TransformerSpec
    from safetensors.numpy import load_file

    config = workload.config.model
    weights = load_file(workload.weights)
    spec: Any = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=getattr(Activation, _ACTIVATIONS[config.activation]),
    )
    target = "source" if config.share_embeddings == "all" else "target"
    output = "output_projection" if config.share_embeddings == "none" else f"{target}_embedding"
    spec.encoder.embeddings[0].weight = weights["source_embedding.weight"]
    spec.decoder.embeddings.weight = weights[f"{target}_embedding.weight"]
    spec.decoder.projection.weight = weights[f"{output}.weight"]
    table = _positions(config, weights)
    for stack, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        stack.position_encodings.encodings = table
        if config.norm == "pre":
            _norm(stack.layer_norm, weights, f"{name}_norm")
        for number, layer in enumerate(stack.layer):
            _layer(layer, weights, f"{name}.{number}")
    spec.register_source_vocabulary(vocabulary(workload.source_size))
    spec.register_target_vocabulary(vocabulary(workload.target_size))
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir()
    spec.save(str(folder))


def _positions(config: ModelConfig, weights: dict[str, Any]) -> Any:
    if config.positions == "learned":
        return weights["positions.table"]
    from headwise.nn.positions import sinusoids

    return sinusoids(config.max_length, config.d_model).numpy()


def _layer(spec: Any, weights: dict[str, Any], name: str) -> None:
    attention, joined = f"{name}.self_attention", spec.self_attention.linear
    _linear(joined[0], weights, *(f"{attention}.{part}" for part in ("query", "key", "value")))
    _linear(joined[1], weights, f"{attention}.output")
    around = "around_self_attention" if name.startswith("decoder") else "around_attention"
    _norm(spec.self_attention.layer_norm, weights, f"{name}.{around}.norm")
    if name.startswith("decoder"):
        attention, parts = f"{name}.cross_attention", spec.attention.linear
        _linear(parts[0], weights, f"{attention}.query")
        _linear(parts[1], weights, f"{attention}.key", f"{attention}.value")
        _linear(parts[2], weights, f"{attention}.output")
        _norm(spec.attention.layer_norm, weights, f"{name}.around_cross_attention.norm")
    _linear(spec.ffn.linear_0, weights, f"{name}.feed_forward.w1")
    _linear(spec.ffn.linear_1, weights, f"{name}.feed_forward.w2")
    _norm(spec.ffn.layer_norm, weights, f"{name}.around_feed_forward.norm")


def _linear(spec: Any, weights: dict[str, Any], *names: str) -> None:
    """Fill one linear map, or several that stand above one another."""
    import numpy as np

    spec.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
    if f"{names[0]}.bias" in weights:
        spec.bias = np.concatenate([weights[f"{name}.bias"] for name in names])


def _norm(spec: Any, weights: dict[str, Any], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
