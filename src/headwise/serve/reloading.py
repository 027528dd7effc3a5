"""Changed run directories: the server looks at their files from time to time, and uses a new model without a pause.

A run that was still in training is taken up in the same way, once it has a model. Requests that have begun are finished
by the model that they began with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from headwise.errors import HeadwiseError
from headwise.serve.runs import Run
from headwise.text.tokens import numbering, subwords

_SECONDS = 2.0  # between two looks
_MODEL = "model.safetensors"
_FILES = (
    _MODEL,
    "config.yaml",
    numbering.FILE,
    subwords.JOINT_FILE,
    subwords.SOURCE_FILE,
    subwords.TARGET_FILE,
)

# For each file its time, size and number, which differ after it was replaced; None for one that isn't there.
Stamps = dict[str, tuple[int, int, int] | None]


class Reloader:
    """Looks at the runs' files, and loads a run whose files have changed and then stayed the same for a while."""

    def __init__(
        self, runs: Mapping[str, Run], renewed: Callable[[Run], None], say: Callable[[str], None]
    ) -> None:
        """`renewed` is called in the event loop when a run has a new model; `say` gets a sentence about it."""
        self._runs, self._renewed, self._say = runs, renewed, say
        self._loaded = {name: _stamps(run) for name, run in runs.items()}
        self._seen = dict(self._loaded)

    async def watch(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Load the runs that have changed, and have not changed any more since the last look."""
        for name, run in self._runs.items():
            now = _stamps(run)
            settled, self._seen[name] = now == self._seen[name], now
            if not settled or now == self._loaded[name] or now[_MODEL] is None:
                continue
            self._loaded[name] = now  # so that a damaged run is reported once
            try:
                await asyncio.to_thread(run.reload)
                self._renewed(run)
            except HeadwiseError as error:
                self._say(
                    f"{run.path}: has changed, and the model from before is still used, because of an error: {error}"
                )
            else:
                self._say(f"{run.path}: has changed, and was loaded again")


def _stamps(run: Run) -> Stamps:
    found: Stamps = {}
    for name in _FILES:
        try:
            status = (run.path / name).stat()
        except OSError:
            found[name] = None
        else:
            found[name] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found
