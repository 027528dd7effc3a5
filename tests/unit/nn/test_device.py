"""Choice of device and precision."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headwise.errors import ConfigError, DeviceError
from headwise.nn import device as devices
from headwise.nn.device import find_device, find_precision, has_fast_bfloat16
from paths import ROOT

CPU = torch.device("cpu")


def test_a_gpu_that_is_not_there_is_named_with_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="expected auto or one of cpu on this machine, found 'cuda'"):
        find_device("cuda")
    assert find_device("cpu") == find_device("auto") == CPU


def test_auto_is_the_first_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("auto").type == "cuda"
    assert find_device("cuda:1") == torch.device("cuda:1")
    assert find_device("cpu") == CPU
    with pytest.raises(DeviceError, match=r"cpu, cuda, cuda:0, cuda:1.*found 'cuda:2'"):
        find_device("cuda:2")


@pytest.mark.parametrize(("fast", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_auto_precision_is_bfloat16_where_it_is_fast(
    fast: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "has_fast_bfloat16", lambda device: fast)
    assert find_precision("auto", CPU) == find_precision("auto", CPU, 1024 * 128) == dtype
    assert find_precision("auto", CPU, 1024 * 64) == torch.float32
    assert find_precision("auto", torch.device("cuda"), 1024 * 64) == dtype
    assert find_precision("float32", CPU) == torch.float32
    assert find_precision("bfloat16", CPU) == torch.bfloat16


def test_an_unknown_precision_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="expected auto, float32 or bfloat16, found 'int4'"):
        find_precision("int4", CPU)


def test_the_processor_says_what_it_multiplies() -> None:
    cpuinfo = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not cpuinfo.exists():
        pytest.skip("the flags of the processor are read from Linux's /proc/cpuinfo on x86-64")
    flags = cpuinfo.read_text().split()
    fast = "avx512_bf16" in flags or "amx_tile" in flags
    assert has_fast_bfloat16(CPU) == (fast and "ATEN_CPU_CAPABILITY" not in os.environ)


@pytest.mark.parametrize(("capability", "variants"), [("avx2", {"avx2"}), ("default", {"portable"})])
def test_a_processor_acts_as_an_older_one_in_every_part(capability: str, variants: set[str]) -> None:
    code = (
        "from headwise.native.library import find_library\n"
        "from headwise.nn.device import find_device, find_precision\n"
        "print(find_precision('auto', find_device('cpu')), getattr(find_library(), 'variant', None))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ATEN_CPU_CAPABILITY": capability},
        check=True,
        capture_output=True,
        text=True,
    )
    precision, variant = done.stdout.split()
    assert precision == "torch.float32"
    assert variant in variants | {
        "portable",
        "None",
    }  # where one was not compiled, or the processor is older still


@pytest.mark.skipif(not has_fast_bfloat16(CPU), reason="products in bfloat16 aren't oneDNN's here")
def test_onednn_compiles_no_product_of_a_training_twice() -> None:
    code = """
import torch
from headwise.nn.device import keep_compiled_products
keep_compiled_products()
matrix = torch.ones(32, 32, dtype=torch.bfloat16)
for _ in range(2):
    for rows in range(64, 1264):
        torch.ones(rows, 32, dtype=torch.bfloat16) @ matrix
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ONEDNN_VERBOSE": "profile_create"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.count(",create:cache_miss,") == 1200
    assert done.stdout.count(",create:cache_hit,") >= 1200


def test_a_device_of_another_kind_is_taken_for_slow() -> None:
    assert not has_fast_bfloat16(torch.device("meta"))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give memory back as they like")
def test_freed_memory_is_kept_until_it_is_given_back() -> None:
    code = """
from benchmarks.systems.worker import resident
from headwise.nn.device import give_back_freed_memory, keep_freed_memory
import torch
assert keep_freed_memory()
before = resident()
parts = [torch.ones(2**20) for _ in range(32)]  # 128 MiB in pieces below the largest that is kept
del parts
assert resident() - before > 100 * 2**20
give_back_freed_memory()
assert resident() - before < 30 * 2**20
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
