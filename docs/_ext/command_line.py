"""Reference of the command line, generated from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer.main

from anonbayes.cli import app as program

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
            paragraphs.append(" ".join(words))
    return paragraphs, examples


def cell(text: str) -> str:
    """Text that may stand in a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def option_line(parameter: Any, context: Any) -> str:
    """Line of the table of options."""
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if not parameter.is_flag:
        names = names[:-1] + f" {parameter.make_metavar(context)}`"
    notes = [parameter.help or ""]
    if parameter.required:
        notes.append("Needed.")
    elif parameter.default not in (None, False, (), []) and not callable(parameter.default):
        notes.append(f"Default: `{parameter.default}`.")
    return f"| {names.replace('|', ' or ')} | {cell(' '.join(filter(None, notes)))} |"


def section(name: str, command: Any) -> str:
    """Section of one command."""
    context = typer.main.get_command(program).make_context("anonbayes", [], resilient_parsing=True)
    paragraphs, examples = parts(command)
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    words = [p.make_metavar(context) for p in command.params if p.param_type_name == "argument"]
    if options:
        words.append("[OPTIONS]")
    if getattr(command, "commands", None):
        words.append("COMMAND")
    lines = [f"## {name}", "", "\n\n".join(paragraphs), ""]
    lines += ["```text", " ".join([name, *words]), "```", ""]
    if examples:
        lines += ["```sh", *examples, "```", ""]
    arguments = [p for p in command.params if p.param_type_name == "argument" and p.help]
    if arguments or options:
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| `{p.make_metavar(context)}` | {cell(p.help)} |" for p in arguments]
        lines += [option_line(p, context) for p in options] + [""]
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
