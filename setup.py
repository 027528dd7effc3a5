"""What pyproject.toml can't say: the native engine, compiled for each instruction set, and equal archives.

The native libraries are shared libraries with a C interface, which no Python interface is part of: a wheel with them is
for one platform and every Python 3. Each is optional: where there is no C++ compiler, or it can't do one of them,
Headwise is installed without. The compiler is `c++`, or what the environment variable CXX names; it must be GCC or
Clang, as the vectors are their extension of C++.

`python setup.py build_sanitized` compiles them once more into build/sanitized, for tests alone: with AddressSanitizer
and UndefinedBehaviorSanitizer, which end the process at the first bad access (`make test-sanitized`).
"""

from __future__ import annotations

import gzip
import os
import platform
import shlex
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import ClassVar

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CompileError
from setuptools.modified import newer_group

FOLDER = Path("src/headwise/native")
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")  # as in src/headwise/native/library.py
COMPILER = shlex.split(os.environ.get("CXX", "c++"))
COMMON = [
    "-std=c++17",
    "-O2",
    "-g0",
    "-DNDEBUG",
    "-pthread",
    "-fno-math-errno",
    "-Wall",
    "-Wno-uninitialized",
]
# Windows' code has no positions to depend on; there, the DLL brings along what it needs of C++.
COMMON += ["-static"] if sys.platform == "win32" else ["-fPIC"]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mprefer-vector-width=512"]
VARIANTS = {"portable": []}
if platform.machine().lower() in {"x86_64", "amd64"}:
    VARIANTS |= {
        "avx2": ["-mavx2", "-mfma"],
        "avx512": [*AVX512, "-mfma"],
        "avx512bf16": [*AVX512, "-mfma", "-mavx512bf16"],
    }
# For tests: what the standard library lets pass fails, too (indices). Conversions of floats that no integer can hold
# aren't in `undefined`.
CHECKED = ["-O1", "-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
CHECKED += ["-fsanitize=address,undefined,float-cast-overflow", "-D_GLIBCXX_ASSERTIONS"]
CHECKED_FOLDER = "build/sanitized"
NEEDED = {"portable": "", "avx2": "__AVX2__", "avx512": "__AVX512VNNI__", "avx512bf16": "__AVX512BF16__"}


class BuildVariants(build_ext):
    """Compiles the variants side by side, each in one call of the compiler."""

    flags: ClassVar[list[str]] = COMMON

    def finalize_options(self) -> None:
        """Use every processor."""
        self.parallel = self.parallel or True
        super().finalize_options()

    def get_ext_filename(self, fullname: str) -> str:
        """Return the file name of a library: that of a Python module would name a version of Python."""
        return str(Path(*fullname.split("."))) + SUFFIX

    def build_extension(self, ext: Extension) -> None:
        """Compile one variant."""
        path = Path(self.get_ext_fullpath(ext.name))
        if not self.force and not newer_group([*ext.sources, *ext.depends], str(path), "newer"):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        command = [*COMPILER, *self.flags, *ext.extra_compile_args, "-shared", *ext.sources, "-o", str(path)]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise CompileError(str(error)) from error


class BuildSanitized(BuildVariants):
    """Compiles variants for this processor with sanitizers, beside what is installed and never in its place.

    These are the portable one, AVX2 and the best that the processor has.
    """

    flags: ClassVar[list[str]] = [*COMMON, *CHECKED]

    def finalize_options(self) -> None:
        """Choose the variants."""
        self.inplace, self.build_lib, self.build_temp = False, CHECKED_FOLDER, CHECKED_FOLDER
        super().finalize_options()
        macros = subprocess.run(
            [*COMPILER, "-march=native", "-dM", "-E", "-x", "c++", os.devnull],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        runnable = [name for name in VARIANTS if NEEDED[name] in macros]
        wanted = {f"headwise.native._{name}" for name in (*runnable[:2], runnable[-1])}
        self.extensions = [extension for extension in self.extensions if extension.name in wanted]
        for extension in self.extensions:
            extension.optional = False


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and every Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return Python, its binary interface, and the platform."""
        return "py3", "none", super().get_tag()[2]


class EqualSdist(sdist):
    """A source archive whose bytes depend only on its files and on SOURCE_DATE_EPOCH, as those of a wheel do."""

    def make_archive(self, base_name: str, format: str, root_dir=None, base_dir=None, owner=None, group=None) -> str:
        """Write the archive without what the machine adds: times, owners, the rights of a umask."""
        moment = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))

        def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = moment, 0, 0, "", ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            return entry

        with (
            open(f"{base_name}.tar.gz", "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=moment) as packed,
            tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=plain)
        return file.name


setup(
    cmdclass={
        "bdist_wheel": PlatformWheel,
        "build_ext": BuildVariants,
        "build_sanitized": BuildSanitized,
        "sdist": EqualSdist,
    },
    ext_modules=[
        Extension(
            f"headwise.native._{name}",
            [(FOLDER / "native.cpp").as_posix()],
            depends=[*sorted(path.as_posix() for path in FOLDER.glob("*.h")), "setup.py"],
            extra_compile_args=flags,
            language="c++",
            optional=True,
        )
        for name, flags in VARIANTS.items()
    ],
)
