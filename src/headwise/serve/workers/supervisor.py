"""The parent of several serving processes: it loads the models, and starts, replaces and ends the workers.

    load, gc.freeze ──► fork N workers ──► wait ──► a worker has ended: fork another one
                              ▲              └────► a run has changed: load it, fork N workers, let the old ones end
                              └─────────────────────────────────┘

The parent computes nothing else and starts no threads, so that a fork has a whole copy of it. Pages of memory that
nobody writes to, which models are, exist once for all processes.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from headwise.engine.loading import device_kind
from headwise.errors import ConfigError, HeadwiseError
from headwise.processes import processors
from headwise.serve.shared import Shared
from headwise.serve.translation.limits import ServiceLimits
from headwise.serve.workers.worker import Served, use_threads, work
from headwise.text.reading.detection import preload
from headwise.web.hangup import at_hangup
from headwise.web.reloading import SECONDS, Reloader
from headwise.web.run_directories import RunDirectory

PLACES = 8  # workers at once for each that serves: older ones may still have a document to translate
_WAIT = 0.5  # seconds, at most, until something is looked at again
_LONGEST_PAUSE = 30.0  # seconds before a worker is started, where they keep ending
_SETTLED = 10.0  # seconds after which a worker's end isn't because of its start
_MORE_TO_END = 10.0  # seconds that workers have to end besides those for requests in progress
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def prepare_parent(workers: int, device: str) -> int:
    """Keep this process without threads, before it loads models; return the number of threads for each worker.

    Raises `ConfigError` where processes can't be forked after that: without os.fork, and with models on a GPU.
    """
    if not hasattr(os, "fork"):
        raise ConfigError("--workers: expected 1 on this system, which can't fork processes, found more")
    if (kind := device_kind(device)) != "cpu":
        raise ConfigError(
            f"--workers: expected 1 for models on {kind}, which processes can't share after a fork, found {workers}; "
            f"--device cpu uses the processors"
        )
    use_threads(1)
    return max(1, processors() // workers)


def supervise(served: Served, workers: int, say: Callable[[str], None], limits: ServiceLimits) -> None:
    """Serve with several workers until SIGTERM or Ctrl-C, saying what becomes of them; raises as `Supervisor.run`."""
    preload()
    shared = Shared.create(PLACES * workers)
    try:
        Supervisor(served, shared, workers, say, limits.seconds_to_finish).run()
    finally:
        shared.remove()


@dataclass
class _Worker:
    """A worker.

    Attributes:
        pid: its process.
        place: its place among what is shared.
        generation: how often runs had changed when it was forked.
        channel: the connection with it; closing it lets it end.
        began: monotonic time of its start.
        ready: whether it takes requests.
        leaving: whether it takes none any more.
    """

    pid: int
    place: int
    generation: int
    channel: socket.socket
    began: float
    ready: bool = False
    leaving: bool = False


class Supervisor:
    """Starts workers and keeps their number."""

    def __init__(self, served: Served, shared: Shared, count: int, say: Callable[[str], None], finish: float) -> None:
        """Serve with `count` workers; `shared` has `PLACES` times as many places, `finish` is as for a server."""
        self._served, self._shared, self._count, self._say, self._finish = served, shared, count, say, finish
        self._reloader = Reloader(served.runs, say)
        self._workers: list[_Worker] = []
        self._generation = 0
        self._has_served = False  # whether a worker has ever been ready
        self._reloaded: list[RunDirectory] = []  # since the last time that all workers were ready
        self._pause, self._next_start = 0.0, 0.0
        self._received: list[int] = []  # signals to end
        self._asked = False  # by SIGHUP, to load all runs
        self._waker, self._woken = socket.socketpair()

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C; raises `KeyboardInterrupt` for Ctrl-C when all workers have ended.

        Raises `HeadwiseError` where the first workers end before one of them is ready.
        """
        with self._handling_signals():
            try:
                self._share_memory(self._served.runs.values())
                next_look = time.monotonic() + SECONDS
                while not self._received:
                    self._start_missing()
                    self._wait()
                    self._collect_ended()
                    self._renew()
                    if self._asked or time.monotonic() >= next_look:
                        self._look()
                        next_look = time.monotonic() + SECONDS
            finally:
                self._end()
        if self._received and self._received[0] == signal.SIGINT:
            raise KeyboardInterrupt

    # ---------------------------------------------------------------------------------------------------- workers

    def _share_memory(self, runs: Iterable[RunDirectory]) -> None:
        """Prepare the models of runs so that workers need no copies of their own."""
        for run in runs:
            run.share()
        gc.collect()
        gc.freeze()  # else a collection in a worker would write to the pages of all objects

    def _start_missing(self) -> None:
        current = [worker for worker in self._workers if worker.generation == self._generation]
        taken = {worker.place for worker in self._workers}
        free = [place for place in range(PLACES * self._count) if place not in taken]
        if time.monotonic() < self._next_start:
            return
        for place in free[: self._count - len(current)]:
            try:
                self._workers.append(self._fork(place))
            except OSError as error:  # there are too many processes, or no memory
                if not (self._workers or self._has_served):
                    raise HeadwiseError(f"serve: no worker could be started ({error.strerror})") from None
                self._say(f"a worker couldn't be started ({error.strerror}); it is tried again")
                self._lengthen_pause()
                self._next_start = time.monotonic() + self._pause
                return

    def _fork(self, place: int) -> _Worker:
        assert threading.active_count() == 1  # a fork would lack the others, and keep their locks
        ours, theirs = socket.socketpair()
        # A signal between the fork and the worker's own handlers would be lost.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid == 0:
                self._become_worker(place, theirs, ours, before)
        except OSError:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        ours.setblocking(False)
        return _Worker(pid, place, self._generation, ours, time.monotonic())

    def _become_worker(
        self, place: int, parent: socket.socket, other_end: socket.socket, mask: Collection[int]
    ) -> None:
        """Work in the forked process, and end it without the parent's cleaning up."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for each in (*_SIGNALS, signal.SIGCHLD):
                signal.signal(each, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal sends it to all; the parent acts on it
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for opened in (other_end, self._waker, self._woken, *(one.channel for one in self._workers)):
                opened.close()
            process = os.getppid()
            shared = self._shared.at(place)
            work(self._served, shared, parent)
            if os.getppid() != process:  # nobody else will
                shared.remove_as_last()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _collect_ended(self) -> None:
        """Forget the workers that have ended, and say which ended by themselves."""
        for worker in list(self._workers):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            self._workers.remove(worker)
            worker.channel.close()
            self._shared.forget(worker.place)
            if worker.leaving or self._received:
                continue
            how = _how(status)
            if not self._has_served:
                raise HeadwiseError(f"serve: a worker {how} before it took requests")
            now = time.monotonic()
            self._next_start = now + self._pause
            if now - worker.began < _SETTLED:
                self._lengthen_pause()
            else:
                self._pause = 0.0
            self._say(f"worker {pid} {how}; another one takes its place")

    def _lengthen_pause(self) -> None:
        self._pause = min(max(1.0, 2 * self._pause), _LONGEST_PAUSE)

    # ------------------------------------------------------------------------------------------------ changed runs

    def _look(self) -> None:
        """Load the runs that have changed, or after SIGHUP all of them, for new workers."""
        all_runs, self._asked = self._asked, False
        changed = self._reloader.changed(all_runs=all_runs)
        if not changed:
            return
        gc.unfreeze()
        reloaded = [run for run in changed if self._reloader.reload(run)]
        self._share_memory(reloaded)
        if reloaded:
            self._reloaded += reloaded
            self._generation += 1

    def _renew(self) -> None:
        """Let the workers of former generations end when all of the current one are ready."""
        ready = [one for one in self._workers if one.ready and one.generation == self._generation]
        if len(ready) < self._count:
            return
        for worker in self._workers:
            if worker.generation < self._generation and not worker.leaving:
                worker.leaving = True
                worker.channel.close()
        for run in self._reloaded:
            self._reloader.announce(run)
        self._reloaded = []

    # ------------------------------------------------------------------------------------------ signals and the end

    def _wait(self) -> None:
        """Wait for a signal, for a worker that becomes ready or ends, or for a while."""
        channels = {one.channel: one for one in self._workers if not one.leaving}
        for found in select.select([self._woken, *channels], [], [], _WAIT)[0]:
            with suppress(BlockingIOError, ConnectionResetError):
                got = found.recv(1024)
                if got and found in channels:
                    channels[found].ready = self._has_served = True

    def _end(self) -> None:
        """Tell all workers to end, wait for them, and kill those that don't or, after a second signal, all."""
        self._served.listener.close()
        received = len(self._received)
        for worker in self._workers:
            os.kill(worker.pid, signal.SIGTERM)
            worker.leaving = True
        end = time.monotonic() + self._finish + _MORE_TO_END
        killed = False
        while self._workers:
            if not killed and (len(self._received) > max(1, received) or time.monotonic() > end):
                killed = True
                for worker in self._workers:
                    os.kill(worker.pid, signal.SIGKILL)
            self._wait()
            self._collect_ended()

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        """Context manager that notes signals to end, and wakes `_wait` for them and for workers that end."""
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        hangup = at_hangup(self._ask)
        handlers = dict.fromkeys(_SIGNALS, lambda number, frame: self._received.append(number)) | {
            signal.SIGCHLD: lambda number, frame: None,
            signal.SIGHUP: lambda number, frame: hangup(),
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        waker = signal.set_wakeup_fd(self._waker.fileno())
        try:
            yield
        finally:
            signal.set_wakeup_fd(waker)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._waker.close()
            self._woken.close()

    def _ask(self) -> None:
        self._asked = True


def _how(status: int) -> str:
    """Return how a process has ended, as a verb."""
    code = os.waitstatus_to_exitcode(status)
    return f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
