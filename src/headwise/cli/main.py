"""The program `headwise`: it looks its subcommands up by name and imports only the one that is called."""

from __future__ import annotations

import difflib
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
from headwise.errors import ConfigError, HeadwiseError

# Subcommand -> (module, one line of help).
COMMANDS = {
    "demo": ("headwise.cli.demo", "Learn the built-in miniature corpus in minutes and look inside."),
    "train": ("headwise.cli.train", "Turn two text files, or a configuration, into a translator."),
    "translate": ("headwise.cli.translate", "Translate a file or standard input, line by line."),
    "evaluate": ("headwise.cli.evaluate", "Score a run on a test set; compare two runs."),
    "predict": (
        "headwise.cli.predict",
        "Label texts, tag words, answer questions, fill masks, line by line.",
    ),
    "generate": ("headwise.cli.generate", "Generate text with a language model, token by token."),
    "patches": ("headwise.cli.patches", "Draw a vision model's attention over the image's patches."),
    "score": ("headwise.cli.score", "Give the log-probability of given translations."),
    "serve": (
        "headwise.cli.serve",
        "Open a page that shows every head, and translate for other programs.",
    ),
    "learn": ("headwise.cli.learn", "Open the way through the paper, beside a live model."),
    "keys": ("headwise.cli.keys", "Make and remove the API keys of `headwise serve`."),
    "explain": ("headwise.cli.explain", "Show what every head attended to in one translation."),
    "heads": (
        "headwise.cli.heads",
        "Measure what each head does and how much it matters; prune heads.",
    ),
    "align": ("headwise.cli.align", "Align words by attention; alignment error rate."),
    "attribute": ("headwise.cli.attribute", "Compare attention with attributions of the output."),
    "calibration": (
        "headwise.cli.calibration",
        "Measure how well token probabilities are calibrated.",
    ),
    "average": ("headwise.cli.average", "Average the last checkpoints of a run into its model."),
    "quantize": (
        "headwise.cli.quantize",
        "Store a run's model in 8 bits: a quarter of the size, and faster.",
    ),
    "shortlist": (
        "headwise.cli.shortlist",
        "Learn which target subwords a source can need; decode faster.",
    ),
    "import": ("headwise.cli.import_", "Make a run directory of another toolkit's model."),
    "export": ("headwise.cli.export", "Write a run's model for another toolkit."),
    "data": ("headwise.cli.data", "List and download public corpora; generate others."),
    "paper": ("headwise.cli.paper", "Print the paper's own tables, and Headwise's beside them."),
    "reproduce": ("headwise.cli.reproduce", "Run the paper's tables, figures and claims again."),
}

INTERRUPTED = 130  # exit code after Ctrl-C
USAGE = """Usage: headwise COMMAND [OPTIONS]

  Two text files in, a translator out, and every head in it open to view.

  Example: headwise train --source train.en --target train.de -o runs/de

Commands:
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code: 0 success, 2 a user's error, 130 interrupted."""
    warnings.showwarning = _show_warning
    try:
        code = _run(arguments)
        sys.stdout.flush()  # inside the try block, which reports a failure
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
    """Run the subcommand or option that the first argument names; return the exit code."""
    name, rest = (arguments[0], list(arguments[1:])) if arguments else ("--help", [])
    if name in {"-h", "--help"}:
        print(USAGE + "\n".join(f"  {command:<14} {text}" for command, (_, text) in COMMANDS.items()))
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
        result = typer.main.get_command(app).main(
            args=arguments, prog_name=f"headwise {name}", standalone_mode=False
        )
    except typer.Abort:
        raise KeyboardInterrupt from None
    except usage_error as error:
        raise ConfigError(
            f"{name}: {_sentence(error.format_message())} (see headwise {name} --help)"
        ) from None
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
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the work is done; a Ctrl-C during Python's exit would kill it
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
