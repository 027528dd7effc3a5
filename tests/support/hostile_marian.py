"""Damaged and hostile files of Marian: what is done to whole ones, and what the sentence says."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from damages import COMPRESSED, SIZE, VERSION, Damage, Damages, changed, in_directory, repacked, written


def edit_options(**changes: Any) -> Damage:
    def edit(folder: Path) -> None:
        arrays = dict(np.load(folder / "model.npz"))
        options = yaml.safe_load(arrays["special:model.yml"].tobytes().split(b"\0")[0])
        options |= {key.replace("_", "-"): value for key, value in changes.items()}
        arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(options).encode(), np.int8)
        np.savez(folder / "model.npz", **arrays)

    return edit


def edit_arrays(**changes: Any) -> Damage:
    def edit(folder: Path) -> None:
        arrays = {name: array for name, array in np.load(folder / "model.npz").items() if name not in changes}
        np.savez(
            folder / "model.npz",
            **arrays,
            **{name: array for name, array in changes.items() if array is not None},
        )

    return edit


def raw_entry(content: bytes) -> Damage:
    """Replace the entry of an array by these bytes."""
    return repacked(lambda entries: entries | {"Wemb.npy": content}, "model.npz", zipfile.ZIP_STORED)


def npy(header: dict[str, Any]) -> bytes:
    """Return an entry with a header and a little data."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, header)
    return content.getvalue() + bytes(64)


def beyond_the_file(folder: Path) -> None:
    """Let the first array be larger than the file, by its header and by the zip file's directory."""
    entry = npy({"descr": "<f4", "fortran_order": False, "shape": (10**8,)})
    size = (len(entry) - 64 + 4 * 10**8).to_bytes(4, "little")
    first = repacked(
        lambda entries: {"Wemb.npy": entry, **{name: e for name, e in entries.items() if name != "Wemb.npy"}},
        "model.npz",
        zipfile.ZIP_STORED,
    )
    first(folder)
    in_directory({COMPRESSED: size, SIZE: size}, "model.npz")(folder)


def twice_among_many(folder: Path) -> None:
    """Let the last two of 200,000 pieces be equal, which takes hours to find by comparing each with all others."""
    edit_options(dim_vocabs=[200_000, 200_000])(folder)
    edit_file("vocab.yml", lambda t: t + "".join(f"w{n}: {n}\n" for n in range(180, 199_999)) + "w199998: 199999\n")(
        folder
    )


def options_text(text: bytes) -> Any:
    return edit_arrays(**{"special:model.yml": np.frombuffer(text, np.int8)})


def compressed_arrays(folder: Path) -> None:
    np.savez_compressed(folder / "model.npz", **dict(np.load(folder / "model.npz")))


