"""Headless Chromium over the DevTools protocol, through a pipe: no driver, no package, no port."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars "
    "--remote-debugging-pipe"
).split()
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium() -> str | None:
    """Path of an installed Chromium, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One Chromium process with one page.

    Attributes
    ----------
    problems : list of str
        Console errors and warnings, uncaught exceptions, violations of the page's policy.
    requests : list of str
        Addresses that the page asked for, other than itself and what it carries inside.
    dialogs : list of str
        Texts of alerts; each is closed at once.
    """

    def __init__(self, program: str, profile: Path) -> None:
        out_of_page, to_us = os.pipe()
        to_page, from_us = os.pipe()
        self._from, self._to = out_of_page, from_us

        def place_pipes() -> None:
            """Put the pipes where Chromium looks for them: it reads 3 and writes 4."""
            for pipe, place in [
                (fcntl.fcntl(end, fcntl.F_DUPFD, 10), place)
                for end, place in ((to_page, 3), (to_us, 4))
            ]:
                os.dup2(pipe, place)
                os.close(pipe)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}"],
            preexec_fn=place_pipes,
            close_fds=False,  # the others close by themselves (PEP 446)
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_page)
        os.close(to_us)
        self._buffer = b""
        self._last = 0
        self._events: list[dict[str, Any]] = []
        self.session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self.session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its answer."""
        self._last += 1
        number = self._last
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return dict(found["result"])

    def _read(self, seconds: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            left = max(0.0, end - time.monotonic())
            if not select.select([self._from], [], [], left)[0]:
                raise TimeoutError(f"Chromium has said nothing for {seconds:g} s.")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has gone.")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._note(message["method"], message["params"])
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        self._events.append({"event": event, **params})
        if event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str(params["args"]))
        elif event == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            address = params["request"]["url"]
            if not address.startswith(("data:", "file:", "about:")):
                self.requests.append(address)
        elif event == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self._last += 1
            closing = {"id": self._last, "method": "Page.handleJavaScriptDialog",
                       "params": {"accept": True}, "sessionId": self.session}  # fmt: skip
            os.write(self._to, json.dumps(closing).encode() + b"\0")

    def open(self, file: Path, *, width: int = 1280, height: int = 900) -> None:
        """Open a file and wait until it has loaded."""
        self.resize(width, height)
        self._events.clear()
        self.problems.clear()
        self.requests.clear()
        self.dialogs.clear()
        self.call("Page.navigate", url=file.resolve().as_uri())
        while not any(e["event"] == "Page.loadEventFired" for e in self._events):
            self._read()

    def resize(self, width: int, height: int = 900) -> None:
        """Set the size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip

    def run(self, script: str) -> Any:
        """Value of an expression, evaluated in the page; promises are awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Save a picture of the page as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def print(self) -> bytes:
        """Return the page as it is printed, as PDF."""
        found = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        return base64.b64decode(found["data"])

    def close(self) -> None:
        """End the process."""
        self.session = None
        try:
            self.call("Browser.close")
        finally:
            os.close(self._to)
            os.close(self._from)
            self.process.wait(timeout=30)
