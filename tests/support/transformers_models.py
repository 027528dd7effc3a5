"""Directories of single-text models, made by `transformers` itself: random weights, its tokenizers, some training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from damages import Damage
from damages import edit as edit
from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.interop.single import single_builder
from headwise.models.build import load_filled, load_model
from headwise.text.tokens.subwords import Subwords
from translator_run import ENGLISH, GERMAN

TEXTS = [*ENGLISH, *GERMAN]
# Texts that a tokenizer may treat in its own way.
HARD = [
    *TEXTS,
    "Two  dogs,\tplaying (in the park)…",
    "Straße ÉLÈVE naïve 東京 ☃ 🙂 e\u0301",
    "don't_stop  1,234.5",
    " leading and trailing ",
    "first line\nsecond line\n",
    "x" * 120,
]


def wordpiece(folder: Path, *, lowercase: bool = True) -> Any:
    """Train a WordPiece tokenizer and save it; `[PAD]` and the like don't have Headwise's ids."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, special.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return _saved(folder, tokenizer, names, model_input_names=inputs)


def byte_level(folder: Path, pattern: str | None = None) -> Any:
    """Train GPT-2's kind of tokenizer, whose one symbol is between documents, and save it.

    With a pattern, it normalizes text and splits it by the pattern before, as those of Llama 3 and Qwen2 do.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pattern is not None:
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([f"{text}\n" for text in TEXTS] * 3, trainer)
    return _saved(folder, tokenizer, dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>"))


def metaspace(folder: Path) -> Any:
    """Train Llama 2's kind of tokenizer, with bytes for what it doesn't know and a symbol before texts, and save it."""
    special = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    all_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special + all_bytes, show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tree = json.loads(tokenizer.to_str())
    tree["added_tokens"] = tree["added_tokens"][: len(special)]  # bytes are pieces, but not found in texts
    tokenizer = Tokenizer.from_str(json.dumps(tree))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return _saved(folder, tokenizer, {"bos": "<s>", "eos": "</s>", "unk": "<unk>"})


def _saved(folder: Path, tokenizer: Tokenizer, names: dict[str, str], **more: Any) -> Any:
    saved = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": piece for name, piece in names.items()}, **more
    )
    saved.save_pretrained(folder)
    return saved


def shaken(model: Any, scale: float = 0.2) -> Any:
    """Randomize every parameter; the gains of normalizations are around 1."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            center = 1.0 if parameter.dim() == 1 and "weight" in name else 0.0
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale + center)
    return model.eval()


def trained(model: Any, batch: Callable[[], Any], steps: int = 20, rate: float = 0.003) -> Any:
    """Train with the library's own loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    model.train()
    for _ in range(steps):
        model(**batch()).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def imported(source: Path, run: Path) -> Any:
    """Import a directory by the command line; return the model that the run holds, in evaluation mode."""
    assert headwise(["import", str(source), "-o", str(run)]) == 0
    config = Config.of_run(run)
    if config.task == "translation":
        subwords = Subwords.load(run, config.subwords)
        return load_model(run, subwords.source_size, subwords.target_size)
    return load_filled(single_builder(run, config), run / "model.safetensors").eval()


def original_ids(run: Path, tokenizer: Any) -> list[int]:
    """Return the original's id for each of a run's, by the names of the pieces; -1 for ids that it doesn't have."""
    pieces = json.loads((run / "tokenizer.json").read_text())["model"]["vocab"]
    known = tokenizer.get_vocab()
    return [
        known[piece] if piece in known else int(piece.split()[1][:-1]) if "unused" in piece else -1
        for piece in sorted(pieces, key=pieces.__getitem__)
    ]


def refused(damage: Damage, whole: Path, folder: Path, capsys: Any) -> str:
    """Import a damaged copy of a directory, and check that it is refused with one sentence, which is returned."""
    shutil.copytree(whole, folder)
    damage(folder)
    capsys.readouterr()
    assert headwise(["import", str(folder), "-o", str(folder / "run")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "boom" not in captured.out
    assert not (folder / "run").exists()
    return captured.err


def edit_tensors(**changes: Any) -> Damage:
    """Return a damage to model.safetensors: tensors, whose names have `__` for a point, or None to remove one."""

    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        for name, tensor in changes.items():
            tensors.pop(name.replace("__", "."), None)
            if tensor is not None:
                tensors[name.replace("__", ".")] = tensor
        save_file(tensors, folder / "model.safetensors")

    return damage
