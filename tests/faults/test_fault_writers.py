"""Only a few files of the package write; a writer that goes its own way is found in the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "anonbayes"
OWN = {"io/files.py"}
METHODS = {
    "write_text", "write_bytes", "to_csv", "to_excel", "to_feather", "to_hdf", "to_html",
    "to_json", "to_markdown", "to_netcdf", "to_parquet", "to_pickle", "to_stata", "to_string",
    "to_xml", "to_zarr", "savefig", "tofile", "imsave", "write_image", "write_html",
    "to_latex", "write_parquet", "write_csv", "sink_csv", "sink_parquet",
}  # fmt: skip
FUNCTIONS = {
    ("np", "save"), ("np", "savez"), ("np", "savez_compressed"), ("np", "savetxt"),
    ("json", "dump"), ("pickle", "dump"), ("os", "replace"), ("os", "link"), ("os", "write"),
    ("shutil", "copy"), ("shutil", "copyfile"), ("shutil", "copy2"), ("shutil", "move"),
    ("shutil", "copytree"), ("tempfile", "NamedTemporaryFile"), ("tempfile", "mkstemp"),
    ("h5py", "File"), ("zipfile", "ZipFile"), ("os", "fdopen"), ("os", "open"),
}  # fmt: skip
# Calls that look like writers and are none, with the reason.
HARMLESS = {
    ("reporting/page.py", "savefig"): "draws into memory",
    ("inference/run.py", "savez"): "packs into memory",
    ("compat/__init__.py", "to_netcdf"): "writes to memory",
    ("compat/__init__.py", "File"): "opens a file to be read",
    ("inference/vertical/parts.py", "to_parquet"): "writes to a file that `new_file` opened",
    ("datasets.py", "ZipFile"): "reads from memory",
}
FIRST = "path_or_buf"


def writers(source: str) -> set[str]:
    """Names of the calls in a source by which it could write a file by itself."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func
        if isinstance(name, ast.Name) and name.id == "open" and may_write(node, 1):
            found.add("open")
        elif isinstance(name, ast.Attribute):
            owner = name.value.id if isinstance(name.value, ast.Name) else ""
            if owner == "files" or (owner == "self" and name.attr.startswith("to_")):
                continue
            if name.attr == "open" and owner != "os" and may_write(node, 0):
                found.add("open")
            elif (owner, name.attr) in FUNCTIONS:
                found.add(name.attr)
            elif name.attr in METHODS and has_target(node):
                found.add(name.attr)
    return found


def may_write(call: ast.Call, place: int) -> bool:
    """Whether the mode of an `open` is anything but reading, or cannot be told."""
    given = [k.value for k in call.keywords if k.arg == "mode"] or call.args[place : place + 1]
    if not given:
        return False
    return not (isinstance(given[0], ast.Constant) and set(str(given[0].value)) <= set("rbt"))


def has_target(call: ast.Call) -> bool:
    """Whether a writer of pandas and the like is told where to; without, it returns a text."""
    return bool(call.args) or any(k.arg in (FIRST, "path", "buf", "fname") for k in call.keywords)


@pytest.mark.parametrize(
    "file", sorted(PACKAGE.rglob("*.py")), ids=lambda f: f.relative_to(PACKAGE).as_posix()
)
def test_nobody_else_writes(file):
    name = file.relative_to(PACKAGE).as_posix()
    if name in OWN:
        return
    found = writers(file.read_text(encoding="utf-8"))
    unknown = {call for call in found if (name, call) not in HARMLESS}
    assert not unknown, f"{name} calls {sorted(unknown)}; write through anonbayes.io.files instead"


@pytest.mark.parametrize(("file", "call"), HARMLESS)
def test_exceptions_are_needed(file, call):
    assert call in writers((PACKAGE / file).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("open(p, 'w')", {"open"}),
        ("open(p, mode='ab')", {"open"}),
        ("open(p, mode)", {"open"}),
        ("Path(p).open('x')", {"open"}),
        ("p.write_text('a')", {"write_text"}),
        ("frame.to_csv(p, sep=';')", {"to_csv"}),
        ("frame.to_csv(path_or_buf=p)", {"to_csv"}),
        ("figure.savefig(p)", {"savefig"}),
        ("np.savez(p, a=1)", {"savez"}),
        ("json.dump(a, f)", {"dump"}),
        ("os.replace(a, b)", {"replace"}),
        ("open(p); open(p, 'rb'); Path(p).open(encoding='utf-8')", set()),
        ("frame.to_csv(sep=';'); frame.to_json(orient='index'); text.replace('a', 'b')", set()),
    ],
)
def test_the_search_finds_writers(source, found):
    assert writers(source) == found
