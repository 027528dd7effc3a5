"""Registry of the benchmarked systems: a new one is one file here and one line in `PEERS`.

Each module has a class `System`; it is imported only in the processes that use it.
"""

from __future__ import annotations

import importlib

from benchmarks.systems.peer import Peer
from headwise.errors import ConfigError

PEERS = {
    "headwise": "benchmarks.systems.own",
    "huggingface": "benchmarks.systems.huggingface",
    "ctranslate2": "benchmarks.systems.ctranslate2",
}
OWN = "headwise"


def find_peer(name: str) -> Peer:
    """Return the system `name`; raises `ConfigError` that lists the known ones."""
    if name not in PEERS:
        others = ", ".join(other for other in PEERS if other != OWN)
        raise ConfigError(f"--against: expected systems among {others}, found {name!r}")
    system: Peer = importlib.import_module(PEERS[name]).System()
    return system
