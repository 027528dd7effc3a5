"""Where the tasks of a preparation run: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headwise.text.reading.compression import extra_module


@contextmanager
def ray_cluster() -> Iterator[Any]:
    """Connect to the Ray cluster that `RAY_ADDRESS` names, or start one on this machine; yields the module `ray`.

    A connection that exists already is used and kept. Raises `ConfigError` if Ray isn't installed.
    """
    ray: Any = extra_module("ray", "ray", "--engine ray")
    if ray.is_initialized():
        yield ray
        return
    ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    try:
        yield ray
    finally:
        ray.shutdown()
