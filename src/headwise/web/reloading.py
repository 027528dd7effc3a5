"""Changed run directories: the server looks at their files from time to time, and uses a new model without a pause.

A run that is still in training is taken up in the same way, with its best checkpoint so far. Requests that have
begun are finished by the model that they began with. `SIGHUP` loads all runs anew at once.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from headwise.errors import HeadwiseError
from headwise.web.run_directories import MODEL, RunDirectory

SECONDS = 2.0  # between two looks


def settle() -> None:
    """Leave all objects that exist now out of later garbage collections, each of which would stop all requests.

    Going through what PyTorch and the models need takes a third of a second. What an earlier call left out is collected
    first, as a model that was replaced may be among it. The C library, if it is glibc, returns freed memory to the
    system, which it would else keep in parts for each thread that has loaded a model.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


class Reloader:
    """Looks at the runs' files, and loads a run whose files have changed and then stayed the same for a while."""

    def __init__(
        self,
        runs: Mapping[str, RunDirectory],
        say: Callable[[str], None],
        renewed: Callable[[RunDirectory], None] = lambda run: None,
    ) -> None:
        """`look` calls `renewed` in the event loop when a run has a new model; `say` gets a sentence about it."""
        self._runs, self._renewed, self._say = runs, renewed, say
        self._loaded = {name: run.loaded_from for name, run in runs.items()}
        self._seen = dict(self._loaded)
        self._same: set[str] = set()  # the runs that were loaded again without a change
        self._asked = asyncio.Event()

    async def watch(self) -> None:
        """Look every few seconds, and when `look_now` is called, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    await self._asked.wait()
            asked = self._asked.is_set()
            self._asked.clear()
            await self.look(all_runs=asked)

    def look_now(self) -> None:
        """Let `watch` load all runs at once, whether they have changed or not; called in the event loop."""
        self._asked.set()

    async def look(self, *, all_runs: bool = False) -> None:
        """Load the runs that have changed, or all of them, in another thread."""
        for run in self.changed(all_runs=all_runs):
            if await asyncio.to_thread(self.reload, run):
                self._renewed(run)
                self.announce(run)
                if gc.get_freeze_count():
                    await asyncio.to_thread(settle)

    def changed(self, *, all_runs: bool = False) -> list[RunDirectory]:
        """Return the runs that have changed, and have not changed any more since the last look; or all with a model."""
        found: list[RunDirectory] = []
        for name, run in self._runs.items():
            now = run.stamps()
            settled, self._seen[name] = now == self._seen[name], now
            due = all_runs or (settled and now != self._loaded[name])
            if due and now[MODEL] is not None:
                (self._same.add if now == self._loaded[name] else self._same.discard)(name)
                self._loaded[name] = now  # so that a damaged run is reported once
                found.append(run)
        return found

    def reload(self, run: RunDirectory) -> bool:
        """Load a run anew; where it can't be loaded, say why and return False."""
        try:
            run.reload()
        # PyTorch's lack of memory is a RuntimeError.
        except (HeadwiseError, MemoryError, OSError, RuntimeError) as error:
            reason = str(error) or type(error).__name__
            self._say(
                f"{run.path}: has changed, and the model from before is still used, because of an error: {reason}"
            )
            return False
        return True

    def announce(self, run: RunDirectory) -> None:
        """Say that a run's new model is used."""
        self._say(f"{run.path}: {'' if run.name in self._same else 'has changed, and '}was loaded again")
