"""Where the tasks of a preparation run: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headwise.processes import child_environment
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
    variables = {"PYTHONPATH": child_environment()["PYTHONPATH"]}
    ray.init(
        log_to_driver=False,
        logging_level=logging.ERROR,
        include_dashboard=False,
        runtime_env={"env_vars": variables},
    )
    try:
        yield ray
    finally:
        ray.shutdown()
