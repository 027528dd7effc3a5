"""Every kind with every position encoding in a whole model: it works, also step by step, or fails with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.testing import assert_close

from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.models.build import build_model, load_weights
from headwise.models.transformer import Transformer
from headwise.nn.attention import FEATURES, all_registered, attention_kinds, registered
from headwise.nn.attention_positions import T5Buckets
from headwise.nn.cache import KeyValueCache, RecurrentCache
from headwise.nn.masks import padding_mask
from headwise.nn.mixing import SequenceMixer
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import attention_positions, position_encoding, position_encodings
from headwise.nn.recording import recording
from paths import DOCS

VOCABULARY = 17
KINDS = [kind.name for kind in all_registered()]
WITH_WEIGHTS = [kind.name for kind in attention_kinds()]
POSITIONS = [(encoding.name, {}) for encoding in position_encodings()]
POSITIONS.append(("relative", {"relative": {"values": True, "per_head": True}}))
ids = [name + ("-values" if options else "") for name, options in POSITIONS]
SMALL = {
    "window": {"size": 3, "globals": 1},
    "block_sparse": {"local": 2, "stride": 3},
    "linear": {"chunk": 3},
    "memory_efficient": {"chunk": 4},
    "state_space": {"size": 6, "chunk": 4, "longest": 1.0},
}


def config(kind: str, **changes: Any) -> ModelConfig:
    """Return a small configuration of the kind, with `fused` cross-attention if the kind has none."""
    return ModelConfig.model_validate(
        {
            "encoder_layers": 2,
            "decoder_layers": 2,
            "d_model": 16,
            "d_ff": 16,
            "heads": 4,
            "max_length": 30,
            "attention": kind,
            "cross_attention": "fused" if "cross" in registered(kind).lacks else None,
            "attention_options": SMALL,
            **changes,
        }
    )


def built(kind: str, **changes: Any) -> Transformer:
    torch.manual_seed(0)
    return Transformer(config(kind, **changes), VOCABULARY, VOCABULARY).eval()


def possible(kind: str, positions: str, options: dict[str, Any]) -> bool:
    shape = config(kind, positions=positions, position_options=options)
    (inside,) = attention_positions(shape, 1, causal=True)
    return inside is None or not inside.needs & set(registered(kind).lacks)


def sentences(*lengths: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    tokens = torch.randint(4, VOCABULARY, mask.shape, generator=generator)
    return tokens.masked_fill(~mask, 0), mask


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("positions", "options"), POSITIONS, ids=ids)
@pytest.mark.parametrize("heads", [None, 2])
def test_a_pair_steps_as_it_is_forced_or_fails_when_it_is_built(
    kind: str, positions: str, options: dict[str, Any], heads: int | None
) -> None:
    changes: dict[str, Any] = {
        "positions": positions,
        "position_options": options,
        "key_value_heads": heads,
        "norm": "pre" if heads else "post",
    }
    if not possible(kind, positions, options):
        with pytest.raises(ConfigError, match=rf"model.attention={kind} can't be combined with model.positions="):
            built(kind, **changes)
        return
    model = built(kind, **changes)
    source, mask = sentences(9, 4, 1)
    target, _ = sentences(12, 12, 12)
    with torch.no_grad():
        expected = model.project(model(source, mask, target)).log_softmax(-1)
        state = model.start(model.encode(source, mask))
        rows = torch.arange(3)
        for t in range(target.size(1)):
            found, state = model.step(target[rows, t], state)
            assert_close(found, expected[rows, t], rtol=1e-4, atol=1e-5)
            if t == 5:  # beams are reordered, and finished sentences removed
                rows = torch.tensor([2, 0])
                state = state.keep(rows)


@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        (kind, positions)
        for kind in KINDS
        for positions in ("sinusoidal", "rotary", "alibi", "t5", "relative")
        if possible(kind, positions, {})
    ],
)
def test_padding_and_what_stands_in_it_change_nothing(kind: str, positions: str) -> None:
    model = built(kind, positions=positions)
    source, mask = sentences(9, 4)
    target, _ = sentences(6, 6)
    other = torch.where(mask, source, torch.tensor(5))
    with torch.no_grad():
        assert torch.equal(model(source, mask, target), model(other, mask, target))
        alone = model(source[1:, :4], mask[1:, :4], target[1:])
        assert_close(model(source, mask, target)[1:], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_beams_of_a_sentence_share_its_memory(kind: str) -> None:
    model = built(kind, key_value_heads=1)
    source, mask = sentences(7, 3)
    tokens = torch.tensor([4, 5, 6, 7])
    with torch.no_grad():
        found, _ = model.step(tokens, model.start(model.encode(source, mask), beams=2))
        rows = torch.tensor([0, 0, 1, 1])
        hidden = model(source[rows], mask[rows], tokens[:, None])
        assert_close(found, model.project(hidden[:, 0]).log_softmax(-1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [[1] * 11, [4, 1, 5, 1]])
def test_attention_continues_from_its_cache_in_parts_of_any_size(kind: str, sizes: list[int]) -> None:
    module = built(kind).decoder[0].self_attention
    assert isinstance(module, SequenceMixer)
    x = torch.randn(2, 11, 16)
    cache, parts = module.new_cache(), []
    for part in x.split(sizes, 1):
        parts.append(module(part, None, cache))
    assert_close(torch.cat(parts, 1), module(x), rtol=1e-4, atol=1e-5)
    assert cache.length == 11


@pytest.mark.parametrize("kind", WITH_WEIGHTS)
def test_recorded_weights_are_the_kinds_own(kind: str) -> None:
    model = built(kind)
    source, mask = sentences(9, 4)
    target, _ = sentences(8, 8)
    with torch.no_grad():
        expected = model(source, mask, target)
        with recording(model) as records:
            found = model(source, mask, target)
    assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for name, (weights,) in records.weights.items():
        assert weights.ge(0).all(), name
        assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_a_probe_set_before_decoding_sees_a_recurrent_kind_too() -> None:
    module = MultiHeadAttention(16, 2, kind="linear", role="causal")
    x = torch.randn(1, 3, 16)
    assert isinstance(module.new_cache(), RecurrentCache)
    late = module.new_cache()
    with recording(module) as records:
        cache = module.new_cache()
        assert isinstance(cache, KeyValueCache)
        for t in range(3):
            module(x[:, t : t + 1], None, cache)
        with pytest.raises(ValueError, match="a probe must be set before decoding with linear attention begins"):
            module(x, None, late)
    assert [w.size(-1) for w in records.weights[""]] == [1, 2, 3]


def test_grouped_queries_equal_full_heads_with_repeated_weights() -> None:
    torch.manual_seed(0)
    few = MultiHeadAttention(16, 4, key_value_heads=2, bias=True)
    many = MultiHeadAttention(16, 4, bias=True)
    with torch.no_grad():
        for name, parameter in many.named_parameters():
            own = dict(few.named_parameters())[name]
            if name.split(".")[0] in ("key", "value"):
                own = own.unflatten(0, (2, 4)).repeat_interleave(2, 0).flatten(0, 1)
            parameter.copy_(own)
    x, mask = torch.randn(3, 7, 16), padding_mask(torch.arange(7) < torch.tensor([[7], [3], [1]]))
    assert_close(few(x, mask), many(x, mask), rtol=1e-5, atol=1e-6)
    assert few.project_memory(x)[0].shape == (3, 2, 7, 4)  # the cache holds half as much


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"attention": "window", "cross_attention": None},
            r"model.attention=window can't be combined with cross-attention: a window is .*; model.cross_attention",
        ),
        (
            {"attention": "fused", "cross_attention": "block_sparse"},
            r"model.attention=block_sparse can't be combined with cross-attention: ",
        ),
        (
            {"attention": "linear", "attention_dropout": 0.1},
            r"model.attention=linear can't be combined with model.attention_dropout=0.1: its weights are never",
        ),
        ({"positions": "rotray"}, r"model.positions: expected one of alibi, .*, t5, .*found 'rotray'"),
        ({"cross_attention": "fussed"}, r"model.cross_attention: expected one of .*, found 'fussed'"),
    ],
)
def test_other_pairs_that_cannot_work_fail_when_they_are_built(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        build_model(config("fused", **changes), VOCABULARY, VOCABULARY)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"heads": 4, "key_value_heads": 3}, "heads must be a multiple of key_value_heads"),
        ({"position_options": {"t5": {"buckets": 32, "reach": 16}}}, "reach must exceed half of the buckets"),
        ({"attention_options": {"window": {"sise": 4}}}, "sise"),
    ],
)
def test_options_are_checked(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig.model_validate(tree)


@pytest.mark.parametrize(("positions", "options"), POSITIONS, ids=ids)
def test_a_model_is_saved_and_loaded_with_what_positions_learn(
    positions: str, options: dict[str, Any], tmp_path: Path
) -> None:
    shape = config("reference", positions=positions, position_options=options)
    first, second = (build_model(shape, VOCABULARY, VOCABULARY).eval() for _ in range(2))
    save_file(dict(first.named_parameters()), tmp_path / "model.safetensors")
    load_weights(second, tmp_path / "model.safetensors")
    source, mask = sentences(9, 4)
    assert torch.equal(first(source, mask, source), second(source, mask, source))


def test_t5_tables_are_one_for_the_encoder_and_one_for_the_decoder() -> None:
    model = built("fused", positions="t5")
    tables = [part for part in model.modules() if isinstance(part, T5Buckets)]
    assert [part.causal for part in tables] == [False, True]
    source, mask = sentences(9, 4)
    model(source, mask, source).sum().backward()
    assert all(part.table.grad is not None and part.table.grad.ne(0).any() for part in tables)


def support_table() -> str:
    """Return a Markdown table with a row per kind, followed by the reason for every `no`."""
    columns = dict.fromkeys(("self-attention", "causal", "padding", "key/value cache"), frozenset[str]())
    features = {"cross-attention": "cross", "any mask": "pairs"}
    features |= {"dropout of weights": "dropout", "recorded weights": "probe"}
    columns |= {name: frozenset({feature}) for name, feature in features.items()}
    for encoding in position_encodings():
        columns[f"`{encoding.name}`"] = needs(encoding.name, {})
        if encoding.name == "relative":
            columns["`relative with values`"] = needs("relative", {"relative": {"values": True}})
    lines = [f"| kind | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for kind in all_registered():
        cells = ("no" if needed & set(kind.lacks) else "yes" for needed in columns.values())
        lines.append(f"| `{kind.name}` | {' | '.join(cells)} |")
    reasons = [
        f"- `{kind.name}`, {FEATURES[feature]}: {reason}."
        for kind in all_registered()
        for feature, reason in kind.lacks.items()
    ]
    return "\n".join([*lines, "", *reasons])


def needs(name: str, options: dict[str, dict[str, bool]]) -> frozenset[str]:
    """Return the features that positions need of an attention kind."""
    config = ModelConfig.model_validate({"positions": name, "position_options": options})
    inside = position_encoding(name).inside
    return frozenset() if inside is None else inside(config, causal=True).needs


def test_the_documented_table_is_the_registrys() -> None:
    document = DOCS / "models.md"
    assert support_table() in document.read_text(encoding="utf-8"), (
        f"docs/models.md: expected this table:\n{support_table()}"
    )
