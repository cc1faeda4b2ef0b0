"""Draws on disk while a run is under way, so that a killed run can be continued.

A run is a directory: ``run.json`` says what is being run, and each chain has numbered parts with
its draws and one ``state.npz`` with all that it needs to go on. Every file is written under another
name and then renamed. The state, written last, says how many parts count, so a part that was
written when the run died before its state was is written again, and no draw is lost or repeated.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anonbayes.errors import FileError, ModelError
from anonbayes.files import is_finished, make_folder, new_file, remove_leftovers, write_text

if TYPE_CHECKING:
    from anonbayes.inference.chains import ChainState, Recorded

__all__ = ["RunStore"]

FORMAT = 1


class RunStore:
    """Directory of a run.

    Parameters
    ----------
    path : path
        The directory; made when absent.
    settings : dict
        What identifies the run. An existing directory must have been made with the same.

    Raises
    ------
    ModelError
        If the directory holds another run, naming the first setting that differs, or something
        that is no run.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = RunStore(folder + "/run", {"seed": 1})
    >>> RunStore(folder + "/run", {"seed": 2})
    Traceback (most recent call last):
    ...
    anonbayes.errors.ModelError: ...holds a run with seed=1, not seed=2...
    """

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        self.path = Path(path)
        wanted = json.loads(json.dumps({"format": FORMAT, **settings}))
        existing = self.read_settings(self.path)
        for folder in (self.path, *self.path.glob("chain-*")):
            remove_leftovers(folder)
        if existing is None:
            make_folder(self.path)
            write_text(self.path / "run.json", json.dumps(wanted, indent=1))
            return
        for key, value in wanted.items():
            if existing.get(key) != value:
                raise ModelError(
                    f"{str(self.path)!r} holds a run with {key}={existing.get(key)!r}, not "
                    f"{key}={value!r}; continue it with the same settings, or use another path."
                )

    @staticmethod
    def read_settings(path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Return the settings of the run in a directory; None when there is nothing yet."""
        folder = Path(path)
        file = folder / "run.json"
        if file.is_file():
            try:
                return dict(json.loads(file.read_text(encoding="utf-8")))
            except (OSError, TypeError, ValueError) as error:
                raise _damaged(file, error) from None
        if folder.exists() and (not folder.is_dir() or any(map(is_finished, folder.iterdir()))):
            raise ModelError(
                f"{str(folder)!r} exists and is no run of anonbayes; choose an empty or new "
                "directory for resume=."
            )
        return None

    def save_chain(self, chain: int, packed: ChainState, new: Recorded) -> None:
        """Write the new draws as a part, then the packed state that counts it."""
        folder = self.path / f"chain-{chain}"
        folder.mkdir(exist_ok=True)
        parts = self._n_parts(folder)
        if new.draws:
            arrays = {}
            for kind, pieces in (("draws", new.draws), ("stats", new.stats)):
                for key in pieces[0]:
                    arrays[f"{kind}/{key}"] = np.concatenate([p[key] for p in pieces])
            save_arrays(folder / f"part-{parts:05d}.npz", arrays)
            parts += 1
        generators = json.dumps([g.bit_generator.state for g in packed.generators], default=_plain)
        save_arrays(
            folder / "state.npz",
            {f"state/{k}": v for k, v in packed.live.items()}
            | {
                "done": np.array(packed.done),
                "parts": np.array(parts),
                "generators": np.array(generators),
            },
        )

    def load_chain(self, chain: int, into: Recorded) -> ChainState | None:
        """Read a chain's draws into `into`; return its packed state, None when nothing is saved."""
        from anonbayes.inference.chains import ChainState

        folder = self.path / f"chain-{chain}"
        file = folder / "state.npz"
        if not file.is_file():
            return None
        saved = load_arrays(file, needed=("done", "parts", "generators"))
        for part in range(int(saved["parts"])):
            arrays = load_arrays(folder / f"part-{part:05d}.npz")
            into.add(
                {k[6:]: v for k, v in arrays.items() if k.startswith("draws/")},
                {k[6:]: v for k, v in arrays.items() if k.startswith("stats/")},
            )
        generators = []
        for state in json.loads(str(saved["generators"])):
            generator = np.random.Generator(getattr(np.random, state["bit_generator"])())
            generator.bit_generator.state = state
            generators.append(generator)
        arrays = {k[6:]: v for k, v in saved.items() if k.startswith("state/")}
        return ChainState(arrays, generators, int(saved["done"]))

    @staticmethod
    def _n_parts(folder: Path) -> int:
        file = folder / "state.npz"
        return int(load_arrays(file, only=["parts"])["parts"]) if file.is_file() else 0


def save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write named arrays to a file, completely or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with new_file(path) as file:
        file.write(buffer.getbuffer())


def load_arrays(
    path: Path, *, only: Iterable[str] | None = None, needed: Iterable[str] = ()
) -> dict[str, Any]:
    """Read named arrays, all or some; a damaged file is an error that names it."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in (arrays if only is None else only)}
            if absent := set(needed) - set(found):
                raise KeyError(*sorted(absent))
            return found
    except Exception as error:  # zip, zlib and NumPy each have their own words for damage
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> FileError:
    return FileError(
        f"{str(path)!r} is damaged or incomplete ({error or type(error).__name__}); the run cannot "
        "be continued. Start it again with another path."
    )


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else int(value)
