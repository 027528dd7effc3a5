"""Damaged and hostile directories of `transformers`: what is done to a whole one, and what the sentence says.

A tensor's name has `__` for a point.
"""

from __future__ import annotations

import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from damages import COMPRESSED, FLAGS, SIZE, VERSION, Damages, edit, in_directory, repacked, without, written
from transformers_models import edit_tensors


class Bomb:
    """What a hostile pickle holds."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("boom",))


def compressed(folder: Path) -> None:
    pickled(load_file(folder / "model.safetensors"))(folder)
    repacked(lambda members: members, "pytorch_model.bin")(folder)


def expanded(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    pickled(tensors | {"model.shared.weight": torch.zeros(1).expand(10**12)})(folder)


def pickled(content: Any) -> Any:
    def edit(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        torch.save(content, folder / "pytorch_model.bin")

    return edit


def in_zip(changes: dict[int, bytes]) -> Any:
    def edit(folder: Path) -> None:
        pickled(load_file(folder / "model.safetensors"))(folder)
        in_directory(changes, "pytorch_model.bin")(folder)

    return edit


def doubled() -> list[Any]:
    """Return a list of 2^40 elements, of which a file needs 40."""
    nested: list[Any] = []
    for _ in range(40):
        nested = [nested, nested]
    return nested


def nested_name(folder: Path) -> None:
    """Name a tensor by a tuple of 2^40 elements, whose hash never ends; made by hand, as Python can't pickle it."""
    (folder / "model.safetensors").unlink()
    doubled = b"".join(b"q%ch%c\x86" % (number, number) for number in range(40))
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02}(K\x01" + doubled + b"K\x01u.")
        archive.writestr("model/version", "3\n")


class Other:
    """A class of somebody's."""


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


def shard_outside(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.shared.weight": "../../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def both_configs(**changes: Any) -> Any:
    def damage(folder: Path) -> None:
        config(**changes)(folder)
        edit("generation_config.json", **changes)(folder)

    return damage


def split_by(pattern: str) -> Any:
    """Let a tokenizer split texts by a pattern."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return tokenizer(pre_tokenizer=split)


def replaced(replacement: str, times: int = 1) -> dict[str, Any]:
    """Return a normalizer that replaces a letter, some times."""
    one = {"type": "Replace", "pattern": {"String": "a"}, "content": replacement}
    return one if times == 1 else {"type": "Sequence", "normalizers": [one] * times}


config, tokenizer = partial(edit, "config.json"), partial(edit, "tokenizer.json")
WORDS = "bert__embeddings__word_embeddings__weight"
QUERY = "encoder__block__0__layer__0__SelfAttention__q__weight"
VAST = b"\xff\xff\xff\x7f"
PROCESSOR = "preprocessor_config.json"
# Of the tokenizer, in every model of single texts.
TOKENIZER: Damages = {
    "no tokenizer": (without("tokenizer.json"), "expected tokenizer.json"),
    "a tokenizer that isn't": (written("tokenizer.json", b"[]"), "expected a JSON object"),
    "a vast vocabulary": (config(vocab_size=10**12), "vocab_size: "),
    "a larger vocabulary": (config(vocab_size=2**22), "expected at most 65536 fewer pieces"),
    "a small vocabulary": (config(vocab_size=20), "expected a different id from 0 to 19"),
    "an unknown model": (tokenizer("model", type="Unigram"), "expected one of BPE, WordPiece"),
    "an unknown normalizer": (
        tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        "normalizer: expected one of BertNormalizer",
    ),
    "a slow pattern": (split_by("(a+)+$"), "without repeated groups"),
    "a pattern that isn't": (split_by("((("), "expected a tokenizer.json, found a damaged one"),
    "a long replacement": (tokenizer(normalizer=replaced("b" * 10**6)), "expected at most 4 characters"),
    "many replacements": (
        tokenizer(normalizer=replaced("aaaa", 40)),
        "normalizer: expected at most 4 parts that make a text longer, found 40",
    ),
    "a long added token": (
        tokenizer(added_tokens=[{"id": 9, "content": "a" * 10**6, "special": False}]),
        "added_tokens: expected at most 256 characters",
    ),
    "long words": (
        tokenizer("model", max_input_chars_per_word=10**9),
        "max_input_chars_per_word: expected a number from 1 to 1000",
    ),
    "an id twice": (tokenizer("model", "vocab", extra=7), "found one twice"),
    "an id too high": (tokenizer("model", "vocab", extra=10**9), "expected an id from 0 to"),
    "an added token elsewhere": (tokenizer("added_tokens", 0, id=9), "added_tokens: expected"),
    "added tokens that aren't": (tokenizer(added_tokens=[3]), "added_tokens: expected objects"),
}
BERT: Damages = {
    "a vast width": (config(hidden_size=10**12), "hidden_size: "),
    "a large width": (config(hidden_size=2**20, num_attention_heads=2**16), "expected"),
    "another width": (config(hidden_size=32), "of shape"),
    "more layers": (config(num_hidden_layers=3), "expected tensor bert.encoder.layer.2."),
    "fewer layers": (config(num_hidden_layers=1), "found tensor bert.encoder.layer.1."),
    "odd heads": (config(num_attention_heads=5), "d_model must be a multiple of heads"),
    "an activation": (config(hidden_act="tanh"), "hidden_act: expected one of"),
    "a decoder": (config(is_decoder=True), "is_decoder: expected false"),
    "relative positions": (
        config(position_embedding_type="relative_key"),
        "position_embedding_type: expected absolute",
    ),
    "no head": (config(architectures=["BertModel"]), "architectures: expected one of BertForMaskedLM"),
    "an unknown type": (config(model_type="xlnet"), "model_type: expected one of"),
    "no mask": (edit("tokenizer_config.json", mask_token=3), "expected a piece for mask_token"),
    "one piece for two": (
        edit("tokenizer_config.json", cls_token="[SEP]"),
        "expected a piece of its own for cls_token",
    ),
    "numbers that aren't": (
        edit_tensors(**{WORDS: torch.full((153, 24), float("inf"))}),
        "expected finite numbers",
    ),
    "fewer embeddings": (edit_tensors(**{WORDS: torch.zeros(20, 24)}), "expected at least 153 rows"),
    "an untied output": (
        edit_tensors(cls__predictions__decoder__weight=torch.zeros(153, 24)),
        "expected cls.predictions.decoder.weight to equal",
    ),
    "a tensor of counters": (
        edit_tensors(**{WORDS: torch.zeros(153, 24, dtype=torch.int64)}),
        "expected bert.embeddings.word_embeddings.weight in int8 or one of F32",
    ),
    "a tensor too many": (edit_tensors(boom=torch.zeros(3)), "found tensor boom"),
}
GPT2: Damages = {
    "a vast width": (config(n_embd=10**12), "n_embd: "),
    "another width": (config(n_embd=32), "of shape"),
    "more layers": (config(n_layer=3), "expected tensor h.2."),
    "fewer layers": (config(n_layer=1), "found tensor h.1."),
    "many layers": (config(n_layer=10**9), "n_layer: "),
    "unscaled attention": (config(scale_attn_weights=False), "scale_attn_weights: expected true"),
    "another class": (config(architectures=["GPT2Model"]), "architectures: expected one of"),
    "no end": (edit("generation_config.json", eos_token_id=10**6), "eos_token_id: expected an id from 0 to"),
    "a narrow projection": (
        edit_tensors(transformer__h__0__attn__c_attn__weight=torch.zeros(24, 2)),
        "layers.0.self_attention.query.weight of shape",
    ),
    "numbers that aren't": (
        edit_tensors(transformer__wpe__weight=torch.full((160, 24), float("nan"))),
        "expected finite numbers",
    ),
    "two ends of lines": (tokenizer(decoder=None), "decoder: expected ByteLevel"),
}
LLAMA: Damages = {
    "a sliding window": (
        config(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=4),
        "sliding_window: expected none",
    ),
    "another class": (config(model_type="qwen2"), "expected one of Qwen2ForCausalLM"),
    "scaled angles": (
        config(rope_parameters={"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}),
        "rope_parameters: expected rope_type default",
    ),
    "a base that isn't": (
        config(rope_parameters={"rope_type": "default", "rope_theta": "x"}),
        "rope_theta: expected a number above 1",
    ),
    "odd groups": (config(num_key_value_heads=3), "heads must be a multiple of key_value_heads"),
    "wide heads": (config(head_dim=2**20), "heads times d_k must be at most"),
    "a small output": (edit_tensors(lm_head__weight=torch.zeros(7, 24)), "expected at least"),
    "another beginning": (
        tokenizer("post_processor", "single", 0, SpecialToken={"id": "<x>", "type_id": 0}),
        "post_processor: expected a piece before a text",
    ),
}
T5: Damages = {
    "banned words": (config(bad_words_ids=[[0], [5]]), "bad_words_ids: expected the special symbols alone"),
    "a forced beginning": (config(forced_bos_token_id=5), "forced_bos_token_id: expected none"),
    "no tokenizer": (without("tokenizer.json"), "expected spiece.model or tokenizer.json, found neither"),
    "a damaged model of subwords": (written("spiece.model", b"x"), "expected a SentencePiece model"),
    "another tokenizer": (tokenizer("model", type="BPE"), "model: expected Unigram"),
    "a table that isn't": (
        tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": "%"}),
        "precompiled_charsmap in base 64",
    ),
    "a table that lies": (
        tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": "/////wAAAAA="}),
        "expected a SentencePiece model",
    ),
    "pieces that aren't": (tokenizer("model", vocab=[["a", "b"]]), "expected pairs of a piece"),
    "a piece twice": (tokenizer("model", vocab=[["a", 0.0], ["a", 0.0]]), "found one twice"),
    "no unknown": (tokenizer("model", unk_id=10**9), "model.unk_id: expected an id from 0 to"),
    "a small vocabulary": (config(vocab_size=20), "expected at most vocab_size=20 pieces"),
    "a larger vocabulary": (config(vocab_size=2**22), "and at most 65536 fewer"),
    "a vast vocabulary": (config(vocab_size=10**12), "vocab_size: "),
    "another width": (config(d_model=32), "of shape"),
    "a vast head": (config(d_kv=2**20), "heads times d_k must be at most"),
    "odd buckets": (config(relative_attention_num_buckets=7), "buckets"),
    "a short reach": (config(relative_attention_max_distance=2), "reach must exceed half"),
    "more layers": (config(num_layers=3), "expected tensor encoder.block.2."),
    "fewer layers": (config(num_decoder_layers=1), "found tensor decoder.block.1."),
    "an activation": (config(feed_forward_proj="gated-tanh"), "feed_forward_proj: expected one of"),
    "an encoder alone": (config(architectures=["T5EncoderModel"]), "architectures: expected one of"),
    "an end elsewhere": (edit("generation_config.json", eos_token_id=10**6), "expected different ids below"),
    "numbers that aren't": (
        edit_tensors(**{QUERY: torch.full((20, 24), float("nan"))}),
        "expected finite numbers",
    ),
    "fewer embeddings": (edit_tensors(shared__weight=torch.zeros(20, 24)), "expected at least"),
    "no embeddings": (edit_tensors(shared__weight=None), "expected tensor shared.weight"),
}
VIT: Damages = {
    "several labels": (
        config(problem_type="multi_label_classification"),
        "problem_type: expected single_label_classification",
    ),
    "a vast image": (config(image_size=10**9), "image_size"),
    "a large image": (config(image_size=2**14, patch_size=1), "max_length: "),
    "another image": (config(image_size=16), "of shape"),
    "an odd patch": (config(patch_size=5), "patch_size: expected a square that divides 12 x 8"),
    "a long patch": (config(patch_size=[2, 4]), "patch_size: expected a square"),
    "no patch": (config(patch_size=0), "patch_size"),
    "many channels": (config(num_channels=4), "num_channels: "),
    "another width": (config(hidden_size=32), "of shape"),
    "more layers": (config(num_hidden_layers=3), "expected tensor vit.encoder.layer.2."),
    "fewer layers": (config(num_hidden_layers=1), "found tensor vit.encoder.layer.1."),
    "no head": (config(architectures=["ViTModel"]), "architectures: expected one of"),
    "labels twice": (config(id2label={"0": "a", "1": "a", "2": "b"}), "two or more different labels"),
    "fewer labels": (config(id2label={"0": "a", "1": "b"}), "output.weight of shape"),
    "no deviation": (edit(PROCESSOR, image_std=[0.0, 1.0, 1.0]), "image_std"),
    "a mean too many": (edit(PROCESSOR, image_mean=[0.5] * 4), "image_mean: expected a number for each of 3"),
    "another scale": (
        edit(PROCESSOR, rescale_factor=0.3),
        "rescale_factor: expected 1 divided by the largest",
    ),
    "numbers that aren't": (
        edit_tensors(vit__embeddings__cls_token=torch.full((1, 1, 24), float("nan"))),
        "expected finite numbers",
    ),
    "a scalar": (edit_tensors(vit__embeddings__position_embeddings=torch.zeros(())), "of shape"),
}
# Of the files of any model, too.
MARIAN: Damages = {
    "code in a pickle": (
        pickled({"model.shared.weight": Bomb()}),
        "expected tensors by name, found a pickle that needs more",
    ),
    "compressed tensors": (compressed, "expected uncompressed tensors"),
    "another class": (pickled({"a": Other()}), "found a pickle that needs more (hostile_transformers.Other)"),
    "a zip file of the future": (in_zip({VERSION: b"\xff"}), "in its zip format"),
    "a pickle beyond the file": (in_zip({COMPRESSED: VAST, SIZE: VAST}), "in its zip format"),
    "an encrypted file": (in_zip({FLAGS: b"\1"}), "in its zip format"),
    "no zip": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "in its zip format",
    ),
    "a list": (pickled([1]), "expected tensors by name, found a list"),
    "a list that contains itself": (pickled(ITSELF), "expected tensors by name, found a list"),
    "a list in itself by name": (pickled({"a": ITSELF}), "expected tensors by name, found a list for 'a'"),
    "a list of lists": (pickled({"a": doubled()}), "expected tensors by name, found a list for 'a'"),
    "a tuple of tuples for a name": (nested_name, "a pickle that needs more (a reference to a container)"),
    "a number for a name": (
        pickled({7: torch.zeros(3)}),
        "expected tensors by name, found a Tensor for a number",
    ),
    "a tensor without content": (pickled({"a": torch.empty(3, device="meta")}), "expected tensors of real numbers"),
    "complex numbers": (
        pickled({"a": torch.zeros(3, dtype=torch.complex64)}),
        "expected tensors of real numbers, found 'a'",
    ),
    "an expanded tensor": (expanded, "expected tensors within its"),
    "a shard outside": (shard_outside, "expected names of files beside it, found '../../secret.safetensors'"),
    "a vast vocabulary": (both_configs(vocab_size=10**12), "vocab_size: "),
    "a vast width": (both_configs(d_model=10**12), "d_model: "),
    "another width": (both_configs(d_model=32), "of shape"),
    "more layers": (both_configs(encoder_layers=3), "expected tensor model.encoder.layers.2."),
    "fewer layers": (both_configs(encoder_layers=1), "found tensor model.encoder.layers.1."),
    "unequal heads": (
        both_configs(encoder_attention_heads=2),
        "encoder_attention_heads and decoder_attention_heads",
    ),
    "an activation": (both_configs(activation_function="tanh"), "activation_function: expected one of"),
    "an odd end": (both_configs(eos_token_id=10**6), "expected different ids"),
    "banned words": (both_configs(bad_words_ids=[[3, 4]]), "bad_words_ids"),
    "a suppressed token": (both_configs(suppress_tokens=[5]), "suppress_tokens: expected the special symbols alone"),
    "numbers that aren't": (
        edit_tensors(model__shared__weight=torch.full((180, 24), float("nan"))),
        "expected finite numbers",
    ),
    "positions": (
        edit_tensors(model__encoder__embed_positions__weight=torch.zeros(64, 24)),
        "expected model.encoder.embed_positions.weight to be the paper's sinusoids",
    ),
    "an id twice": (edit("vocab.json", extra=3), "expected a different id"),
    "an id too high": (edit("vocab.json", extra=10**9), "expected a different id"),
    "no vocabulary": (without("vocab.json"), "vocab.json"),
    "no subwords": (written("source.spm", b"x"), "expected a SentencePiece model"),
    "no tensors": (written("model.safetensors", b"x" * 40), "damaged"),
    "no JSON": (written("config.json", b"{"), "config.json"),
}
