"""The native library frees all memory that it allocates; checked with LeakSanitizer, only in `make test-sanitized`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwise.native import library

DRIVER = Path(__file__).with_name("leak_driver.py")


@pytest.mark.skipif("libasan" not in os.environ.get("LD_PRELOAD", ""), reason="needs `make test-sanitized`")
@pytest.mark.parametrize("what", ["nothing", "engine"])
def test_nothing_of_the_library_is_left(tmp_path: Path, what: str) -> None:
    # Symbolizing frames takes minutes, and the library's file name is enough. With malloc, LeakSanitizer sees that
    # Python's own blocks are in use.
    options = f"detect_leaks=1:symbolize=0:malloc_context_size=8:exitcode=0:log_path={tmp_path}/report"
    settings = {
        "ASAN_OPTIONS": options,
        "PYTHONPATH": str(DRIVER.parents[1] / "support"),
        "PYTHONMALLOC": "malloc",
    }
    command = [sys.executable, str(DRIVER), str(library.FOLDER), what]
    subprocess.run(command, check=True, env={**os.environ, **settings}, timeout=600)
    reports = "".join(path.read_text() for path in tmp_path.glob("report.*"))
    assert "LeakSanitizer" in reports
    assert (f"{library.FOLDER}/_" in reports) == (what == "engine")
