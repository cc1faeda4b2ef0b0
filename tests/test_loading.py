"""A command loads what it works with, and not the rest of the house."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"

COUNT = """
import json, sys
from anonbayes.cli.app import main
sys.argv[1:] = {arguments!r}
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
ours = sorted(m for m in sys.modules if m.startswith("anonbayes."))
others = {{name: name in sys.modules for name in ("pymc", "pydantic")}}
print(json.dumps({{"ours": ours, **others}}))
"""
MECHANISM = ["--mechanism", "randomized_response", "--epsilon", "1", "--values"]
# Arguments, and the most modules of ours that the command may load: a fifth more than it does.
COMMANDS = {
    "help": (["--help"], 25),
    "channel estimate": (["channel", "estimate", "reports.csv", *MECHANISM, "a,b"], 42),
    "pie bound": (["pie", "bound", *MECHANISM, "0-9", "--users", "1000"], 75),
    "assess": (["assess", str(DATA / "table1_recoded.csv"), "--sensitive", "Dis",
                "--domain", "ZIP=45501,45502,55503,55504,66601,77701", "--draws", "20",
                "--out", "results"], 145),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_load_little(command, tmp_path):
    (tmp_path / "reports.csv").write_text("report\n" + "a\nb\na\n" * 5)
    arguments, most = COMMANDS[command]
    code = COUNT.format(arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr + done.stdout
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert len(loaded["ours"]) <= most, loaded["ours"]
    assert not loaded["pymc"], "none of these needs a sampler of PyMC"
    assert command != "help" or not loaded["pydantic"], "keys are looked up when asked for"
