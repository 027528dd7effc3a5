"""Install Headwise into the environment that runs this, at the versions of constraints.txt: what `make` calls.

On Linux, PyPI's PyTorch comes with gigabytes of CUDA libraries. Where there is no NVIDIA driver, PyTorch's own index of
CPU builds is asked first, for PyTorch alone, and PyPI where that index can't be reached.

Example: python tools/install.py '.[train,serve]'
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Sequence
from pathlib import Path

CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
DRIVERS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")  # the last one is WSL's
PATIENCE = 3  # seconds, for names that aren't resolved, too
PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt")


def main(requirements: Sequence[str]) -> int:
    """Install what the requirements name; return the exit code of pip."""
    if sys.platform == "linux" and not any(Path(driver).exists() for driver in DRIVERS) and _reachable():
        only = ("--no-deps", "--retries", "1", "--index-url", CPU_BUILDS)
        if subprocess.run([*PIP, *only, "torch"], check=False).returncode:
            print(f"{CPU_BUILDS} has no PyTorch for this machine; PyPI is asked", file=sys.stderr)
    return subprocess.run([*PIP, *requirements], check=False).returncode


def _reachable() -> bool:
    """Whether the index of CPU builds answers in time; proxies of the environment are used, as pip does."""
    answered = threading.Event()

    def ask() -> None:
        try:
            request = urllib.request.Request(f"{CPU_BUILDS}/torch/", method="HEAD")
            with urllib.request.urlopen(request, timeout=PATIENCE):
                answered.set()
        except (OSError, http.client.HTTPException):
            pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return answered.is_set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
