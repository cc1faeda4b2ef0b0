"""Write constraints.txt from environments in which the tests have passed: `make constraints`.

    python .ci/constraints.py .venv .venv-313 > constraints.txt

The first environment is of Python 3.11, the second of a later one; where their versions differ,
the line says for which Python it holds.
"""

from __future__ import annotations

import subprocess
import sys

MARKS = ('python_version < "3.12"', 'python_version >= "3.12"')


def frozen(environment: str) -> dict[str, str]:
    """Version of each installed distribution."""
    command = [f"{environment}/bin/python", "-m", "pip", "freeze", "--exclude", "anonbayes"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (line.partition("==") for line in done.stdout.splitlines())
    return {name.lower().replace("_", "-"): version for name, equal, version in lines if equal}


def main(environments: list[str]) -> None:
    """Print one line per distribution, or two."""
    print("# Versions with which all tests have passed. `make constraints` writes this file;")
    print("# `make setup CONSTRAINTS=constraints.txt` installs them. CI tests the newest, too.")
    versions = [frozen(environment) for environment in environments]
    for name in sorted(set().union(*versions)):
        pairs = [(found.get(name), mark) for found, mark in zip(versions, MARKS, strict=True)]
        stated = {version for version, _ in pairs if version}
        if len(stated) == 1:
            print(f"{name}=={stated.pop()}")
        else:
            for version, mark in pairs:
                print(f"{name}=={version} ; {mark}")


if __name__ == "__main__":
    main(sys.argv[1:])
