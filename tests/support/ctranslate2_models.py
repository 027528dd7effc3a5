"""CTranslate2 directories as its own converters write them, from models of other toolkits with random weights."""

from __future__ import annotations

import argparse
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from ctranslate2.converters import OpenNMTPyConverter
from ctranslate2.specs import TransformerSpec

from marian_models import spm
from translator_run import ENGLISH, GERMAN

D_MODEL, D_FF, HEADS, LAYERS, POSITIONS = 24, 40, 4, 2, 64
_UNSPLIT = "▁dogs"  # a piece of the SentencePiece model that the vocabulary lacks


def write_opennmt(folder: Path, quantization: str | None = None, *, seed: int = 0) -> Path:
    """Write what `ct2-opennmt-py-converter` makes of an OpenNMT-py model, as Argos packages hold it."""
    model = spm([*ENGLISH, *GERMAN], 140)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in range(2, processor.vocab_size())]
    vocabulary = ["<unk>", "<blank>", "<s>", "</s>", *(p for p in pieces if p != _UNSPLIT), "<averageXYZ>"]
    checkpoint = {
        "vocab": {"src": vocabulary, "tgt": vocabulary},
        "opt": argparse.Namespace(
            **{"encoder_type": "transformer", "decoder_type": "transformer", "position_encoding": True},
            **{"enc_layers": LAYERS, "dec_layers": LAYERS, "heads": HEADS},
        ),
        **_opennmt_weights(len(vocabulary), seed),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.with_suffix(".pt")
    torch.save(checkpoint, file)
    OpenNMTPyConverter(str(file), unsafe_deserialization=True).convert(str(folder), quantization=quantization)
    file.unlink()
    (folder / "sentencepiece.model").write_bytes(model)
    return folder


def _opennmt_weights(size: int, seed: int) -> dict[str, dict[str, torch.Tensor]]:
    """Return random parameters under the names of OpenNMT-py."""
    generator = torch.Generator().manual_seed(seed)
    model: dict[str, torch.Tensor] = {}

    def linear(name: str, outputs: int, inputs: int) -> None:
        model[f"{name}.weight"] = torch.randn(outputs, inputs, generator=generator) * 0.3
        model[f"{name}.bias"] = torch.randn(outputs, generator=generator) * 0.1

    def norm(name: str) -> None:
        model[f"{name}.weight"] = 1 + 0.1 * torch.randn(D_MODEL, generator=generator)
        model[f"{name}.bias"] = 0.1 * torch.randn(D_MODEL, generator=generator)

    table = torch.zeros(POSITIONS, D_MODEL)
    angle = torch.arange(POSITIONS)[:, None] * torch.exp(
        -torch.arange(0, D_MODEL, 2) * (torch.log(torch.tensor(10000.0)) / D_MODEL)
    )
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    for side, stack, norms in (
        ("encoder", "transformer", {"layer_norm": "self_attn"}),
        ("decoder", "transformer_layers", {"layer_norm_1": "self_attn", "layer_norm_2": "context_attn"}),
    ):
        embedding = f"{side}.embeddings.make_embedding"
        model[f"{embedding}.emb_luts.0.weight"] = torch.randn(size, D_MODEL, generator=generator) * 0.3
        model[f"{embedding}.pe.pe"] = table[:, None]
        norm(f"{side}.layer_norm")
        for layer in range(LAYERS):
            scope = f"{side}.{stack}.{layer}"
            for name, attention in norms.items():
                norm(f"{scope}.{name}")
                for part in ("linear_query", "linear_keys", "linear_values", "final_linear"):
                    linear(f"{scope}.{attention}.{part}", D_MODEL, D_MODEL)
            norm(f"{scope}.feed_forward.layer_norm")
            linear(f"{scope}.feed_forward.w_1", D_FF, D_MODEL)
            linear(f"{scope}.feed_forward.w_2", D_MODEL, D_FF)
    linear("projection", size, D_MODEL)
    projection = {part: model.pop(f"projection.{part}") for part in ("weight", "bias")}
    return {"model": model, "generator": projection}


def write_without_table(folder: Path) -> Path:
    """Write a post-norm model without a position table, whose sinusoids CTranslate2 makes itself."""
    write_opennmt(folder)
    vocabulary = json.loads((folder / "shared_vocabulary.json").read_text())
    generator = torch.Generator().manual_seed(1)
    spec: Any = TransformerSpec.from_config((LAYERS, LAYERS), HEADS, pre_norm=False)
    sizes = {"embeddings": (len(vocabulary), D_MODEL), "projection": (len(vocabulary), D_MODEL)}

    def fill(part: Any, name: str, value: Any) -> None:
        if value is not None:
            return
        scope, _, attribute = name.rpartition("/")
        leaf = scope.rpartition("/")[2].rpartition("_")[0] or scope.rpartition("/")[2]
        if attribute in ("gamma", "beta"):
            array = torch.randn(D_MODEL, generator=generator) * 0.1 + (attribute == "gamma")
        else:
            shape = sizes.get(leaf) or sizes.get(scope.rpartition("/")[2]) or _shape(scope)
            array = torch.randn(shape, generator=generator) * 0.3
        setattr(part, attribute, array.numpy())

    spec._visit(fill)
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.add_source_eos = True
    spec.validate()
    for file in ("model.bin", "config.json", "shared_vocabulary.json"):
        (folder / file).unlink()
    spec.save(str(folder))
    return folder


def _shape(scope: str) -> tuple[int, int]:
    if "/ffn/" in scope:
        return (D_FF, D_MODEL) if scope.endswith("linear_0") else (D_MODEL, D_FF)
    if scope.endswith("self_attention/linear_0"):
        return 3 * D_MODEL, D_MODEL
    return (2 * D_MODEL, D_MODEL) if scope.endswith("/attention/linear_1") else (D_MODEL, D_MODEL)


def write_older(folder: Path, version: int) -> None:
    """Rewrite model.bin in an older version of the binary format, which has no config.json."""
    file = folder / "model.bin"
    content, position = file.read_bytes(), 0

    def take(code: str) -> Any:
        nonlocal position
        values = struct.unpack_from(f"<{code}", content, position)
        position += struct.calcsize(f"<{code}")
        return values[0]

    def name() -> bytes:
        size = take("H")
        return struct.pack("<H", size) + take(f"{size}s")

    take("I")
    out = [struct.pack("<I", version), name(), struct.pack("<I", take("I"))]
    count = take("I")
    out.append(struct.pack("<I", count))
    for _ in range(count):
        out.append(name())
        rank = take("B")
        shape = [take("I") for _ in range(rank)]
        kind, size = take("B"), take("I")
        out.append(struct.pack(f"<B{rank}I", rank, *shape))
        width = (4, 1, 2, 4, 2, 2)[kind]
        out.append(struct.pack("<BI", *((width, size // width) if version < 4 else (kind, size))))
        out.append(take(f"{size}s"))
    out.append(content[position:])  # the aliases
    file.write_bytes(b"".join(out))
    (folder / "config.json").unlink()


def write_package(file: Path, folder: Path, **metadata: Any) -> Path:
    """Write an Argos package of a CTranslate2 directory, as `argos-train` packs them."""
    content = {"package_version": "1.0", "argos_version": "1.5", "from_code": "en", "to_code": "de"}
    content |= metadata
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("translate-en_de-1_0/metadata.json", json.dumps(content))
        archive.writestr("translate-en_de-1_0/README.md", "# English - German")
        archive.writestr("translate-en_de-1_0/stanza/resources.json", "{}")
        for path in folder.iterdir():
            place = "" if path.name == "sentencepiece.model" else "model/"
            archive.write(path, f"translate-en_de-1_0/{place}{path.name}")
    return file
