"""Directories of single-text models, made by `transformers` itself: random weights, its tokenizers, some training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

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
    return _saved(folder, tokenizer, names)


def byte_level(folder: Path) -> Any:
    """Train GPT-2's kind of tokenizer, whose one symbol is between documents, and save it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
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
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return _saved(folder, tokenizer, {"bos": "<s>", "eos": "</s>", "unk": "<unk>"})


def _saved(folder: Path, tokenizer: Tokenizer, names: dict[str, str]) -> Any:
    saved = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": piece for name, piece in names.items()}
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
