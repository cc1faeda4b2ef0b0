"""The package as a whole: public names, documentation, light import."""

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import anonbayes

ROOT = Path(__file__).parents[1]
PUBLIC = [n for n in dir(anonbayes) if not n.startswith("_")]


def test_contract_of_this_layer():
    assert {"Domain", "Hierarchy", "ReleasedTable", "read_arx", "read_anatomy"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_load_and_are_documented(name):
    thing = getattr(anonbayes, name)
    text = inspect.getdoc(thing)
    assert text and len(text.split()) > 3, f"{name} has no docstring"


@pytest.mark.parametrize(
    "name", ["Domain", "Hierarchy", "ReleasedTable", "read_arx", "read_anatomy"]
)
def test_main_names_have_examples(name):
    assert "Examples\n--------" in inspect.getdoc(getattr(anonbayes, name))


@pytest.mark.parametrize("code", ["import anonbayes", "import anonbayes.cli.app"])
def test_import_is_light(code):
    heavy = "{'pymc', 'pytensor', 'arviz', 'numba', 'matplotlib', 'pandas'}"
    check = f"{code}; import sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"


def test_reading_tables_needs_no_sampler():
    check = "from anonbayes import ReleasedTable; import sys; print('pymc' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "False"


def test_one_version():
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == anonbayes.__version__
    assert f"version: {anonbayes.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {anonbayes.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_types_are_published():
    assert (ROOT / "anonbayes" / "py.typed").exists()
