"""The one program `headwise`: it knows its commands by name and imports only the one that is called."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from headwise.errors import HeadwiseError

# Name -> (module, one line of help). A module has `app` (a group) or `command` (a function).
COMMANDS = {
    "demo": ("headwise.cli.demo", "Learn the built-in miniature corpus in two minutes and look inside."),
    "train": ("headwise.cli.train", "Turn two text files, or a configuration, into a translator."),
    "translate": ("headwise.cli.translate", "Translate a file or standard input, line by line."),
    "evaluate": ("headwise.cli.evaluate", "Score a run on a test set; compare two runs."),
    "score": ("headwise.cli.score", "Give the log-probability of translations that exist already."),
    "average": ("headwise.cli.average", "Average the last checkpoints of a run into its model."),
    "data": ("headwise.cli.data", "List and download public corpora, or prepare your own."),
}


class _Program(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        import typer

        module = importlib.import_module(COMMANDS[cmd_name][0])
        if hasattr(module, "app"):
            return typer.main.get_command(module.app)
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        settings: dict[str, Any] = getattr(module, "CONTEXT_SETTINGS", {})
        app.command(cmd_name, context_settings=settings)(module.command)
        return typer.main.get_command(app)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headwise", message="headwise %(version)s")
def program() -> None:
    """Two text files in, a translator out, and every head in it open to view.

    Example: headwise train --source train.en --target train.de -o runs/de
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 fine, 2 the user's mistake, 130 interrupted."""
    warnings.showwarning = _show_warning
    try:
        result = program.main(
            args=None if arguments is None else list(arguments), prog_name="headwise", standalone_mode=False
        )
    except HeadwiseError as error:
        print(f"headwise: error: {error}", file=sys.stderr)
        return 2
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort):
        print("headwise: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has stopped reading; Python must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result if isinstance(result, int) else 0


def main() -> None:
    """Entry point of the installed command."""
    sys.exit(run())


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    print(f"headwise: warning: {message}", file=sys.stderr)
