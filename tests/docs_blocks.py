"""Code blocks of Markdown pages, and how each kind is run."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shlex
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>\S*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)
NOTE = re.compile(r"<!-- (?P<kind>not run|part of): (?P<what>.+?) -->\s*$")
#: Chains that are long enough to see that a command works.
SHORT = ["--draws", "50", "--tune", "50", "--chains", "2"]
#: What the pages call these files is what the package ships.
FILES = {
    "released.csv": "data/clinic_k4_l3_local.csv",
    "people.csv": "data/clinic.csv",
    "hierarchies": "data/clinic_hierarchies",
    "qit.csv": "data/clinic_l3_qit.csv",
    "st.csv": "data/clinic_l3_st.csv",
    "models": "models",
    "data": "data",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, its language, and a note in the line before it."""

    page: str
    line: int
    language: str
    text: str
    note: str | None = None
    about: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Markdown pages of the repository that people read."""
    folders = (ROOT, ROOT / "docs", ROOT / "models", ROOT / "data")
    return sorted(str(file.relative_to(ROOT)) for folder in folders for file in folder.glob("*.md"))


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page but the directives of the site."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        if match["info"].startswith("{"):
            continue
        before = text[: match.start()]
        note = NOTE.search(before)
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines()]
        found.append(
            Block(
                page,
                before.count("\n") + 1,
                match["info"],
                "\n".join(lines) + "\n",
                note and note["kind"],
                note and note["what"],
            )
        )
    return found


def furnish(folder: Path) -> None:
    """Put the files that the pages speak of into a folder."""
    for name, source in FILES.items():
        if (ROOT / source).is_dir():
            ignore = shutil.ignore_patterns("out", "*.py")
            shutil.copytree(ROOT / source, folder / name, ignore=ignore)
        else:
            shutil.copy(ROOT / source, folder / name)


def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a block; the comment lines at its end are what it prints, then its last value."""
    lines = block.text.rstrip().splitlines()
    shown: list[str] = []
    while lines and lines[-1].startswith("#"):
        shown.insert(0, lines.pop()[1:].removeprefix(" ").rstrip())
    tree = ast.parse("\n".join(lines), filename=str(block))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(block), "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), str(block), "eval"), names)
            if value is not None:
                print(repr(value))
    said = [line.rstrip() for line in printed.getvalue().splitlines()]
    assert said == shown, f"{block} prints\n" + "\n".join(said)


def commands(block: Block) -> list[tuple[list[str], int]]:
    """Commands of a shell block with the exit codes that comments announce."""
    found = []
    for line in block.text.replace("\\\n", " ").splitlines():
        command, _, comment = line.partition("#")
        if command.strip():
            code = re.search(r"exit code (\d+)", comment)
            found.append((shlex.split(command), int(code[1]) if code else 0))
    return found


def run_shell(block: Block) -> None:
    """Run the commands of the package; of make and pip check that they would find something."""
    for words, code in commands(block):
        if words[0] == "anonbayes":
            run_command_line(block, words[1:], code)
        elif words[0] == "make":
            wanted = {word for word in words[1:] if "=" not in word}
            assert wanted <= make_targets(), f"{block}: make has no {wanted - make_targets()}"
        else:
            pytest.fail(f"{block}: nobody knows how to check {shlex.join(words)!r}")


def run_command_line(block: Block, arguments: list[str], code: int) -> None:
    """Run one command in this process and compare its exit code."""
    from typer.testing import CliRunner

    from anonbayes.cli.app import app
    from anonbayes.errors import AnonbayesError

    short = SHORT if arguments[0] == "assess" and "--anatomy" in arguments else []
    done = CliRunner().invoke(app, arguments + short)
    # What `main` turns into exit code 2.
    found = 2 if isinstance(done.exception, AnonbayesError) else done.exit_code
    said = f"{block}: anonbayes {shlex.join(arguments)}\n{done.output}\n{done.exception!r}"
    assert found == code, said


def make_targets() -> set[str]:
    """Targets of the Makefile."""
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def check_toml(block: Block) -> None:
    """Check a scenario and leave it under the name in its first line, for commands to run."""
    from anonbayes.scenario.load import load

    name = re.match(r"# (\S+\.toml)\n", block.text)
    assert name, f"{block}: the first line must name the file, as in '# nightly.toml'"
    tomllib.loads(block.text)
    file = Path(name[1])
    file.write_text(block.text, encoding="utf-8")
    load(file)


def check_json(block: Block) -> None:
    """Compare an excerpt with the file that it is part of."""
    assert block.note == "part of" and block.about, f"{block}: say which file it is part of"
    whole = json.loads(Path(block.about).read_text(encoding="utf-8"))
    assert_part(json.loads(block.text), whole, where=f"{block}: {block.about}")


def assert_part(part: Any, whole: Any, where: str) -> None:
    """Every key of the part is in the whole with the same value; numbers to shown digits."""
    if isinstance(part, dict):
        assert part.keys() <= whole.keys(), where
        for key, value in part.items():
            assert_part(value, whole[key], f"{where}[{key!r}]")
    elif isinstance(part, float):
        assert whole == pytest.approx(part, rel=1e-3), where
    else:
        assert whole == part, where
