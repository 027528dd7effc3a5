"""The program `headwise`: it looks its subcommands up by name and imports only the one that is called."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any

from headwise.cli.streams import ReaderGoneError, standard_streams
from headwise.errors import ConfigError, HeadwiseError, suggestion
from headwise.extras import missing_package, not_installed

# Group -> subcommand -> (module, one line of help).
GROUPS = {
    "Make": {
        "demo": ("headwise.cli.demo", "Learn the built-in miniature corpus in minutes and look inside."),
        "train": ("headwise.cli.train", "Turn two text files, or a configuration, into a translator."),
        "data": ("headwise.cli.data", "List and download public corpora; prepare large ones."),
    },
    "Use": {
        "translate": ("headwise.cli.translate", "Translate a file or standard input, line by line."),
        "predict": ("headwise.cli.predict", "Label, tag, answer, fill masks, or write text, line by line."),
        "evaluate": ("headwise.cli.evaluate", "Score a run, or given translations; compare runs."),
        "serve": ("headwise.cli.serve", "Open a page that shows every head, and translate for programs."),
        "keys": ("headwise.cli.keys", "Make and remove the API keys of `headwise serve`."),
    },
    "Look": {
        "explain": ("headwise.cli.explain", "Show what every head attended to in a sentence or an image."),
        "analyze": ("headwise.cli.analyze", "Measure heads, alignments, attributions and calibration."),
        "learn": ("headwise.cli.learn", "Open the way through the paper, beside a live model."),
        "reproduce": ("headwise.cli.reproduce", "Run the paper's tables and claims again, or show them."),
    },
    "Exchange": {
        "import": ("headwise.cli.import_", "Make a run directory of another toolkit's model."),
        "export": ("headwise.cli.export", "Write a run's model for another toolkit, or smaller."),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}

# Command of earlier versions -> what serves instead.
GONE = {
    "generate": "headwise predict RUN --prompt TEXT",
    "score": "headwise evaluate RUN --source FILE --reference FILE --per-line",
    "patches": "headwise explain RUN --image FILE -o FILE.png, or --row N for a held-out image",
    "paper": "headwise reproduce table2 --show",
    "quantize": "headwise export RUN --to run --precision int8 -o DIR",
    "average": "headwise export RUN --to run --average N -o DIR",
    "shortlist": "headwise export RUN --to run --shortlist -o DIR",
    "heads": "headwise analyze heads",
    "align": "headwise analyze align",
    "attribute": "headwise analyze attribute",
    "calibration": "headwise analyze calibration",
    "bench": "python -m benchmarks in a clone of the repository, or headwise reproduce complexity",
    "distill": "headwise translate with the teacher, then headwise train, as examples/distill.sh does",
    "back-translate": "headwise translate, then headwise train, as examples/back_translate.sh does",
    "data generate": "headwise data get NAME",
}

INTERRUPTED = 130  # exit code after Ctrl-C
USAGE = """Usage: headwise COMMAND [OPTIONS]

  Two text files in, a translator out, and every head in it open to view.

  Example: headwise train --source train.en --target train.de -o runs/de
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code: 0 success, 2 a user's error, 130 interrupted."""
    warnings.showwarning = _show_warning
    # Pydantic's plug-ins are looked for in all installed packages, which takes as long as reading a configuration.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        code = _run(arguments)
        sys.stdout.flush()  # inside the try block, which reports a failure
    except HeadwiseError as error:
        return _refused(error)
    except KeyboardInterrupt:
        print("headwise: interrupted", file=sys.stderr)
        return INTERRUPTED
    except ReaderGoneError:
        return 0
    except ModuleNotFoundError as error:
        if (package := missing_package(error)) is None:
            raise
        return _refused(not_installed(arguments[0], package))
    except OSError as error:  # of a look at a path before it is read or written
        if error.filename is None or not (isinstance(error, PermissionError) or error.errno == errno.ENAMETOOLONG):
            raise
        return _refused(f"{error.filename}: can't be used ({error.strerror})")
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        return _refused(
            "expected enough memory for what was asked, found too little"
            f" ({_sentence(str(error)) or 'it ran out'}); ask for less: fewer tokens a batch, a smaller beam or model"
        )
    return code


def _refused(problem: object) -> int:
    """Print an error of the user's, and return its exit code."""
    print(f"headwise: error: {problem}", file=sys.stderr)
    return 2


def _run(arguments: Sequence[str]) -> int:
    """Run the subcommand or option that the first argument names; return the exit code."""
    name, rest = (arguments[0], list(arguments[1:])) if arguments else ("--help", [])
    if name in {"-h", "--help"}:
        print(USAGE, end="")
        for group, commands in GROUPS.items():
            print(f"\n{group}:")
            for command, (_, text) in commands.items():
                print(f"  {command:<11} {text}")
        return 0
    if name == "--version":
        from headwise import __version__

        print(f"headwise {__version__}")
        return 0
    if name not in COMMANDS:
        _refuse_gone(name)
        raise ConfigError(f"expected a command, found {name!r} {suggestion(name, COMMANDS)}")
    return _call(name, rest)


def _refuse_gone(name: str) -> None:
    """Raise `ConfigError` for a command of an earlier version, with what serves instead."""
    if name in GONE:
        raise ConfigError(f"{name}: expected a command, found one of an earlier version; now it is {GONE[name]}")


def _call(name: str, arguments: list[str]) -> int:
    """Import a subcommand's module and call its `app` (a group) or `command` (a function); return the exit code."""
    import typer

    # The base class of all usage errors: from 0.27 on typer has its own copy of click, before it uses the package.
    usage_error: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    module = importlib.import_module(COMMANDS[name][0])
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command(name)(module.command)
    try:
        result = typer.main.get_command(app).main(args=arguments, prog_name=f"headwise {name}", standalone_mode=False)
    except typer.Abort as abort:
        if isinstance(abort.__cause__, EOFError):  # typer takes one from anywhere for the end of what is typed
            raise abort.__cause__ from None
        raise KeyboardInterrupt from None
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return 2
        if type(error).__name__ == "UsageError" and arguments:
            _refuse_gone(f"{name} {arguments[0]}")
        raise ConfigError(f"{name}: {_sentence(error.format_message())} (see headwise {name} --help)") from None
    if result == INTERRUPTED:  # from the command itself, or from typer after Ctrl-C
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0


def _is_out_of_memory(error: Exception) -> bool:
    """Whether an error of Python, NumPy or PyTorch means that memory ran out; PyTorch has no type for it on the CPU."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "DefaultCPUAllocator" in str(error)
    )


def _sentence(message: str) -> str:
    message = " ".join(message.split()).rstrip(".")
    return message[:1].lower() + message[1:]


def main() -> None:
    """Entry point of the installed command.

    The first Ctrl-C interrupts the command; another one during its cleanup ends the process at once.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if the shell ignores the signal
        signal.signal(signal.SIGINT, _interrupt)
    with standard_streams():
        code = run(sys.argv[1:])
    # The work is done; a Ctrl-C during Python's exit would kill it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # Python's exit would search PyTorch's objects for cycles several times, for half a second
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    raise KeyboardInterrupt


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: Any = None,
) -> None:
    print(f"headwise: warning: {message}", file=sys.stderr)
