"""Processes that can be killed, and a disk that is full."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fault_work
import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Any]]:
    """Start a function of `fault_work` in a process of its own."""
    if sys.platform == "win32":
        pytest.skip("signals and forks")
    context = multiprocessing.get_context("forkserver")
    places = [str(HERE), str(fault_work.ROOT), os.environ.get("PYTHONPATH", "")]
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "FAULT_SERVER")}
    os.environ |= {"PYTHONPATH": os.pathsep.join(filter(None, places)), "FAULT_SERVER": "1"}
    context.set_forkserver_preload(["fault_work"])
    started = []

    def begin(work: Callable[..., object], *arguments: object, **more: object) -> Any:
        process = context.Process(target=work, args=arguments, kwargs=more)
        process.start()
        started.append(process)
        return process

    try:
        begin(os.getpid).join()
        yield begin
    finally:
        for process in started:
            process.kill()
            process.join()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Return what mounts a disk of so many kilobytes, or gives the mounted one that size."""
    place = tmp_path / "disk"
    place.mkdir()

    def size(kilobytes: int) -> Path:
        option = f"size={kilobytes}k"
        if os.path.ismount(place):
            mount = ["mount", "-o", f"remount,{option}", str(place)]
        else:
            mount = ["mount", "-t", "tmpfs", "-o", option, "tmpfs", str(place)]
        try:
            done = subprocess.run(mount, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no mount command here")
        if done.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
        return place

    try:
        yield size
    finally:
        if os.path.ismount(place):
            subprocess.run(["umount", "-l", str(place)], check=True)
