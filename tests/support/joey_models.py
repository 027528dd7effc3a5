"""JoeyNMT model directories, written without JoeyNMT: its names and files, and the layers of `torch.nn`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import yaml
from torch import Tensor

from torch_transformer import TorchTransformer, paper_positions
from translator_run import ENGLISH, GERMAN

_MODULES = {
    "encoder.layers.{}.self_attn.": "encoder.layers.{}.src_src_att.",
    "encoder.layers.{}.norm1.": "encoder.layers.{}.layer_norm.",
    "encoder.layers.{}.norm2.": "encoder.layers.{}.feed_forward.layer_norm.",
    "decoder.layers.{}.self_attn.": "decoder.layers.{}.trg_trg_att.",
    "decoder.layers.{}.multihead_attn.": "decoder.layers.{}.src_trg_att.",
    "decoder.layers.{}.norm1.": "decoder.layers.{}.x_layer_norm.",
    "decoder.layers.{}.norm2.": "decoder.layers.{}.dec_layer_norm.",
    "decoder.layers.{}.norm3.": "decoder.layers.{}.feed_forward.layer_norm.",
    "coder.layers.{}.linear1.": "coder.layers.{}.feed_forward.pwff_layer.0.",
    "coder.layers.{}.linear2.": "coder.layers.{}.feed_forward.pwff_layer.3.",
    "coder.norm.": "coder.layer_norm.",
}
_PARTS = {"q_proj": "q_layer", "k_proj": "k_layer", "v_proj": "v_layer", "out_proj": "output_layer"}


def write_joey(
    folder: Path, *, tied: str = "all", norm: str = "post", level: str = "sentencepiece", scaled: bool = True
) -> tuple[TorchTransformer, list[tuple[list[int], list[int]]]]:
    """Write a model directory; return the model and the ids of the sentences of `ENGLISH` and `GERMAN`."""
    folder.mkdir(parents=True, exist_ok=True)
    lists, pairs = write_vocabularies(folder, level, joint=tied == "all")
    torch.manual_seed(0)
    model = TorchTransformer(
        (len(lists[0]), len(lists[1])),
        paper_positions(200, 32),
        tied=tied,
        pre=norm == "pre",
        epsilon=1e-6,
        scaled=scaled,
    )
    model.train_on(pairs, begin=2)
    torch.save(
        {"model_state": joey_state(model), "optimizer_state": {}, "stats_state": {"steps": 5}},
        folder / "5.ckpt",
    )
    (folder / "best.ckpt").symlink_to("5.ckpt")
    (folder / "config.yaml").write_text(yaml.safe_dump(settings(tied, norm, level, scaled)))
    return model, pairs


def joey_state(model: TorchTransformer) -> dict[str, Tensor]:
    """Return the parameters by JoeyNMT's names."""
    state = {}
    for name, tensor in model.layer_state().items():
        for theirs, ours in _MODULES.items():
            for number in "01":
                name = name.replace(theirs.format(number), ours.format(number))
        for theirs, ours in _PARTS.items():
            name = name.replace(theirs, ours)
        state[name] = tensor
    state |= {f"{side}.pe.pe": model.positions[None] for side in ("encoder", "decoder")}
    state["src_embed.lut.weight"], state["trg_embed.lut.weight"] = model.source.weight, model.target.weight
    state["decoder.output_layer.weight"] = model.output.weight
    return {name: tensor.detach() for name, tensor in state.items()}


def write_vocabularies(folder: Path, level: str, *, joint: bool) -> tuple[list[list[str]], Any]:
    """Write the vocabularies; return their pieces, and the ids of the sentences with the end of each."""
    texts = {"src": ENGLISH, "trg": GERMAN}
    lists, ids = [], []
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    shared = [*ENGLISH, *GERMAN]
    for side, lines in texts.items():
        learned = shared if joint else lines
        if level == "sentencepiece":
            content = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(learned), model_writer=content, vocab_size=110, model_type="bpe",
                pad_id=1, unk_id=0, bos_id=2, eos_id=3, minloglevel=2,
            )  # fmt: skip
            (folder / ("sp.model" if joint else f"{side}.model")).write_bytes(content.getvalue())
            processor = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
            pieces = [processor.id_to_piece(number) for number in range(processor.vocab_size())]
            split = [processor.encode(line, out_type=str) for line in lines]
        else:
            split = [line.split() if level == "word" else list(line.replace(" ", "▁")) for line in lines]
            known = [line.split() if level == "word" else list(line.replace(" ", "▁")) for line in learned]
            pieces = [*special, *dict.fromkeys(piece for line in known for piece in line)]
        (folder / f"{side}_vocab.txt").write_text("\n".join(pieces) + "\n")
        lists.append(pieces)
        ids.append([[*(pieces.index(piece) for piece in line), 3] for line in split])
    return lists, list(zip(*ids, strict=True))


def settings(tied: str, norm: str, level: str, scaled: bool) -> dict[str, Any]:
    """Return the content of config.yaml."""
    stack = {"type": "transformer", "num_heads": 4, "hidden_size": 32, "ff_size": 48, "layer_norm": norm}
    sides = {}
    for side in ("src", "trg"):
        sides[side] = {
            "lang": side,
            "level": "bpe" if level == "sentencepiece" else level,
            "lowercase": False,
        }
        if level == "sentencepiece":
            file = "/elsewhere/sp.model" if tied == "all" else f"{side}.model"
            sides[side] |= {"tokenizer_type": "sentencepiece", "tokenizer_cfg": {"model_file": file}}
    embeddings = [{"embedding_dim": 32, "scale": scaled} for _ in range(2)]
    return {
        "name": "test",
        "joeynmt_version": "2.3.0",
        "data": sides,
        "testing": {"beam_size": 3, "beam_alpha": 1.0, "max_output_length": 30},
        "model": {
            "tied_embeddings": tied == "all",
            "tied_softmax": tied != "none",
            "encoder": {**stack, "num_layers": 2, "embeddings": embeddings[0]},
            "decoder": {**stack, "num_layers": 1, "embeddings": embeddings[1]},
        },
    }
