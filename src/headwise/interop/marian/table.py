"""Parameters of Marian's Transformer, beside Headwise's; its matrices are (input, output), ours the reverse."""

from __future__ import annotations

from collections.abc import Callable

from headwise.config import ModelConfig
from headwise.interop.residual import reordered
from headwise.interop.table import SAME, TRANSPOSED, VECTOR, Change, Row

OPTIONS = "special:model.yml"  # array of the characters of a YAML text
POSITIONS = "Wpos"
OUTPUT = "decoder_ff_logit_out"
NORM_EPSILON = 1e-6
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}


def embeddings(model: ModelConfig) -> dict[str, str]:
    """Return the name in Marian of each matrix of embeddings, which is in both (vocabulary, d_model)."""
    if model.share_embeddings == "all":
        return {"source_embedding.weight": "Wemb"}
    names = {"source_embedding.weight": "encoder_Wemb", "target_embedding.weight": "decoder_Wemb"}
    if model.share_embeddings == "none":
        names["output_projection.weight"] = f"{OUTPUT}_Wt"
    return names


def table(
    model: ModelConfig, *, permuted: bool, words: Callable[[str, str], Change] = lambda ours, theirs: SAME
) -> list[Row]:
    """Return our parameters and theirs, without positions and the bias of the logits.

    With `permuted` they have all sines before all cosines, ours alternate. `words` returns the change of embeddings,
    whose rows may have another order there, by our name and theirs.
    """

    def row(ours: str, theirs: str, change: Change, zeros: tuple[int, ...] = ()) -> Row:
        return Row(ours, theirs, change.then(reordered(ours)) if permuted else change, zeros)

    rows = [row(ours, theirs, words(ours, theirs)) for ours, theirs in embeddings(model).items()]

    def norm(ours: str, theirs: str, suffix: str) -> list[Row]:
        names = {f"{ours}.weight": f"{theirs}_scale{suffix}", f"{ours}.bias": f"{theirs}_bias{suffix}"}
        return [row(own, name, VECTOR) for own, name in names.items()]

    pre = "_pre" if model.norm == "pre" else ""
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        parts = {"self": "attention" if side == "encoder" else "self_attention"}
        parts |= {} if side == "encoder" else {"context": "cross_attention"}
        for number in range(layers):
            ours, theirs = f"{side}.{number}", f"{side}_l{number + 1}"
            for part, around in parts.items():
                attention = f"{ours}.{'cross' if part == 'context' else 'self'}_attention"
                for projection, letter in _PROJECTIONS.items():
                    own, name = f"{attention}.{projection}", f"{theirs}_{part}"
                    rows.append(row(f"{own}.weight", f"{name}_W{letter}", TRANSPOSED))
                    if model.attention_bias:
                        rows.append(row(f"{own}.bias", f"{name}_b{letter}", VECTOR, (model.d_model,)))
                rows += norm(f"{ours}.around_{around}.norm", f"{theirs}_{part}_Wo_ln", pre)
            for index in (1, 2):
                own = f"{ours}.feed_forward.w{index}"
                rows.append(row(f"{own}.weight", f"{theirs}_ffn_W{index}", TRANSPOSED))
                rows.append(row(f"{own}.bias", f"{theirs}_ffn_b{index}", VECTOR))
            rows += norm(f"{ours}.around_feed_forward.norm", f"{theirs}_ffn_ffn_ln", pre)
        if model.norm == "pre":
            rows += norm(f"{side}_norm", f"{side}_top_ln", "")
    return rows
