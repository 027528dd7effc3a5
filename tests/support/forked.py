"""Processes that are forked from one that has imported torch and Headwise, which takes a fresh one seconds each time.

`Popen` is `subprocess.Popen` for `python -m MODULE …` and `python -c CODE …`: a real process with its own id, streams,
session, environment, signals and exit code, whose parent is this one. What it starts in these ways is forked, too. A
fresh process differs: nothing is imported in it yet, and options of Python take effect. Tests of that start one by
`subprocess`; others let what Headwise starts be forked by the fixture `forked`.

The first use starts the *nursery*, a process without threads that imports the modules and forks itself on request. It
forks twice, so that the new process is an orphan, and the kernel gives it to this process, which meanwhile is
the "subreaper" of its descendants (prctl(2)). Elsewhere than on Linux, `Popen` is `subprocess.Popen`.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

_IMPORTED = (
    "torch._dynamo",  # an optimizer's first step imports it
    "torch.distributed.run",
    "headwise.cli.main",
    *(f"headwise.cli.{name}" for name in ("train", "translate", "predict", "evaluate")),
    "headwise.tasks.run",
    "headwise.text.preparation.tasks",
    *("headwise.cli.serve", "headwise.serve.production", "headwise.page.application", "uvicorn"),
)
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_MESSAGE = 1 << 18  # bytes, more than arguments and environment have
_Popen = subprocess.Popen


if sys.platform == "linux":

    class Popen(subprocess.Popen[str]):
        """A process, forked from the nursery if it runs `python -m MODULE …` or `python -c CODE …`."""

        def _execute_child(self, args: Sequence[str], *more: Any) -> None:
            """Send the nursery the command and the child's ends of the pipes, instead of executing a program."""
            if not _program_at(args):
                super()._execute_child(args, *more)  # type: ignore[misc]
                return
            _, _, _, _, cwd, env, _, _, _, *pipes = more
            child, session = [pipes[0], pipes[3], pipes[5]], pipes[11]
            streams = [number if opened == -1 else opened for number, opened in enumerate(child)]
            request = {"args": [*map(str, args)], "cwd": os.fspath(cwd or os.getcwd()), "session": session}
            request["env"] = dict(os.environ if env is None else env)
            self.pid = _nursery().start(request, streams)
            self._child_created = True
            self._close_pipe_fds(*pipes[:6])  # type: ignore[attr-defined] - not those that the caller opened

else:
    Popen = subprocess.Popen


class _Nursery:
    """The process that forks others, from the side of the tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE)
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = _Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        theirs.close()
        atexit.register(self._close)

    def start(self, request: dict[str, Any], streams: Sequence[int]) -> int:
        """Return the id of a new child of this process."""
        _be_subreaper(True)
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], streams)
            answer = self._socket.recv(_MESSAGE)
        finally:
            _be_subreaper(False)  # other orphans are init's, which waits for them
        assert answer, "the process that forks others has ended"
        return int(answer)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()


def _be_subreaper(on: bool) -> None:
    ctypes.CDLL(None).prctl(_SUBREAPER, int(on), 0, 0, 0)


_nursery = functools.cache(_Nursery)


# ------------------------------------------------------------------------------------------------- in the nursery


class _Forking(subprocess.Popen[Any]):
    """`subprocess.Popen` that forks this process for a Python program."""

    def __init__(self, args: Any, *positional: Any, **options: Any) -> None:
        if _program_at(args) and not options.get("pass_fds"):
            options["preexec_fn"] = functools.partial(_become, args, options.get("env"))
        super().__init__(args, *positional, **options)


def _program_at(args: Any) -> int:
    """Return where a Python command has its -m or -c, after options that a forked process can do without; else 0."""
    if isinstance(args, (list, tuple)) and args and args[0] == sys.executable:
        at = next((at for at in range(1, len(args)) if args[at] not in ("-P", "-u")), 0)
        return at if args[at] in ("-m", "-c") else 0
    return 0


def _become(args: Sequence[str], env: Mapping[str, str] | None) -> NoReturn:
    """Be the program of a command from now on, in a process just forked: as `exec` would, then as Python does."""
    gc.freeze()  # objects of the parent that have a file would close another's of the same number
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the last one tells the parent that the program runs
    atexit._clear()
    _reset_signals()
    if env is not None:
        os.environ.clear()
        os.environ.update(env)
    at = _program_at(args)
    sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in sys.path]
    option, program, *arguments = map(str, args[at:])
    sys.argv = ["-c" if option == "-c" else program, *arguments]
    sys.orig_argv = [str(argument) for argument in args]
    through = "-u" in args[:at]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a number, for good
    sys.stdout, sys.stderr = (
        open(number, "w", encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        for number, errors in ((1, "strict"), (2, "backslashreplace"))
    )
    sys.stdout.reconfigure(line_buffering=os.isatty(1), write_through=through)  # type: ignore[union-attr]
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    code = 0
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")  # it is imported already
            if option == "-c":
                exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
            else:
                runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    os._exit(code)


def _reset_signals() -> None:
    """Forget handlers, but not what is ignored; then handle as Python does at its start."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _serve(requests: socket.socket) -> None:
    """Start a process for every request, until the tests end."""
    for name in _IMPORTED:
        importlib.import_module(name)
    subprocess.Popen = _Forking  # type: ignore[misc]
    while True:
        message, streams, _, _ = socket.recv_fds(requests, _MESSAGE, 3)
        if not message:
            return
        read, write = os.pipe()
        between = os.fork()
        if not between:
            _start(json.loads(message), streams, write)
        os.close(write)
        with os.fdopen(read) as answer:
            pid = answer.read()
        os.waitpid(between, 0)  # from now on, the new process is the tests'
        for number in streams:
            os.close(number)
        requests.send(pid.encode())


def _start(request: dict[str, Any], streams: Sequence[int], answer: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in background processes
    process = _Forking(
        request["args"],
        **dict(zip(("stdin", "stdout", "stderr"), streams, strict=True)),
        cwd=request["cwd"],
        env=request["env"],
        start_new_session=request["session"],
    )
    os.write(answer, str(process.pid).encode())
    os._exit(0)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
