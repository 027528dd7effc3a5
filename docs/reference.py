"""Reference pages of the site, made from the code: modules, configuration keys, and commands with their options."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import tokenize
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel

from headwise.cli.main import COMMANDS
from headwise.config import Config

# Modules whose `__all__` is stable: what is in it changes only with a release that says so.
STABLE = ["headwise", "headwise.nn"]
MODULES = {
    "Translation": ["headwise.engine.translator", "headwise.engine.options", "headwise.engine.outputs"],
    "Analysis": [
        "headwise.analysis.trace",
        "headwise.analysis.tracer",
        "headwise.analysis.translation_tracer",
        "headwise.analysis.recording",
        "headwise.analysis.head_arithmetic",
        "headwise.analysis.interventions",
    ],
    "Models": ["headwise.models.transformer", "headwise.models.base", "headwise.nn.multihead"],
    "Learning": ["headwise.learn.from_scratch", "headwise.learn.runs"],
}


def python() -> str:
    """Return the page of the Python interface, of the docstrings: what is stable, then modules that may change."""
    lines = [
        "# Python",
        "",
        "Made from the docstrings. The names of the first two sections are stable: a name goes, or changes what it "
        "takes or returns, only in a release whose changelog says so. The modules after them are documented and "
        "tested, and may change with any release. [A model of your own](../own-model.md) is the guide.",
    ]
    for module in STABLE:
        lines += ["", f"## {module}", "", (importlib.import_module(module).__doc__ or "").strip()]
        for name, directive in stable_names(module):
            lines += ["", f"### {name}", "", "```{eval-rst}", f".. {directive}:: {module}.{name}", "```"]
    for title, modules in MODULES.items():
        lines += ["", f"## {title}"]
        for module in modules:
            lines += ["", f"### {module}", "", "```{eval-rst}", f".. automodule:: {module}", "```"]
    return "\n".join([*lines, ""])


def stable_names(module: str) -> Iterator[tuple[str, str]]:
    """Yield the names of a module's `__all__` that aren't modules, and the directive that shows each."""
    imported = importlib.import_module(module)
    for name in imported.__all__:
        value = getattr(imported, name)
        if not inspect.ismodule(value):
            yield name, "autoclass" if inspect.isclass(value) else "autofunction"


def configuration() -> str:
    """Return the page of configuration keys: name, type, default, and the comment beside it in the code."""
    lines = [
        "# Configuration keys",
        "",
        "Every key of a configuration file and of `key.sub=value` on the command line, made from the code.",
    ]
    for section, rows in _sections(Config, ""):
        lines += [
            "",
            f"## {section or 'Top level'}",
            "",
            "| key | type | default | meaning |",
            "|---|---|---|---|",
        ]
        lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join([*lines, ""])


def _sections(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yield each section of the configuration with its rows; nested sections follow the one that holds them."""
    comments, rows, nested = _comments(model), [], []
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            nested.append((field.annotation, key))
            continue
        default = field.get_default(call_default_factory=True)
        shown = "required" if field.is_required() else f"`{_yaml(default)}`"
        rows.append((f"`{key}`", _type(field.annotation), shown, comments.get(name, "")))
    if rows:
        yield prefix.rstrip("."), rows
    for inner, key in nested:
        yield from _sections(inner, f"{key}.")


def _comments(model: type[BaseModel]) -> dict[str, str]:
    """Return the comment in each field's definition or above it, for the fields of a class and its bases."""
    found: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        if not issubclass(parent, BaseModel) or parent is BaseModel:
            continue
        source = inspect.getsource(parent)
        tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
        remarks = [token for token in tokens if token.type == tokenize.COMMENT]
        comments = {token.start[0]: token.string.lstrip("# ") for token in remarks}
        alone = {token.start[0] for token in remarks if token.line.lstrip().startswith("#")}
        (definition,) = ast.parse(source).body
        assert isinstance(definition, ast.ClassDef)
        for node in definition.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                first = node.lineno
                while first - 1 in alone:
                    first -= 1
                lines = range(first, (node.end_lineno or node.lineno) + 1)
                found[node.target.id] = " ".join(comments[line] for line in lines if line in comments)
    return found


def _type(annotation: Any) -> str:
    """Return a type in words that users know."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(argument) for argument in arguments)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (list, tuple, dict) or hasattr(annotation, "__metadata__"):
        inner = _type(arguments[0]) if arguments else ""
        return f"list of {inner}" if origin in (list, tuple) else inner or "map"
    names = {
        int: "whole number",
        float: "number",
        str: "text",
        bool: "`true` or `false`",
        type(None): "nothing",
    }
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _yaml(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def command_line() -> str:
    """Return the page of commands: what each does, its arguments and options with their defaults."""
    lines = ["# Command line", "", "Made from the code; `headwise COMMAND --help` shows the same."]
    for name, (module, summary) in COMMANDS.items():
        found = importlib.import_module(module)
        if hasattr(found, "app"):
            group: Any = typer.main.get_command(found.app)
            lines += ["", f"## headwise {name}", "", summary]
            for inner, command in sorted(group.commands.items()):
                lines += _command(f"{name} {inner}", command, "###")
        else:
            app = typer.Typer(add_completion=False)
            app.command(name)(found.command)
            lines += _command(name, typer.main.get_command(app), "##")
    return "\n".join([*lines, ""])


def _command(name: str, command: Any, heading: str) -> list[str]:
    text = inspect.cleandoc(command.help or "").replace("\f", "")
    paragraphs = []
    for paragraph in text.split("\n\n"):
        example = paragraph.startswith("Example: ")
        command_text = " ".join(paragraph.removeprefix("Example: ").split())
        paragraphs += ["", *(["```sh", command_text, "```"] if example else [paragraph])]
    lines = [
        "",
        f"{heading} headwise {name}",
        *paragraphs,
        "",
        "| option | meaning | default |",
        "|---|---|---|",
    ]
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or "--help" in parameter.opts:
            continue
        names = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
        default = parameter.default
        shown = "required" if parameter.required else "" if default in (None, False, [], ()) else f"`{default}`"
        lines.append(f"| {names} | {_cell(getattr(parameter, 'help', None) or '')} | {shown} |")
    return lines
