"""Reference of the command line, generated from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import typer.main

from anonbayes.cli.app import app as program

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MARK = "<!-- commands -->"
EXAMPLE = re.compile(r"^\s*(?:Examples?:\s*)?(?:\$\s*)?(anonbayes\s.*)$")


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name, groups before their members."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for child, found in getattr(command, "commands", {}).items():
            yield from walk(f"{name} {child}", found)

    top = typer.main.get_command(program)
    for name, command in top.commands.items():  # type: ignore[attr-defined]
        yield from walk(f"anonbayes {name}", command)


def parts(command: Any) -> tuple[list[str], list[str]]:
    """Paragraphs of a command's help, and the examples in it."""
    text = "\n\n".join(filter(None, (command.help, command.epilog)))
    text = re.sub(r"\\\n", "", text.replace("\b", ""))
    paragraphs, examples = [], []
    for paragraph in re.split(r"\n\s*\n", text):
        words = []
        for line in paragraph.strip().splitlines():
            if found := EXAMPLE.match(line):
                examples.append(found[1].strip())
            elif line.strip() not in ("Example:", "Examples:"):
                words.append(line.strip())
        if words:
            paragraphs.append(marked(" ".join(words)))
    return paragraphs, examples


def marked(text: str) -> str:
    """Text with the names of options as code; two dashes would become a long one."""
    return re.sub(r"(?<![`\w-])(--[a-z][a-z-]*)", r"`\1`", text)


def fold(example: str, width: int = 76) -> str:
    """Break a long command before an option, as one would in a shell."""
    lines = [""]
    for piece in re.split(r" (?=-)", example):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append(f"    {piece}")
        else:
            lines[-1] += f" {piece}" if lines[-1] else piece
    return " \\\n".join(lines)


def cell(text: str) -> str:
    """Text that may stand in a Markdown table."""
    return marked(text.replace("|", "\\|").replace("\n", " "))


def kind(hint: Any) -> str:
    """Word for the values of a type, in capitals as on the terminal."""
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    inner = [part for part in get_args(hint) if part is not NoneType]
    if inner:
        return kind(inner[0])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " or ".join(str(member.value) for member in hint)
    return {int: "INTEGER", float: "NUMBER", Path: "PATH"}.get(hint, "TEXT")


def values(command: Any) -> dict[str, str]:
    """Word for the values of each option, from the annotations of the command's function.

    Not from its parameter objects: what they know differs between versions of typer.
    """
    if command.callback is None:
        return {}
    hints = get_type_hints(inspect.unwrap(command.callback))
    return {p.name: p.metavar or kind(hints.get(p.name)) for p in command.params}


def option_line(parameter: Any, value: str) -> str:
    """Line of the table of options."""
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if not parameter.is_flag:
        names = names[:-1] + f" {value}`"
    notes = [parameter.help or ""]
    if parameter.required:
        notes.append("Needed.")
    elif parameter.default not in (None, False, (), []) and not callable(parameter.default):
        notes.append(f"Default: `{parameter.default}`.")
    return f"| {cell(names)} | {cell(' '.join(filter(None, notes)))} |"


def section(name: str, command: Any) -> str:
    """Section of one command."""
    paragraphs, examples = parts(command)
    words_of = values(command)
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    arguments = {
        p.metavar or p.name.upper() + "..." * (p.nargs == -1): p.help
        for p in command.params
        if p.param_type_name == "argument"
    }
    words = list(arguments)
    if options:
        words.append("[OPTIONS]")
    if getattr(command, "commands", None):
        words.append("COMMAND")
    lines = [f"## {name}", "", "\n\n".join(paragraphs), ""]
    lines += ["```text", " ".join([name, *words]), "```", ""]
    if examples:
        lines += ["```sh", *map(fold, examples), "```", ""]
    if arguments or options:
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| `{word}` | {cell(text)} |" for word, text in arguments.items() if text]
        lines += [option_line(p, words_of.get(p.name, "TEXT")) for p in options] + [""]
    return "\n".join(lines)


def expand(_app: Sphinx, _docname: str, source: list[str]) -> None:
    """Replace the mark by the sections of all commands."""
    if MARK in source[0]:
        text = "\n".join(section(name, command) for name, command in commands())
        source[0] = source[0].replace(MARK, text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to pages as they are read."""
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
