"""The one program `headwise`: it knows its commands by name and imports only the one that is called."""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any

from headwise.cli.streams import ReaderGoneError, standard_streams
from headwise.errors import ConfigError, HeadwiseError

# Name -> (module, one line of help).
COMMANDS = {
    "demo": ("headwise.cli.training.demo", "Learn the built-in miniature corpus in minutes and look inside."),
    "train": ("headwise.cli.training.train", "Turn two text files, or a configuration, into a translator."),
    "translate": ("headwise.cli.inference.translate", "Translate a file or standard input, line by line."),
    "evaluate": ("headwise.cli.inference.evaluate", "Score a run on a test set; compare two runs."),
    "predict": (
        "headwise.cli.inference.predict",
        "Label texts, tag words, answer questions, fill masks, line by line.",
    ),
    "generate": ("headwise.cli.inference.generate", "Let a language model write, token by token."),
    "patches": ("headwise.cli.analysis.patches", "Draw what a model of images looked at."),
    "score": ("headwise.cli.inference.score", "Give the log-probability of translations that exist already."),
    "serve": (
        "headwise.cli.inference.serve",
        "Open a page that shows every head, the beam and each product.",
    ),
    "explain": ("headwise.cli.analysis.explain", "Show what every head attended to in one translation."),
    "heads": ("headwise.cli.analysis.heads", "Measure what each head does, matters, and leaves behind."),
    "align": ("headwise.cli.analysis.align", "Align words by attention; alignment error rate."),
    "attribute": ("headwise.cli.analysis.attribute", "Compare attention with what the model uses."),
    "calibration": (
        "headwise.cli.analysis.calibration",
        "Tell whether token probabilities mean what they say.",
    ),
    "average": ("headwise.cli.training.average", "Average the last checkpoints of a run into its model."),
    "quantize": (
        "headwise.cli.training.quantize",
        "Store a run's model in 8 bits: a quarter of the size, and faster.",
    ),
    "shortlist": (
        "headwise.cli.training.shortlist",
        "Learn which target subwords a source can need; decode faster.",
    ),
    "bench": ("headwise.cli.bench", "Measure speed and memory, against other systems."),
    "data": ("headwise.cli.training.data", "List and download public corpora; generate others."),
    "reproduce": ("headwise.cli.reproduce", "Run the paper's tables, figures and claims again."),
}

INTERRUPTED = 130  # exit code
USAGE = """Usage: headwise COMMAND [OPTIONS]

  Two text files in, a translator out, and every head in it open to view.

  Example: headwise train --source train.en --target train.de -o runs/de

Commands:
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code: 0 fine, 2 the user's mistake, 130 interrupted."""
    warnings.showwarning = _show_warning
    try:
        code = _run(arguments)
        sys.stdout.flush()  # here, where a failure is reported
    except HeadwiseError as error:
        print(f"headwise: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("headwise: interrupted", file=sys.stderr)
        return INTERRUPTED
    except ReaderGoneError:
        return 0
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        print(
            "headwise: error: expected enough memory for what was asked, found too little"
            f" ({_sentence(str(error)) or 'it ran out'}); ask for less: fewer tokens a batch, a smaller beam or model",
            file=sys.stderr,
        )
        return 2
    return code


def _run(arguments: Sequence[str]) -> int:
    """Do what the first argument says; returns the exit code."""
    name, rest = (arguments[0], list(arguments[1:])) if arguments else ("--help", [])
    if name in {"-h", "--help"}:
        print(USAGE + "\n".join(f"  {command:<12} {text}" for command, (_, text) in COMMANDS.items()))
        return 0
    if name == "--version":
        from headwise import __version__

        print(f"headwise {__version__}")
        return 0
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(COMMANDS)}"
        raise ConfigError(f"expected a command, found {name!r} ({hint})")
    return _call(name, rest)


def _call(name: str, arguments: list[str]) -> int:
    """Import one command and call it; its module has `app` (a group) or `command` (a function)."""
    import typer

    # Every usage error; typer carries its own copy of click from 0.27 on and uses the real one before.
    usage_error: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    module = importlib.import_module(COMMANDS[name][0])
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command(name)(module.command)
    try:
        result = typer.main.get_command(app).main(
            args=arguments, prog_name=f"headwise {name}", standalone_mode=False
        )
    except typer.Abort:
        raise KeyboardInterrupt from None
    except usage_error as error:
        raise ConfigError(
            f"{name}: {_sentence(error.format_message())} (see headwise {name} --help)"
        ) from None
    if result == INTERRUPTED:  # the command's own, or typer's for a Ctrl-C
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0


def _is_out_of_memory(error: Exception) -> bool:
    """Tell Python's, NumPy's and torch's ways of saying so from other errors; torch has no type for the CPU's."""
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

    The first Ctrl-C interrupts; another one, while the first is answered, ends the process at once.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the shell has it ignored
        signal.signal(signal.SIGINT, _interrupt)
    with standard_streams():
        code = run(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said; while Python ends, the default would kill it
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
