"""CTranslate2, with the workload's weights converted to its format, so that every system decodes the same model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwise.bench.peer import Decoder, Decoding, Peer, Room, Setting
from headwise.bench.workload import Workload
from headwise.config import ModelConfig

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")  # in the order of Headwise's ids
_KINDS = ("fused", "reference", "memory_efficient")  # kinds that compute plain scaled dot-product attention
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}


class System(Peer):
    """CTranslate2's `Translator.translate_batch` with int8 and floating-point weights, workers x threads."""

    name = "ctranslate2"
    packages = ("ctranslate2",)

    def refuses(self, workload: Workload) -> str:  # noqa: D102
        return refuses(workload.config.model)

    def load(self) -> None:  # noqa: D102
        # CTranslate2's converters import torch and transformers if they are installed. Decoding needs neither, and
        # uses less memory without them.
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
        tokens = vocabulary(workload.source_size)

        def run(sources: Sequence[list[int]], job: Decoding) -> list[list[int]]:
            results: Any = translator.translate_batch(
                [[tokens[i] for i in ids] for ids in sources],
                max_batch_size=job.batch,
                beam_size=job.beam,
                length_penalty=0,
                min_decoding_length=job.length or 1,
                max_decoding_length=job.length or max(map(len, sources)) + 50,
                disable_unk=job.strict,
                suppress_sequences=[["<pad>"], ["<s>"]] if job.strict else None,
            )
            return [[_id(token) for token in result.hypotheses[0]] for result in results]

        return run


def refuses(model: ModelConfig) -> str:
    """Return the reason why CTranslate2 doesn't support a model, or an empty string."""
    if model.architecture != "transformer":
        return f"ctranslate2: skipped, it has no architecture {model.architecture}"
    if model.positions not in ("sinusoidal", "learned"):
        return f"ctranslate2: skipped, the conversion has no positions={model.positions}"
    if model.attention not in _KINDS or model.key_value_heads or model.d_k or model.d_v:
        return "ctranslate2: skipped, it has plain attention of d_model/heads, and this model hasn't"
    return ""


def vocabulary(size: int) -> list[str]:
    """Return the token of each id: the name of a special symbol, or the id as text."""
    return [*_SPECIAL, *(str(i) for i in range(len(_SPECIAL), size))]


def _id(token: str) -> int:
    return _SPECIAL.index(token) if token in _SPECIAL else int(token)


def convert(workload: Workload, folder: Path, quantization: str | None) -> None:
    """Convert the workload's weights to a CTranslate2 model in `folder`."""
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
    """Set the weights of one linear layer, or of several concatenated along the output dimension."""
    import numpy as np

    spec.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
    if f"{names[0]}.bias" in weights:
        spec.bias = np.concatenate([weights[f"{name}.bias"] for name in names])


def _norm(spec: Any, weights: dict[str, Any], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
