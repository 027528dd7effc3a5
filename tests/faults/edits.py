"""Random damage to a run's files. Every edit takes a run directory and a generator, and returns a description."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml

from headwise.config import Config, Section
from safetensors_file import ITEM_SIZES, Tensors, float_bytes, read_tensors, write_tensors

Edit = Callable[[Path, random.Random], str]

FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-40, -1e-44, 1e-30, 3e4, -7e4, 1e19, 1e30, -1e38, 3.4e38]
FLOATS += [float("nan"), float("inf"), float("-inf")]
INTEGERS = [0, 1, -1, 2, 3, 4, 7, 8, 17, 40, 119, 120, 121]
INTEGERS += [2**15, 2**16, 2**31 - 1, -(2**31), 2**31, 2**63, 10**30]
_LARGEST = 1 << 24  # bytes of data that an edit writes
OTHERS = [None, True, False, "", "x", "x" * 300, "1", "é\u2028\u0000", [], [1], {}, {"a": 1}, 0.5, -0.5, 1.5]


def one_value(draw: random.Random) -> float:
    """Return a random number, valid or invalid as a parameter."""
    return draw.choice(FLOATS) if draw.random() < 0.7 else draw.gauss(0, 10.0 ** draw.randint(-6, 12))


# Tensors


def tensor_file(folder: Path, draw: random.Random) -> Path:
    files = sorted(folder.glob("*.safetensors"))
    return draw.choice([folder / "model.safetensors", *files])


def edit_tensor(change: Callable[[Tensors, str, random.Random], str]) -> Edit:
    """Return an edit that applies `change` to a random tensor of a random safetensors file."""

    def edit(folder: Path, draw: random.Random) -> str:
        path = tensor_file(folder, draw)
        tensors = read_tensors(path)
        if tensors is None or not tensors.entries:
            return f"{path.name}: already damaged"
        name = draw.choice(sorted(tensors.entries))
        description = change(tensors, name, draw)
        write_tensors(path, tensors)
        return f"{path.name}: {name}: {description}"

    return edit


def values(tensors: Tensors, name: str, draw: random.Random) -> str:
    """Overwrite some or all values of a tensor."""
    kind, shape, data = tensors.entries[name]
    size = ITEM_SIZES[kind]
    count = len(data) // size
    if not count:
        return "empty"
    edited = draw.choice([1, 1, 2, 16, count // 3 + 1, count])
    written = bytearray(data)
    value = one_value(draw)
    for _ in range(min(edited, count)):
        if kind in ("F32", "F64", "F16", "BF16"):
            item = float_bytes(kind, value)
        else:
            item = draw.choice([bytes(size), b"\xff" * size, b"\x80" * size, draw.randbytes(size)])
        index = draw.randrange(count) if edited < count else _
        written[index * size : (index + 1) * size] = item
    tensors.entries[name] = kind, shape, bytes(written)
    return f"{edited} values like {value}"


def scaled(tensors: Tensors, name: str, draw: random.Random) -> str:
    """Multiply a float32 tensor by a random factor."""
    kind, shape, data = tensors.entries[name]
    if kind != "F32" or len(data) % 4:
        return values(tensors, name, draw)
    factor = one_value(draw)
    numbers = struct.unpack(f"<{len(data) // 4}f", data)
    tensors.entries[name] = kind, shape, b"".join(float_bytes(kind, number * factor) for number in numbers)
    return f"times {factor}"


def reshaped(tensors: Tensors, name: str, draw: random.Random) -> str:
    """Change the shape of a tensor, usually with data of the new size, if that isn't larger than `_LARGEST`."""
    kind, shape, data = tensors.entries[name]
    new = list(shape)
    way = draw.randrange(7)
    if way == 0:
        new.reverse()
    elif way == 1:
        new.insert(draw.randint(0, len(new)), draw.choice([1, 1, 2, 0]))
    elif way == 2 and new:
        new.pop(draw.randrange(len(new)))
    elif way == 3:
        new = [len(data) // ITEM_SIZES[kind]]
    elif way == 4:
        new = []
    elif new:
        place = draw.randrange(len(new))
        old = new[place]
        new[place] = max(0, draw.choice([0, 1, old - 1, old + 1, old * 2, draw.randint(0, 200)]))
    size = ITEM_SIZES[kind]
    for dimension in new:
        size *= dimension
    if draw.random() < 0.9 and size <= _LARGEST:
        data = (data * (size // max(len(data), 1) + 1))[:size]
        data += bytes(size - len(data))
    tensors.entries[name] = kind, new, data
    return f"shape {shape} to {new}"


def retyped(tensors: Tensors, name: str, draw: random.Random) -> str:
    """Change the type of a tensor and keep its shape or its bytes."""
    kind, shape, data = tensors.entries[name]
    new = draw.choice(sorted({*ITEM_SIZES, "F8_E4M3", "F8_E5M2", "F4", "C64", "X"} - {kind}))
    if new in ITEM_SIZES and draw.random() < 0.8:
        size = ITEM_SIZES[new]
        for dimension in shape:
            size *= dimension
        data = (data * (size // max(len(data), 1) + 1))[:size]
    tensors.entries[name] = new, shape, data
    return f"{kind} to {new}"


def removed(tensors: Tensors, name: str, draw: random.Random) -> str:
    del tensors.entries[name]
    return "removed"


def renamed(tensors: Tensors, name: str, draw: random.Random) -> str:
    other = draw.choice([*sorted(tensors.entries), name + ".scale", name.removesuffix(".scale"), "x", "", "é\n"])
    if draw.random() < 0.5 and other in tensors.entries:
        tensors.entries[name], tensors.entries[other] = tensors.entries[other], tensors.entries[name]
        return f"in the place of {other}"
    tensors.entries[other] = tensors.entries.pop(name)
    return f"renamed {other}"


def added(tensors: Tensors, name: str, draw: random.Random) -> str:
    other = draw.choice([name + ".scale", name + ".x", "output_projection.weight", "positions.table", "x", ""])
    tensors.entries[other] = draw.choice([tensors.entries[name], ("F32", [0], b""), ("F32", [], bytes(4))])
    return f"added {other}"


# Whole files


def file_bytes(folder: Path, draw: random.Random) -> str:
    """Truncate, extend, overwrite, delete or flip bytes of a random file, or replace the file by a folder."""
    path = draw.choice([path for path in sorted(folder.iterdir()) if path.is_file()] or [folder / "x"])
    data = bytearray(path.read_bytes() if path.exists() else b"")
    way = draw.randrange(8)
    if way == 0:
        data = data[: draw.randint(0, len(data))]
    elif way == 1:
        data += draw.randbytes(draw.choice([1, 7, 8, 4096]))
    elif way == 2:
        path.unlink()
        if draw.random() < 0.5:
            path.mkdir()
            return f"{path.name}: a folder"
        return f"{path.name}: gone"
    elif way == 3:
        start = draw.randint(0, len(data))
        del data[start : start + draw.choice([1, 4, 64])]
    elif way == 4:
        start = draw.randint(0, len(data))
        length = draw.choice([1, 4, 8, 64])
        data[start : start + length] = draw.randbytes(length)
    else:
        region = draw.choice([len(data), 8, 300])
        for _ in range(draw.choice([1, 1, 2, 8, 64])):
            if data:
                data[draw.randrange(min(region, len(data)))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    return f"{path.name}: bytes, way {way}"


def header(folder: Path, draw: random.Random) -> str:
    """Write a safetensors file with an invalid or misleading header."""
    path = tensor_file(folder, draw)
    tensors = read_tensors(path)
    if tensors is None or not tensors.entries:
        return f"{path.name}: already damaged"
    table, data = tensors.header(), tensors.data()
    name = draw.choice([name for name in table if name != "__metadata__"])
    other = draw.choice([name for name in table if name != "__metadata__"])
    way = draw.randrange(9)
    entry = table[name]
    if way == 0:
        entry["data_offsets"] = table[other]["data_offsets"]
    elif way == 1:
        entry["data_offsets"] = [
            entry["data_offsets"][0],
            draw.choice([len(data) + 1, 2**40, 2**63, 2**64, -1]),
        ]
    elif way == 2:
        entry["data_offsets"] = draw.choice([[0], [], [8, 4], [-4, 4], [0.5, 4], ["0", "4"], None, [0, 4, 8]])
    elif way == 3:
        entry["shape"] = draw.choice([[2**32, 2**32], [2**63], [-1], [-4, -4], [0.5], ["4"], None, [10**30], 4])
    elif way == 4:
        entry["dtype"] = draw.choice(["f32", "", None, 3, "F32 ", "Q4"])
    elif way == 5:
        del entry[draw.choice(sorted(entry))]
    elif way == 6:
        depth = draw.choice([10, 1000, 100_000])
        deep: Any = "[" * depth + "]" * depth
        texts = [deep, '{"subwords": 3}', "3", "null", "not JSON", "", '{"subwords": ' + "1" * 5000 + "}"]
        texts += [deep.replace("[", '{"a":[').replace("]", "]}"), '{"subwords": NaN}', "[1]", '"\\ud800"']
        table["__metadata__"] = {"headwise": draw.choice(texts)}
    elif way == 7:
        table["__metadata__"] = draw.choice([None, 3, {"headwise": 3}, {"headwise": {}}, [], {"": ""}])
    text = json.dumps(table).encode()
    if way == 8:
        text = text[:-1] + b"," + json.dumps({name: table[other]}).encode()[1:]  # a duplicate name
    length = len(text)
    if draw.random() < 0.1:
        length = draw.choice([0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1])
    path.write_bytes(struct.pack("<Q", length) + text + data)
    return f"{path.name}: header, way {way} at {name}"


# Configuration, vocabulary


def leaves(section: type[Section], prefix: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Return every key of the configuration with its annotation."""
    keys: list[tuple[tuple[str, ...], Any]] = []
    for name, field in section.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Section):
            keys += leaves(annotation, (*prefix, name))
        else:
            keys.append(((*prefix, name), annotation))
    return keys


KEYS = leaves(Config)
USED = [key for key in KEYS if key[0][0] in ("model", "subwords", "decoding")]
NAMES = {
    "architecture": ["transformer", "recurrent", "convolutional"],
    "attention": [*("fused", "reference", "memory_efficient", "window", "linear", "block_sparse", "state_space")],
    "positions": [*("sinusoidal", "tensor2tensor", "fairseq", "learned", "none", "rotary", "alibi", "relative", "t5")],
    "task": ["translation", "language_model", "denoising", "tagging", "image_text"],
}
NAMES["cross_attention"] = NAMES["attention"]


def choices(name: str, annotation: Any) -> list[Any]:
    """Return the named values of a key."""
    names = list(NAMES.get(name, []))
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is Literal:
            names += get_args(part)
    return names or [True, False] if annotation is bool else names


def config_value(folder: Path, draw: random.Random) -> str:
    """Set, remove or add a key of the configuration."""
    path = folder / "config.yaml"
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return "config.yaml: already damaged"
    if not isinstance(tree, dict):
        return "config.yaml: already damaged"
    keys, annotation = draw.choice(USED if draw.random() < 0.85 else KEYS)
    node = tree
    for key in keys[:-1]:
        if not isinstance(node.get(key), dict):
            node[key] = {}
        node = node[key]
    known = choices(keys[-1], annotation)
    way = draw.random()
    if way < 0.1:
        node.pop(keys[-1], None)
        change = "removed"
    elif way < 0.15:
        change = draw.choice(["", "x", "heads", "d_modle", 3, None])
        node[change] = 1
    else:
        if known and way < 0.7:
            value = draw.choice(known)
        elif way < 0.9:
            value = draw.choice(INTEGERS) if draw.random() < 0.8 else one_value(draw)
        else:
            value = draw.choice(OTHERS)
        node[keys[-1]] = value
        change = repr(value)[:60]
    path.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
    return f"config.yaml: {'.'.join(keys)}: {change}"


def swapped(bases: Path) -> Edit:
    """Return an edit that replaces a file by that of another run."""

    def edit(folder: Path, draw: random.Random) -> str:
        other = draw.choice(sorted(path for path in bases.iterdir() if path.is_dir()))
        path = draw.choice([path for path in sorted(other.iterdir()) if path.name != "config.yaml"])
        if (folder / path.name).is_dir():
            return f"{path.name}: already damaged"
        (folder / path.name).write_bytes(path.read_bytes())
        return f"{path.name}: of {other.name}"

    return edit


def vocabulary(folder: Path, draw: random.Random) -> str:
    """Damage the subword model: random bits, fields, scores or repeated bytes."""
    files = sorted(path for path in folder.glob("spm*.model") if path.is_file())
    if not files:
        return "no subword model"
    path = draw.choice(files)
    data = bytearray(path.read_bytes())
    if not data:
        return f"{path.name}: empty"
    way = draw.randrange(5)
    if way == 0:  # fields of the pieces, at the beginning of the file
        for _ in range(draw.choice([1, 3, 30])):
            data[draw.randrange(min(len(data), 2500))] = draw.choice(
                [0, 1, 2, 6, 0x7F, 0x80, 0xFF, draw.randrange(256)]
            )
    elif way == 1:  # fields of the trainer and the normalizer, at the end
        for _ in range(draw.choice([1, 3, 30])):
            data[-1 - draw.randrange(min(len(data), 600))] = draw.randrange(256)
    elif way == 2:
        for _ in range(draw.choice([1, 10, 1000])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif way == 3:
        start, length = draw.randrange(len(data)), draw.choice([1, 2, 20, 1000])
        chunk = data[start : start + length]
        position = draw.randrange(len(data))
        data[position:position] = chunk * draw.choice([1, 1, 50])
    else:  # scores of pieces: tag 2, 32 bits
        position = draw.randrange(len(data))
        tag_position = data.find(b"\x15", position)
        if tag_position >= 0:
            data[tag_position + 1 : tag_position + 5] = struct.pack(
                "<f", draw.choice([float("nan"), float("inf"), -1e38, 0.0])
            )
    path.write_bytes(data)
    return f"{path.name}: bytes, way {way}"


def edits(bases: Path) -> list[tuple[int, Edit]]:
    """Return every kind of edit with its sampling weight."""
    return [
        (6, edit_tensor(values)),
        (3, edit_tensor(scaled)),
        (3, edit_tensor(reshaped)),
        (2, edit_tensor(retyped)),
        (1, edit_tensor(removed)),
        (2, edit_tensor(renamed)),
        (1, edit_tensor(added)),
        (3, file_bytes),
        (2, header),
        (7, config_value),
        (1, swapped(bases)),
        (3, vocabulary),
    ]
