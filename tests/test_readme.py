"""What the README shows is what happens."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_example_prints_what_it_says():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shown = next(block for block in blocks if "pd.DataFrame" in block)
    code, expected = shown.strip().rsplit("\n# ", 1)
    setup, call, arguments = code.rpartition("ab.ReleasedTable.horizontal")
    names: dict[str, object] = {}
    exec("import anonbayes as ab\n" + setup, names)
    assert repr(eval(call + arguments, names)) == expected


def test_the_ten_lines_print_what_they_say(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## In ten lines")[1]
    code = section.split("```python\n")[1].split("```")[0]
    exec(code, {})
    expected = [line[2:] for line in code.splitlines() if line.startswith("# ")]
    assert capsys.readouterr().out.splitlines() == expected


def test_every_make_target_that_texts_name_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", ".ci/run"):
        text = (ROOT / name).read_text(encoding="utf-8")
        # In code only: `make test`, or a line of a script that starts with it.
        for words in re.findall(r"(?:^|`)make ((?:[a-z]+ ?)+)", text, re.MULTILINE):
            assert set(words.split()) <= targets, (name, words)