def twice(folder: Path) -> None:
    with (
        zipfile.ZipFile(folder / "model.npz", "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr("Wemb.npy", archive.read("Wemb.npy"))


def edit_file(name: str, change: Callable[[str], str]) -> Damage:
    return changed(lambda content: change(content.decode()).encode(), name)


PRE = {"transformer_preprocess": "n", "transformer_postprocess": "da", "transformer_postprocess_top": "n"}
VAST = {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6)}
MARIAN: Damages = {
    "a pickle": (
        edit_arrays(Wemb=np.array([print], dtype=object)),
        "Wemb: expected numbers, found Python objects, which only a pickle can hold",
    ),
    "a bomb": (compressed_arrays, "expected an uncompressed array, found a compressed one"),
    "a vast header": (raw_entry(npy(VAST)), "found shape (1000000, 1000000) of float32"),
    "a negative header": (raw_entry(npy(VAST | {"shape": (-4, 4)})), "found the shape (-4, 4)"),
    "code in a header": (raw_entry(b"\x93NUMPY\x01\x00\x10\x00print('boom')   "), "found another header"),
    "deep brackets": (raw_entry(b"\x93NUMPY\x01\x00\x10\x27" + b"(" * 10000), "found another header"),
    "a structured type": (
        edit_arrays(Wemb=np.zeros(3, [("boom", "<f4")])),
        "expected float32, float16, int8 (little-endian), found [('boom', '<f4')]",
    ),
    "an array beyond the file": (beyond_the_file, "found a damaged one"),
    "text": (
        edit_arrays(Wemb=np.array(["boom"])),
        "expected float32, float16, int8 (little-endian), found <U4",
    ),
    "Fortran": (edit_arrays(Wemb=np.ones((180, 24), np.float32, "F")), "found one in Fortran's"),
    "an array twice": (twice, "expected a different name for each array"),
    "other shapes": (
        edit_arrays(encoder_l1_ffn_W1=np.ones((3, 4), np.float32)),
        "of shape (40, 24), found (4, 3)",
    ),
    "few rows": (edit_arrays(Wemb=np.ones((3, 24), np.float32)), "rows, found shape (3, 24)"),
    "no rows": (edit_arrays(Wemb=np.float32(1)), "rows, found shape ()"),
    "numbers that aren't": (
        edit_arrays(encoder_l1_ffn_b1=np.full((1, 40), np.nan, np.float32)),
        "expected finite",
    ),
    "a missing array": (edit_arrays(encoder_l1_ffn_W1=None), "expected array encoder_l1_ffn_W1, found none"),
    "one array more": (
        edit_arrays(more=np.ones(3, np.float32)),
        "found array more, which Headwise has no place",
    ),
    "other positions": (edit_arrays(Wpos=np.ones((9, 24), np.float32)), "expected Wpos to be sinusoids"),
    "no positions": (edit_arrays(Wpos=np.ones((0, 24), np.float32)), "expected Wpos to be sinusoids"),
    "odd heads": (
        edit_options(transformer_heads=5),
        "special:model.yml: d_model must be a multiple of heads unless d_k and d_v are given",
    ),
    "no options": (edit_arrays(**{"special:model.yml": None}), "found none of them"),
    "options that aren't YAML": (options_text(b"{a: ["), "special:model.yml: expected YAML"),
    "options with an alias": (
        options_text(b"a: &a [1]\nb: *a\n"),
        "special:model.yml: expected YAML, found the alias",
    ),
    "a recurrent model": (edit_options(type="s2s"), "type: expected 'transformer', found 's2s'"),
    "an activation": (
        edit_options(transformer_ffn_activation="gelu"),
        "transformer-ffn-activation: expected",
    ),
    "a vast width": (edit_options(dim_emb=10**12), "dim-emb: "),
    "another width": (edit_options(dim_emb=32), "of shape"),
    "a vast vocabulary": (edit_options(dim_vocabs=[10**12, 10**12]), "dim-vocabs.0: "),
    "more layers": (edit_options(enc_depth=3), "expected array encoder_l3_"),
    "tied layers": (edit_options(transformer_tied_layers=[1, 1]), "transformer-tied-layers: "),
    "trained positions": (
        edit_options(transformer_train_position_embeddings=True),
        "train-position-embeddings: ",
    ),
    "right to left": (edit_options(right_left=True), "right-left: expected false"),
    "normalization of old": (
        edit_options(**PRE),
        "expected transformer-preprocess 'n' of Marian 1.11 or newer",
    ),
    "half of pre-norm": (edit_options(transformer_preprocess="n"), "expected transformer-postprocess 'da'"),
    "a vocabulary without an end": (
        edit_file("vocab.yml", lambda t: t.replace("</s>", "x")),
        "the piece </s>",
    ),
    "a vocabulary of other lines": (
        edit_file("vocab.yml", lambda t: t + "boom\n"),
        "expected a piece and its id (line",
    ),
    "an id twice": (edit_file("vocab.yml", lambda t: t + "boom: 3\n"), "found 3 twice"),
    "a piece twice": (
        edit_file("vocab.yml", lambda t: t.replace("y: ", '"z": ', 1)),
        "expected different pieces",
    ),
    "a piece twice among many": (twice_among_many, "expected different pieces, found 'w199998' twice"),
    "an escape": (edit_file("vocab.yml", lambda t: t + '"\\q": 9999\n'), "expected a piece, found"),
    "two models": (
        edit_file("decoder.yml", lambda t: t.replace("- model.npz", "- a.npz\n- b.npz")),
        "expected one model, found 2",
    ),
    "an empty decoder.yml": (
        edit_file("decoder.yml", lambda t: ""),
        "decoder.yml: expected keys and their values, found nothing",
    ),
    "a vocabulary elsewhere": (
        edit_file("decoder.yml", lambda t: t.replace("- vocab.yml", "- ../../etc/vocab.spm")),
        "model.npz/vocab.spm",
    ),
    "a factored vocabulary": (
        edit_file("decoder.yml", lambda t: t.replace("- vocab.yml", "- vocab.fsv")),
        "found '.fsv'",
    ),
    "a zip file of the future": (in_directory({VERSION: b"\\xff"}, "model.npz"), "found none of them"),
    "no zip": (written("model.npz", b"PK\3\4" + bytes(99)), "found none of them"),
    "no subwords": (written("source.spm", b"x"), "expected a SentencePiece model"),
}
