"""Damaged and hostile files of CTranslate2 and Argos: what is done to whole ones, and what the sentence says."""

from __future__ import annotations

import json
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctranslate2_models import write_older
from zip_files import FLAGS, NAME, in_directory

Damages = dict[str, tuple[Callable[[Path], Any], str]]


def replaced(old: bytes, new: bytes) -> Callable[[Path], None]:
    """Replace bytes of model.bin, which must be there."""

    def edit(folder: Path) -> None:
        content = (folder / "model.bin").read_bytes()
        assert old in content
        (folder / "model.bin").write_bytes(content.replace(old, new, 1))

    return edit


def named(name: str, shape: tuple[int, ...], kind: int, size: int) -> bytes:
    """Return the header of a variable in model.bin."""
    header = struct.pack(f"<B{len(shape)}IBI", len(shape), *shape, kind, size)
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0" + header


def cut(folder: Path) -> None:
    content = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(content[: len(content) // 2])


def more(folder: Path) -> None:
    with open(folder / "model.bin", "ab") as file:
        file.write(b"\0" * 9)


def link(name: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        secret = folder.parent / "secret"
        (folder / name).rename(secret)
        (folder / name).symlink_to(secret)

    return edit


def edit_json(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(change(content)))

    return edit


def not_a_number(folder: Path) -> None:
    content = (folder / "model.bin").read_bytes()
    begin = content.index(HEADER) + len(HEADER)
    content = content[:begin] + struct.pack("<f", float("nan")) + content[begin + 4 :]
    (folder / "model.bin").write_bytes(content)


def alias_of(name: bytes) -> Callable[[Path], None]:
    """Let the file's last alias, the position table of the encoder, be one of another variable."""

    def edit(folder: Path) -> None:
        content = (folder / "model.bin").read_bytes()
        old = b"decoder/position_encodings/encodings\0"
        assert content.endswith(old)
        (folder / "model.bin").write_bytes(content[: -len(old)] + name + b"\0")

    return edit


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


NORM = "encoder/layer_norm/beta"
HEADER = named(NORM, (24,), 0, 96)
HEADS = named("decoder/num_heads", (), 2, 2)
CTRANSLATE2: Damages = {
    "half a file": (cut, "more bytes at byte"),
    "an empty file": (
        lambda folder: (folder / "model.bin").write_bytes(b""),
        "expected a model of CTranslate2",
    ),
    "another file": (
        lambda folder: (folder / "model.bin").write_bytes(b"x" * 400),
        "in binary version 2 to 6",
    ),
    "more than a model": (more, "expected its end at byte"),
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
    "numbers that aren't": (not_a_number, "expected finite numbers"),
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
    "no vocabulary": (lambda folder: (folder / "shared_vocabulary.json").unlink(), "shared_vocabulary.json"),
    "a small vocabulary": (edit_json("shared_vocabulary.json", lambda tokens: tokens[:3]), "tokens, found 3"),
    "a large vocabulary": (
        edit_json("shared_vocabulary.json", lambda tokens: [*tokens, *map(str, range(10**5))]),
        "with a row for each of",
    ),
    "tokens that aren't": (edit_json("shared_vocabulary.json", lambda tokens: {"a": 1}), "a list of tokens"),
    "no unknown": (edit_json("shared_vocabulary.json", lambda tokens: ["x", *tokens[1:]]), "unk_token"),
    "no start": (
        edit_json("config.json", lambda config: config | {"decoder_start_token": None}),
        "decoder_start_token: expected the token that begins every translation",
    ),
    "a start elsewhere": (
        edit_json("config.json", lambda config: config | {"decoder_start_token": "x"}),
        "decoder_start_token: expected a token of the vocabulary",
    ),
    "a vast epsilon": (
        edit_json("config.json", lambda config: config | {"layer_norm_epsilon": 1e9}),
        "layer_norm_epsilon",
    ),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
    "no subwords": (lambda folder: (folder / "sentencepiece.model").unlink(), "the SentencePiece models"),
    "damaged subwords": (
        lambda folder: (folder / "sentencepiece.model").write_bytes(b"x"),
        "expected a SentencePiece model",
    ),
    "a link out of the directory": (link("model.bin"), "expected a file inside"),
    "a linked vocabulary": (link("shared_vocabulary.json"), "expected a file inside"),
}


def rewritten(change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> Callable[[Path], None]:
    """Change the members of a package."""

    def edit(file: Path) -> None:
        with zipfile.ZipFile(file) as archive:
            content = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in change(content).items():
                archive.writestr(name, data)

    return edit


def linked(file: Path) -> None:
    with zipfile.ZipFile(file, "a") as archive:
        entry = zipfile.ZipInfo("translate-en_de-1_0/model/vmap.txt")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")


def bomb(file: Path) -> None:
    rewritten(lambda files: files | {f"{FOLDER}/model/model.bin": b"\0" * (200 << 20)})(file)


def understated(file: Path) -> None:
    """State a smaller size of model.bin than it has, in both headers."""
    content = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        size = archive.getinfo(f"{FOLDER}/model/model.bin").file_size
    file.write_bytes(content.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little")))


FOLDER = "translate-en_de-1_0"


def without_member(name: str) -> Callable[[Path], None]:
    return rewritten(lambda files: {each: data for each, data in files.items() if not each.endswith(name)})


def damaged_lzma(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        place = archive.getinfo(f"{FOLDER}/model/model.bin").header_offset + 100
    whole = file.read_bytes()
    file.write_bytes(whole[:place] + b"\xff" * 100 + whole[place + 100 :])


def with_metadata(**changes: Any) -> Callable[[Path], None]:
    def change(files: dict[str, bytes]) -> dict[str, bytes]:
        name = f"{FOLDER}/metadata.json"
        return files | {name: json.dumps(json.loads(files[name]) | changes).encode()}

    return rewritten(change)


ARGOS: Damages = {
    "zip-slip": (
        rewritten(lambda files: files | {"translate-en_de-1_0/../../evil": b"x"}),
        "expected names inside the package, found 'translate-en_de-1_0/../../evil'",
    ),
    "an absolute name": (rewritten(lambda files: files | {"/tmp/evil": b"x"}), "found '/tmp/evil'"),
    "a Windows name": (
        rewritten(lambda files: files | {"a\\..\\evil": b"x"}),
        "expected names inside the package",
    ),
    "a drive": (rewritten(lambda files: files | {"C:/evil": b"x"}), "expected names inside the package"),
    "a link": (linked, "model/vmap.txt', which is a link"),
    "a bomb": (bomb, "expected a package that unpacks to at most"),
    "an understated size": (understated, "damaged zip file"),
    "two packages": (
        rewritten(lambda files: files | {"other/metadata.json": b"{}"}),
        "expected one package, found metadata.json twice",
    ),
    "no model": (without_member("model.bin"), "expected model/model.bin in the folder of the package"),
    "no metadata": (without_member("metadata.json"), "expected metadata.json in the folder of the package"),
    "no subwords": (without_member("sentencepiece.model"), "expected sentencepiece.model, found none"),
    "Moses": (
        rewritten(
            lambda files: {
                name.replace("sentencepiece.model", "bpe.model"): data for name, data in files.items()
            }
        ),
        "expected sentencepiece.model, found bpe.model, which needs Moses' tokenizer",
    ),
    "another type": (with_metadata(type="sbd"), "type: expected translate, found 'sbd'"),
    "a code that isn't": (with_metadata(from_code=[1]), "metadata.json: from_code"),
    "a damaged model": (
        rewritten(lambda files: files | {f"{FOLDER}/model/model.bin": b"x" * 100}),
        "model/model.bin: expected a model of CTranslate2",
    ),
    "no zip file": (lambda file: file.write_bytes(b"x" * 1000), "damaged zip file"),
    "damaged LZMA": (damaged_lzma, "damaged zip file"),
    "a name in no encoding": (in_directory({FLAGS: b"\0\x08", NAME: b"\xff"}), "damaged zip file"),
    "half a zip file": (lambda file: file.write_bytes(file.read_bytes()[:-400]), "damaged zip file"),
}
