"""Damaged and hostile files of CTranslate2 and Argos: what is done to whole ones, and what the sentence says."""

from __future__ import annotations

import json
import re
import stat
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ctranslate2_models import write_older
from damages import FLAGS, NAME, Damage, Damages, changed, edit, in_directory, repacked, without, written


def replaced(old: bytes, new: bytes) -> Damage:
    """Replace bytes of model.bin, which must be there."""

    def change(content: bytes) -> bytes:
        assert old in content
        return content.replace(old, new, 1)

    return changed(change, "model.bin")


def named(name: str, shape: tuple[int, ...], kind: int, size: int) -> bytes:
    """Return the header of a variable in model.bin."""
    header = struct.pack(f"<B{len(shape)}IBI", len(shape), *shape, kind, size)
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0" + header


def link(name: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        secret = folder.parent / "secret"
        (folder / name).rename(secret)
        (folder / name).symlink_to(secret)

    return edit


def tokens(change: Callable[[list[str]], Any]) -> Damage:
    return changed(lambda content: json.dumps(change(json.loads(content))).encode(), "shared_vocabulary.json")


def not_a_number(content: bytes) -> bytes:
    begin = content.index(HEADER) + len(HEADER)
    return content[:begin] + struct.pack("<f", float("nan")) + content[begin + 4 :]


def alias_of(name: bytes) -> Damage:
    """Let the file's last alias, the position table of the encoder, be one of another variable."""
    old = b"decoder/position_encodings/encodings\0"

    def change(content: bytes) -> bytes:
        assert content.endswith(old)
        return content.removesuffix(old) + name + b"\0"

    return changed(change, "model.bin")


def infinite_heads(folder: Path) -> None:
    file = folder / "model.bin"
    for side in ("encoder", "decoder"):
        whole = named(f"{side}/num_heads", (), 2, 2) + struct.pack("<h", 4)
        infinite = named(f"{side}/num_heads", (), 0, 4) + struct.pack("<f", float("inf"))
        assert whole in file.read_bytes()
        file.write_bytes(file.read_bytes().replace(whole, infinite))


def long_unknown(folder: Path) -> None:
    """State a long token of an older file, which has the tokens among its variables."""
    write_older(folder, 5)
    content = (folder / "model.bin").read_bytes()
    place = 10 + int.from_bytes(content[4:6], "little")  # of the number of variables
    count = int.from_bytes(content[place : place + 4], "little") + 1
    token = named("unk_token", (2000,), 1, 2000) + b"x" * 2000
    content = content[:place] + count.to_bytes(4, "little") + token + content[place + 4 :]
    (folder / "model.bin").write_bytes(content)


def vast_embedding(folder: Path) -> None:
    """Let an embedding have no rows and vast columns, and the file no positions, which are then made of that width."""
    file = folder / "model.bin"
    content, name = file.read_bytes(), "decoder/embeddings/weight"
    before, header, after = content.partition(named(name, (126, 24), 0, 126 * 24 * 4))
    assert header
    content = before + named(name, (0, 2**28), 0, 0) + after[126 * 24 * 4 :]
    for side in ("encoder", "decoder"):
        old, new = (f"{side}/{part}".encode() + b"\0" for part in ("position_encodings/encodings", "unk_token"))
        content = content.replace(struct.pack("<H", len(old)) + old, struct.pack("<H", len(new)) + new)
    file.write_bytes(content)


config = partial(edit, "config.json")
NORM = "encoder/layer_norm/beta"
HEADER = named(NORM, (24,), 0, 96)
HEADS = named("decoder/num_heads", (), 2, 2)
CTRANSLATE2: Damages = {
    "half a file": (changed(lambda content: content[: len(content) // 2], "model.bin"), "more bytes at byte"),
    "an empty file": (written("model.bin", b""), "expected a model of CTranslate2"),
    "another file": (written("model.bin", b"x" * 400), "in binary version 2 to 6"),
    "more than a model": (
        changed(lambda content: content + bytes(9), "model.bin"),
        "expected its end at byte",
    ),
    "10^12 elements": (
        replaced(HEADER, named(NORM, (10**6, 10**6), 0, 96)),
        "of shape (1000000, 1000000) in float32 to have 4,000,000,000,000 bytes",
    ),
    "a size beyond the file": (
        replaced(HEADER, named(NORM, (10**9,), 0, 4 * 10**9)),
        "4,000,000,000 more bytes",
    ),
    "a size that wraps around": (
        replaced(HEADER, named(NORM, (2**31, 2**31, 4), 0, 0)),
        "expected encoder/layer_norm/beta of shape",
    ),
    "a vast width without a row": (vast_embedding, "of 1 to 524288 columns, found 268435456"),
    "no heads": (
        changed(
            lambda content: content.replace(HEADS + b"\4", HEADS + b"\0").replace(
                HEADS.replace(b"decoder", b"encoder") + b"\4", HEADS.replace(b"decoder", b"encoder") + b"\0"
            ),
            "model.bin",
        ),
        "model.bin: heads: Input should be greater than 0",
    ),
    "many dimensions": (replaced(HEADER, named(NORM, (1,) * 200, 0, 4)), "at most 8 dimensions"),
    "no such type": (replaced(HEADER, named(NORM, (24,), 9, 96)), "a type from 0 to 5"),
    "another shape": (
        replaced(HEADER, named(NORM, (12, 2), 0, 96)),
        "with 1 dimensions, found shape (12, 2)",
    ),
    "a norm of integers": (replaced(HEADER, named(NORM, (24,), 3, 96)), "in floating point, found int32"),
    "a name that isn't text": (replaced(NORM.encode(), b"\xff" * len(NORM)), "expected a printable name"),
    "a name twice": (replaced(b"encoder/layer_norm/gamma", b"decoder/layer_norm/gamma"), "different names"),
    "another variable": (
        replaced(NORM.encode(), NORM[:-1].encode() + b"x"),
        "variable encoder/layer_norm/beta",
    ),
    "numbers that aren't": (changed(not_a_number, "model.bin"), "expected finite numbers"),
    "unequal heads": (
        replaced(HEADS + b"\4", HEADS + b"\2"),
        "num_heads: expected the same of encoder and decoder",
    ),
    "infinitely many heads": (infinite_heads, "num_heads to be a finite number, found inf"),
    "a long token": (long_unknown, "unk_token: string should have at most 1000 characters"),
    "an alias of nothing": (
        alias_of(b"decoder/position_encodings/encodingz"),
        "encoder/position_encodings/encodings to be an alias of a variable at byte",
    ),
    "an alias of itself": (
        alias_of(b"encoder/position_encodings/encodings"),
        "encoder/position_encodings/encodings to be an alias of a variable at byte",
    ),
    "no vocabulary": (without("shared_vocabulary.json"), "shared_vocabulary.json"),
    "a small vocabulary": (tokens(lambda tokens: tokens[:3]), "tokens, found 3"),
    "a large vocabulary": (
        tokens(lambda tokens: [*tokens, *map(str, range(10**5))]),
        "with a row for each of",
    ),
    "tokens that aren't": (tokens(lambda tokens: {"a": 1}), "a list of tokens"),
    "no unknown": (tokens(lambda tokens: ["x", *tokens[1:]]), "unk_token"),
    "no start": (
        changed(lambda content: re.sub(rb'(decoder_start_token": )"<s>"', rb"\g<1>null", content), "config.json"),
        "decoder_start_token: expected the token that begins every translation",
    ),
    "a source that its caller ends, as in M2M100": (
        config(decoder_start_token="</s>"),
        "add_source_eos: expected true where decoder_start_token is '</s>', found false",
    ),
    "a start elsewhere": (
        config(decoder_start_token="x"),
        "decoder_start_token: expected a token of the vocabulary",
    ),
    "a vast epsilon": (config(layer_norm_epsilon=1e9), "layer_norm_epsilon"),
    "no JSON": (written("config.json", b"{"), "config.json"),
    "no subwords": (without("sentencepiece.model"), "the SentencePiece models"),
    "damaged subwords": (written("sentencepiece.model", b"x"), "expected a SentencePiece model"),
    "a link out of the directory": (link("model.bin"), "expected a file inside"),
    "a linked vocabulary": (link("shared_vocabulary.json"), "expected a file inside"),
}


def linked(file: Path) -> None:
    with zipfile.ZipFile(file, "a") as archive:
        entry = zipfile.ZipInfo("translate-en_de-1_0/model/vmap.txt")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")


def understated(file: Path) -> None:
    """State a smaller size of model.bin than it has, in both headers."""
    content = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        size = archive.getinfo(f"{FOLDER}/model/model.bin").file_size
    file.write_bytes(content.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little")))


FOLDER = "translate-en_de-1_0"


def with_model(content: bytes) -> Damage:
    return repacked(lambda files: files | {f"{FOLDER}/model/model.bin": content})


def without_member(name: str) -> Callable[[Path], None]:
    return repacked(lambda files: {each: data for each, data in files.items() if not each.endswith(name)})


def damaged_lzma(file: Path) -> None:
    repacked(lambda files: files, method=zipfile.ZIP_LZMA)(file)
    with zipfile.ZipFile(file) as archive:
        place = archive.getinfo(f"{FOLDER}/model/model.bin").header_offset + 100
    whole = file.read_bytes()
    file.write_bytes(whole[:place] + b"\xff" * 100 + whole[place + 100 :])


def with_metadata(**changes: Any) -> Callable[[Path], None]:
    def change(files: dict[str, bytes]) -> dict[str, bytes]:
        name = f"{FOLDER}/metadata.json"
        return files | {name: json.dumps(json.loads(files[name]) | changes).encode()}

    return repacked(change)


ARGOS: Damages = {
    "zip-slip": (
        repacked(lambda files: files | {"translate-en_de-1_0/../../evil": b"x"}),
        "expected names inside the package, found 'translate-en_de-1_0/../../evil'",
    ),
    "an absolute name": (repacked(lambda files: files | {"/tmp/evil": b"x"}), "found '/tmp/evil'"),
    "a Windows name": (
        repacked(lambda files: files | {"a\\..\\evil": b"x"}),
        "expected names inside the package",
    ),
    "a drive": (repacked(lambda files: files | {"C:/evil": b"x"}), "expected names inside the package"),
    "a link": (linked, "model/vmap.txt', which is a link"),
    "a bomb": (with_model(b"\0" * (200 << 20)), "expected a package that unpacks to at most"),
    "an understated size": (understated, "damaged zip file"),
    "two packages": (
        repacked(lambda files: files | {"other/metadata.json": b"{}"}),
        "expected one package, found metadata.json twice",
    ),
    "no model": (without_member("model.bin"), "expected model/model.bin in the folder of the package"),
    "no metadata": (without_member("metadata.json"), "expected metadata.json in the folder of the package"),
    "no subwords": (without_member("sentencepiece.model"), "expected sentencepiece.model, found none"),
    "Moses": (
        repacked(
            lambda files: {name.replace("sentencepiece.model", "bpe.model"): data for name, data in files.items()}
        ),
        "expected sentencepiece.model, found bpe.model, which needs Moses' tokenizer",
    ),
    "another type": (with_metadata(type="sbd"), "type: expected translate, found 'sbd'"),
    "a code that isn't": (with_metadata(from_code=[1]), "metadata.json: from_code"),
    "a damaged model": (with_model(b"x" * 100), "model/model.bin: expected a model of CTranslate2"),
    "no zip file": (lambda file: file.write_bytes(b"x" * 1000), "damaged zip file"),
    "damaged LZMA": (damaged_lzma, "damaged zip file"),
    "a name in no encoding": (in_directory({FLAGS: b"\0\x08", NAME: b"\xff"}), "damaged zip file"),
    "half a zip file": (lambda file: file.write_bytes(file.read_bytes()[:-400]), "damaged zip file"),
}
