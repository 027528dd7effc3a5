"""GPT-2 of `transformers` (Radford et al. 2019), in and out.

A decoder-only model with learned positions, byte-level pieces, and matrices that are transposed there.
"""

from __future__ import annotations

from pathlib import Path

from headwise.config import Config, ModelConfig
from headwise.config.base import Epsilon, Heads, Layers, Length, Probability, Width
from headwise.decoding.generation import first_token
from headwise.errors import ConfigError
from headwise.interop.base import Imported, TrainedSingle
from headwise.interop.huggingface.card import write_model
from headwise.interop.huggingface.keys import (
    TABLES,
    check_architecture,
    model_config,
    read_keys,
    supported,
    their_keys,
    unexpected,
)
from headwise.interop.huggingface.language_model import LanguageModelKeys, language_model
from headwise.interop.huggingface.tensors import folder_tensors
from headwise.interop.huggingface.tokenizer import ExportedTokenizer
from headwise.interop.table import TRANSPOSED, Changes, Left, Row, both, their_tensors
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK

_PREFIX = "transformer."  # of all names, which some files don't have
# Our names of a layer's parts, and theirs.
_MATRICES = {
    "self_attention.output": "attn.c_proj",
    "feed_forward.w1": "mlp.c_fc",
    "feed_forward.w2": "mlp.c_proj",
}
_NORMS = {"around_attention.norm": "ln_1", "around_feed_forward.norm": "ln_2"}
# Their keys and ours, and the keys of ours that have one value there.
_KEYS = {
    "n_embd": "d_model",
    "n_layer": "decoder_layers",
    "n_head": "heads",
    "n_inner": "d_ff",
    "n_positions": "max_length",
    "activation_function": "activation",
    "layer_norm_epsilon": "norm_epsilon",
    "embd_pdrop": "dropout",
    "resid_pdrop": "dropout",
    "attn_pdrop": "attention_dropout",
}
_ALWAYS = {"norm": "pre", "scale_embeddings": False}


class Fields(LanguageModelKeys):
    """What config.json must have."""

    n_embd: Width = 768
    n_layer: Layers = 12
    n_head: Heads = 12
    n_inner: Width | None = None
    n_positions: Length = 1024
    activation_function: str = "gelu_new"
    layer_norm_epsilon: Epsilon = 1e-5
    embd_pdrop: Probability = 0.1
    resid_pdrop: Probability = 0.1
    attn_pdrop: Probability = 0.1
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    add_cross_attention: bool = False


def _table(model: ModelConfig, words: Changes) -> list[Row]:
    """Return our parameters and theirs; `words` reorders what has a row for each word."""
    zeros = (model.d_model,)
    rows = [
        Row("embedding.weight", "wte.weight", words("wte.weight"), copies=("lm_head.weight",)),
        Row("positions.table", "wpe.weight"),
        *both({"norm": "ln_f"}),
    ]
    for number in range(model.decoder_layers):
        ours, theirs = f"layers.{number}", f"h.{number}"
        for part in ("weight", "bias"):
            joined = tuple(f"{ours}.self_attention.{name}.{part}" for name in ("query", "key", "value"))
            rows.append(Row(joined, f"{theirs}.attn.c_attn.{part}", TRANSPOSED, zeros))
        matrices = {f"{ours}.{own}": f"{theirs}.{name}" for own, name in _MATRICES.items()}
        norms = {f"{ours}.{own}": f"{theirs}.{name}" for own, name in _NORMS.items()}
        rows += both(matrices, TRANSPOSED, zeros) + both(norms)
    return rows


def read(source: Path) -> Imported:
    """Read a GPT-2 directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    check_architecture(source, fields.architectures, ("GPT2LMHeadModel",))
    for key, expected in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("add_cross_attention", False),
        ("tie_word_embeddings", True),
    ):
        if getattr(fields, key) != expected:
            raise unexpected(source, key, str(expected).lower(), getattr(fields, key))
    more = {"d_ff": fields.n_inner or 4 * fields.n_embd, "positions": "learned", "attention_bias": True}
    model = model_config(source, fields, _KEYS, **_ALWAYS, **more)
    tensors = folder_tensors(source)
    left = Left(source, {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()})
    for number in range(fields.n_layer):  # causal masks, stored by old versions
        left.drop(f"h.{number}.attn.bias", f"h.{number}.attn.masked_bias")
    return language_model(source, fields, model, left, lambda words: _table(model, words))


SUPPORTED = supported(_KEYS, "attention_bias", "logit_bias", always=_ALWAYS, positions=TABLES)


def refuses(config: Config) -> str | None:
    """Return why a model isn't GPT-2's, naming the keys; None where it is."""
    found = SUPPORTED.problems(config.model)
    return f"GPT-2 has no {', '.join(found)}" if found else None


def write(trained: TrainedSingle, folder: Path) -> list[str]:
    """Write a GPT-2 directory; return notes. Raises `ConfigError` for a bias of the logits of ids that are exported."""
    assert trained.vocabulary is not None
    model, vocabulary = trained.config.model, trained.vocabulary
    tokenizer = ExportedTokenizer.of(vocabulary)
    if model.logit_bias and bool(tokenizer.rows(trained.tensor("logit_bias")).any()):
        raise ConfigError(f"{trained.run}: expected model.logit_bias=false, as GPT-2 has none, found a bias")
    first = first_token(trained.config, vocabulary)
    symbols = {
        "bos_token_id": tokenizer.number(first),
        "eos_token_id": tokenizer.number(EOS),
        "pad_token_id": tokenizer.number(PAD),
    }
    content = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": len(tokenizer.kept),
        **their_keys(model, _KEYS),
        "tie_word_embeddings": True,
        "dtype": "float32",
        **symbols,
    }
    tensors = their_tensors(_table(model, tokenizer.changes), trained.parameter)
    named = {_PREFIX + name: tensor for name, tensor in tensors.items()}
    write_model(trained, folder, content, named, symbols)
    begin = BOS if tokenizer.number(BOS) is not None else EOS
    names = {"pad": PAD, "unk": UNK, "bos": begin, "eos": EOS}
    before = [first] if vocabulary.opens else []
    tokenizer.write(folder, (before, []), names, model_max_length=model.max_length)
    return ["GPT2LMHeadModel and PreTrainedTokenizerFast: AutoModelForCausalLM and AutoTokenizer load them"]
