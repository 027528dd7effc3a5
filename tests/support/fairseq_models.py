"""fairseq checkpoints, written without fairseq: its names and files, and the layers of `torch.nn`."""

from __future__ import annotations

import io
import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor

from torch_transformer import TorchTransformer
from translator_run import ENGLISH, GERMAN

LANGUAGES = ("en", "de")
_NAMES = {
    ".multihead_attn.": ".encoder_attn.",
    ".linear1.": ".fc1.",
    ".linear2.": ".fc2.",
    "encoder.norm.": "encoder.layer_norm.",
    "decoder.norm.": "decoder.layer_norm.",
}
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}


def fairseq_positions(length: int, width: int) -> Tensor:
    """Return fairseq's position table from position 2, number by number."""
    table = torch.empty(length, width)
    half = width // 2
    for row in range(length):
        for index in range(half):
            angle = (row + 2) * math.exp(-index * math.log(10000) / (half - 1))
            table[row, index], table[row, half + index] = math.sin(angle), math.cos(angle)
    return table


def write_fairseq(
    folder: Path, *, tied: str = "all", pre: bool = False, split: str = "sentencepiece", old: bool = False
) -> tuple[TorchTransformer, list[tuple[list[int], list[int]]]]:
    """Write a directory; return the model and the ids of the sentences of `ENGLISH` and `GERMAN`.

    `old` writes names and options as versions before 0.10 did.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lists, pairs = write_dictionaries(folder, split, joint=tied == "all")
    torch.manual_seed(0)
    sizes = len(lists[0]), len(lists[1])
    model = TorchTransformer(sizes, fairseq_positions(200, 32), tied=tied, pre=pre, epsilon=1e-5)
    model.train_on(pairs, begin=2)
    options = model_options(tied, pre)
    checkpoint: dict[str, Any] = {"model": fairseq_state(model, old=old), "extra_state": {"epoch": 1}}
    if old:
        checkpoint["args"] = Namespace(**options)
    else:
        task = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
        checkpoint |= {"args": None, "cfg": {"model": Namespace(**options), "task": task}}
    torch.save(checkpoint, folder / "checkpoint_best.pt")
    return model, pairs


def fairseq_state(model: TorchTransformer, *, old: bool) -> dict[str, Tensor]:
    """Return the parameters by fairseq's names."""
    state = {"encoder.version": torch.tensor([3.0]), "decoder.version": torch.tensor([3.0])}
    layers = model.layers.state_dict() if old else model.layer_state()
    for name, tensor in layers.items():
        side = name.split(".")[0]
        for theirs, ours in _NAMES.items():
            name = name.replace(theirs, ours)
        for index, norm in enumerate(_NORMS[side]):
            name = name.replace(f".norm{index + 1}.", f".layer_norms.{index}." if old else f".{norm}.")
        state[name] = tensor.detach()
    for side, embedding in (("encoder", model.source), ("decoder", model.target)):
        state[f"{side}.embed_tokens.weight"] = embedding.weight.detach()
        state[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
    if not old:
        for part in (
            "in_proj",
            "out_proj",
            "fc1",
            "fc2",
        ):  # room for copies, which fairseq 0.12 fills when it loads
            state[f"encoder.layers.0.{part}_weight"] = torch.zeros(3, 3)
            state[f"encoder.layers.0.{part}_bias"] = torch.zeros(3)
        state["decoder.output_projection.weight"] = model.output.weight.detach()
    elif model.output is not model.target:
        state["decoder.embed_out"] = model.output.weight.detach()
    return state


def write_dictionaries(folder: Path, split: str, *, joint: bool) -> tuple[list[list[str]], Any]:
    """Write the dictionaries; return all pieces, and the ids of the sentences with the end of each."""
    texts = [ENGLISH, GERMAN]
    if split == "sentencepiece":
        content = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*ENGLISH, *GERMAN]), model_writer=content, vocab_size=110, model_type="bpe",
            minloglevel=2,
        )  # fmt: skip
        (folder / "sentencepiece.bpe.model").write_bytes(content.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
        lines = [[processor.encode(line, out_type=str) for line in each] for each in texts]
    else:
        lines = [[line.split() for line in each] for each in texts]
    lists, ids = [], []
    for language, own in zip(LANGUAGES, lines, strict=True):
        learned = [*lines[0], *lines[1]] if joint else own
        pieces = list(dict.fromkeys(piece for line in learned for piece in line))
        pieces += [f"madeupword{number:04d}" for number in range(-len(pieces) % 8)]
        (folder / f"dict.{language}.txt").write_text("".join(f"{piece} 1\n" for piece in pieces))
        lists.append(["<s>", "<pad>", "</s>", "<unk>", *pieces])
        ids.append([[*(lists[-1].index(piece) for piece in line), 2] for line in own])
    return lists, list(zip(*ids, strict=True))


def model_options(tied: str, pre: bool) -> dict[str, Any]:
    """Return the options that fairseq keeps of a model, as far as they matter."""
    options: dict[str, Any] = {
        "arch": "transformer",
        "source_lang": "en",
        "target_lang": "de",
        "dropout": 0.1,
    }
    for side, layers in (("encoder", 2), ("decoder", 1)):
        options |= {
            f"{side}_embed_dim": 32,
            f"{side}_ffn_embed_dim": 48,
            f"{side}_layers": layers,
            f"{side}_attention_heads": 4,
            f"{side}_normalize_before": pre,
            f"{side}_learned_pos": False,
        }
    return options | {
        "share_all_embeddings": tied == "all",
        "share_decoder_input_output_embed": tied != "none",
        "no_scale_embedding": False,
        "activation_fn": "relu",
        "decoder_output_dim": 32,
        "decoder_input_dim": 32,
        "adaptive_softmax_cutoff": None,
        "layernorm_embedding": False,
        "max_source_positions": 200,
        "max_target_positions": 200,
    }
