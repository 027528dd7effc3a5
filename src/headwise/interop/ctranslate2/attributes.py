"""The configuration of a CTranslate2 Transformer, from the attributes and the shapes in its model.bin."""

from __future__ import annotations

import math
import re

from pydantic import ValidationError

from headwise.config import ModelConfig
from headwise.errors import CheckpointError
from headwise.interop.ctranslate2.binary import ModelFile
from headwise.interop.ctranslate2.layout import ACTIVATIONS, LOGIT_BIAS, SIDES, TARGET_EMBEDDING

SPECIFICATION, REVISIONS = "TransformerSpec", range(3, 8)
_ACTIVATIONS = ("relu", "gelu_tanh", "silu", "gelu")  # in the order of CTranslate2's `Activation`
_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/")
# Attributes of a side or of the model that are read elsewhere, or have no effect on a translation.
IGNORED = {
    *("unk_token", "bos_token", "eos_token", "with_source_bos", "with_source_eos", "with_target_bos"),
    "user_decoder_start_tokens",
    *(
        "alignment_layer",
        "alignment_heads",
        "embeddings_merge",
        "alibi_use_positive_positions",
        "scale_alibi",
    ),
    *("num_heads", "pre_norm", "activation", "scale_embeddings", "embeddings/multiply_by_sqrt_depth"),
    *("multi_query_attention", "alibi", "start_from_zero_embedding"),
}
_OFF = ("multi_query_attention", "alibi")  # that Headwise's model hasn't


def check_specification(file: ModelFile) -> None:
    """Raise `CheckpointError` unless the file is a Transformer in a layout that is known."""
    name, revision = file.specification
    if name != SPECIFICATION or revision not in REVISIONS:
        raise CheckpointError(
            f"{file.path}: expected a {SPECIFICATION} of revision {REVISIONS[0]} to {REVISIONS[-1]}, "
            f"found {name[:60]} of revision {revision}"
        )


def source_embedding(file: ModelFile) -> str:
    """Return the name of the source embedding, which was another one before features."""
    names = ("encoder/embeddings_0/weight", "encoder/embeddings/weight")
    return next((name for name in names if name in file.variables), names[0])


def attribute(file: ModelFile, name: str, default: float) -> float:
    """Return an attribute of both sides, or of the model as older files have it; raises `CheckpointError`."""
    found = [_first(file, (f"{side}/{name}", name), default) for side in SIDES]
    if found[0] != found[1]:
        raise CheckpointError(
            f"{file.path}: {name}: expected the same of encoder and decoder, found {found[0]:g} and {found[1]:g}"
        )
    return found[0]


def _first(file: ModelFile, names: tuple[str, ...], default: float) -> float:
    """Return the first of some numbers that the file has."""
    numbers = (file.number(name) for name in names)
    return next((number for number in numbers if number is not None), default)


def starts_empty(file: ModelFile) -> bool:
    """Whether the first input of the decoder is a vector of zeros, as in Marian."""
    return bool(file.number("decoder/start_from_zero_embedding"))


def shape_of(file: ModelFile, name: str) -> tuple[int, ...]:
    """Return the shape of a parameter; raises `CheckpointError` where it is missing or isn't of its name's kind."""
    dimensions = 2 if name.endswith(("/weight", "/encodings")) else 1
    if name not in file.variables:
        raise CheckpointError(f"{file.path}: expected a variable {name}, found none of that name")
    variable = file.variables[name]
    if len(variable.shape) != dimensions:
        raise CheckpointError(
            f"{file.path}: expected {name} with {dimensions} dimensions, found shape {variable.shape}"
        )
    if variable.type == "int32" or (dimensions == 1 and variable.type.startswith("int")):
        raise CheckpointError(f"{file.path}: expected {name} in floating point, found {variable.type}")
    return variable.shape


def read_model(
    file: ModelFile, *, share: str, positions: str, max_length: int, source_end: bool, epsilon: float | None
) -> ModelConfig:
    """Return the configuration; raises `CheckpointError` for what Headwise can't express."""
    for side in SIDES:
        for name in _OFF:
            if file.number(f"{side}/{name}"):
                raise CheckpointError(f"{file.path}: {side}/{name}: expected it to be off, found it on")
    activation = int(attribute(file, "activation", 0))
    if not 0 <= activation < len(_ACTIVATIONS):
        raise CheckpointError(
            f"{file.path}: activation: expected 0 to {len(_ACTIVATIONS) - 1}, one of {', '.join(ACTIVATIONS)}, "
            f"found {activation}"
        )
    first = "encoder/layer_0"
    normalization = "layer" if f"{first}/ffn/layer_norm/beta" in file.variables else "rms"
    d_model = shape_of(file, TARGET_EMBEDDING)[1]
    try:
        return ModelConfig(
            encoder_layers=_layers(file, "encoder"),
            decoder_layers=_layers(file, "decoder"),
            d_model=d_model,
            d_ff=shape_of(file, f"{first}/ffn/linear_0/weight")[0],
            heads=int(attribute(file, "num_heads", 8)),
            norm="pre" if attribute(file, "pre_norm", 1) else "post",
            normalization=normalization,
            norm_epsilon=epsilon or (1e-5 if normalization == "layer" else 1e-6),
            activation=_ACTIVATIONS[activation],
            gated=f"{first}/ffn/linear_0_noact/weight" in file.variables,
            feed_forward_bias=f"{first}/ffn/linear_0/bias" in file.variables,
            attention_bias=f"{first}/self_attention/linear_0/bias" in file.variables,
            logit_bias=LOGIT_BIAS in file.variables,
            positions=positions,
            max_length=max_length,
            share_embeddings=share,  # type: ignore[arg-type]
            scale_embeddings=_scaled(file, d_model),
            source_end=source_end,
        )
    except ValidationError as error:
        raise CheckpointError(f"{file.path}: {error.errors()[0]['msg']}") from None


def _layers(file: ModelFile, side: str) -> int:
    """Return the number of layers; one that is missing between others is found when its variables are read."""
    matches = (_LAYER.match(name) for name in file.variables)
    return len({match[2] for match in matches if match and match[1] == side})


def _scaled(file: ModelFile, d_model: int) -> bool:
    """Whether embeddings are multiplied by √d_model; raises `CheckpointError` for another factor."""
    factors = [_factor(file, side, math.sqrt(d_model)) for side in SIDES]
    scaled = math.isclose(factors[0], math.sqrt(d_model), rel_tol=1e-5)
    if factors[0] != factors[1] or not (scaled or factors[0] == 1):
        raise CheckpointError(
            f"{file.path}: scale_embeddings: expected a factor of 1 or √{d_model} on both sides, "
            f"found {factors[0]:g} and {factors[1]:g}"
        )
    return scaled


def _factor(file: ModelFile, side: str, root: float) -> float:
    """Return the factor of one side's embeddings: a flag for the root of d_model, or the number itself."""
    for name in (f"{side}/scale_embeddings", f"{side}/embeddings/multiply_by_sqrt_depth"):
        value = file.number(name)
        if value is not None:
            return value if file.variables[name].type != "int8" else root if value else 1.0
    return root
