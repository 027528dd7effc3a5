"""What pyproject.toml can't say: the native engine, compiled once for each instruction set.

Every extension is optional: where there is no C++ compiler, or it can't do one of them, Headwise is installed without
and uses PyTorch alone. They are plain C libraries that happen to be built as extensions; Python doesn't import them.
"""

from __future__ import annotations

import platform
from pathlib import Path

from setuptools import Extension, setup

FOLDER = "src/headwise/decoding/native"
COMMON = ["-std=c++17", "-O2", "-pthread", "-fno-math-errno", "-Wno-maybe-uninitialized"]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mprefer-vector-width=512"]
VARIANTS = {"portable": []}
if platform.machine().lower() in {"x86_64", "amd64"}:
    VARIANTS |= {
        "avx2": ["-mavx2", "-mfma"],
        "avx512": [*AVX512, "-mfma"],
        "avx512bf16": [*AVX512, "-mfma", "-mavx512bf16"],
    }

setup(
    ext_modules=[
        Extension(
            f"headwise.decoding.native._{name}",
            [f"{FOLDER}/native.cpp"],
            depends=sorted(map(str, Path(FOLDER).glob("*.h"))),
            extra_compile_args=[*COMMON, *flags],
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,
        )
        for name, flags in VARIANTS.items()
    ]
)
