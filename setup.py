"""What pyproject.toml can't say: the native engine, compiled once for each instruction set.

Every extension is optional: where there is no C++ compiler, or it can't do one of them, Headwise is installed without
and uses PyTorch alone. They are plain C libraries that happen to be built as extensions; Python doesn't import them.

`python setup.py build_sanitized` compiles them once more into build/sanitized, for tests alone: with AddressSanitizer
and UndefinedBehaviorSanitizer, which end the process at the first bad access (`make test-sanitized`).
"""

from __future__ import annotations

import copy
import platform
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = "src/headwise/native"
COMMON = ["-std=c++17", "-O2", "-g0", "-pthread", "-fno-math-errno", "-Wno-maybe-uninitialized"]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mprefer-vector-width=512"]
VARIANTS = {"portable": []}
if platform.machine().lower() in {"x86_64", "amd64"}:
    VARIANTS |= {
        "avx2": ["-mavx2", "-mfma"],
        "avx512": [*AVX512, "-mfma"],
        "avx512bf16": [*AVX512, "-mfma", "-mavx512bf16"],
    }
# For tests: what Python's own flags and the standard library let pass fails, too (overflow of integers, indices).
# Conversions of floats that no integer can hold aren't in `undefined`.
CHECKS = "-fsanitize=address,undefined,float-cast-overflow"
CHECKED = ["-O1", "-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", CHECKS]
CHECKED += ["-fno-wrapv", "-D_GLIBCXX_ASSERTIONS", "-Wno-uninitialized"]
CHECKED_FOLDER = "build/sanitized"
NEEDED = {"portable": "", "avx2": "__AVX2__", "avx512": "__AVX512VNNI__", "avx512bf16": "__AVX512BF16__"}


class BuildVariants(build_ext):
    """Compiles the variants side by side; as they have one source, each object has a folder of its own."""

    def finalize_options(self) -> None:
        """Use every processor."""
        self.parallel = self.parallel or True
        super().finalize_options()

    def build_extension(self, ext: Extension) -> None:
        """Compile one variant."""
        alone = copy.copy(self)
        alone.build_temp = f"{self.build_temp}/objects/{ext.name}"
        build_ext.build_extension(alone, ext)


class BuildSanitized(BuildVariants):
    """Compiles variants for this processor with sanitizers, beside what is installed and never in its place.

    These are the portable one, AVX2 and the best that the processor has.
    """

    def finalize_options(self) -> None:
        """Choose the variants."""
        self.inplace, self.build_lib, self.build_temp = False, CHECKED_FOLDER, CHECKED_FOLDER
        super().finalize_options()
        macros = subprocess.run(
            ["c++", "-march=native", "-dM", "-E", "-x", "c++", "/dev/null"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        runnable = [name for name in VARIANTS if NEEDED[name] in macros]
        wanted = {f"headwise.native._{name}" for name in (*runnable[:2], runnable[-1])}
        self.extensions = [extension for extension in self.extensions if extension.name in wanted]

    def build_extension(self, ext: Extension) -> None:
        """Compile one variant; it must succeed."""
        ext.optional = False
        ext.extra_compile_args += CHECKED
        ext.extra_link_args += [CHECKS]
        super().build_extension(ext)


setup(
    cmdclass={"build_ext": BuildVariants, "build_sanitized": BuildSanitized},
    ext_modules=[
        Extension(
            f"headwise.native._{name}",
            [f"{FOLDER}/native.cpp"],
            depends=sorted(map(str, Path(FOLDER).glob("*.h"))),
            extra_compile_args=[*COMMON, *flags],
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,
        )
        for name, flags in VARIANTS.items()
    ],
)
