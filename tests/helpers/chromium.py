"""A headless Chromium, driven by its DevTools protocol: pages, key presses, screenshots. Only `websockets` is
needed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new --no-first-run --no-default-browser-check --disable-extensions --disable-background-networking "
    "--disable-dev-shm-usage --use-angle=swiftshader --enable-unsafe-swiftshader --remote-debugging-port=0 "
    "--remote-allow-origins=* --window-size=960,540 about:blank"
)


def path() -> str | None:
    """The browser, where there is one."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    return None


class Chromium:
    """A browser with one page."""

    def __init__(self, folder: Path, seconds: float = 300.0) -> None:
        from websockets.sync.client import connect

        root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        words = [str(path()), f"--user-data-dir={folder}", *root, *FLAGS.split()]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port_file = folder / "DevToolsActivePort"
            until(lambda: port_file.exists() and port_file.read_text().count("\n") >= 1, seconds)
            port, browser = port_file.read_text().split("\n")[:2]
            self._socket = connect(f"ws://127.0.0.1:{port}{browser}", max_size=None, open_timeout=seconds)
            self._number = 0
            self._session = None
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self.call("Page.enable")
        except BaseException:
            self.close()
            raise

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol, and its answer."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params, **session}))
        while True:
            answer = json.loads(self._socket.recv(timeout=300.0))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def ask(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, times: int = 1) -> None:
        codes = {"ArrowRight": 39, "ArrowLeft": 37, "End": 35, "Home": 36, " ": 32}
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                self.call(
                    "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key]
                )

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=20.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def until(asked: Callable[[], Any], seconds: float = 600.0) -> Any:
    """What is asked for, as soon as it is true; a browser that draws by software, on a machine with other
    work, takes long.
    """
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        found = asked()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come true in time")
