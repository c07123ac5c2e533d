"""Chromium without a screen, driven over a pipe by its debugging protocol: no package needed."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import LONGEST_SECONDS

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"),
    *("disable-background-networking", "disable-component-update", "hide-scrollbars"),
    *("remote-debugging-pipe", "window-size=1400,1000"),
)


def chromium() -> str | None:
    """Path of Chromium's program; None where it is not on the PATH."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


class Browser:
    """One page of a browser."""

    def __init__(self, process: "subprocess.Popen[bytes]", send: int, receive: int) -> None:
        self._process, self._send, self._receive = process, send, receive
        self._number, self._buffer = 0, b""
        self._session: str | None = None
        self.errors: list[str] = []
        """What the page wrote to the console as an error, threw, or failed to load."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Open an address."""
        self._call("Page.navigate", url=url)

    def ask(self, script: str) -> Any:
        """The value of an expression in the page; None where the page is just being left."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """The value of an expression, once it is true."""
        end = time.monotonic() + LONGEST_SECONDS
        while not (value := self.ask(script)):
            assert time.monotonic() < end, f"{script}\n{self.text()}"
            time.sleep(0.2)
        return value

    def follow(self, text: str, to: str) -> None:
        """Click the first link that says just this, until the page's address has `to` in it.

        A page that is still being built may lose a click.
        """
        found = f"""[...document.querySelectorAll("a")].find(
            (one) => one.textContent.trim() === {json.dumps(text)})"""
        end = time.monotonic() + LONGEST_SECONDS
        while to not in (self.ask("location.href") or ""):
            assert time.monotonic() < end, f"no link {text}\n{self.text()}"
            self.ask(f"(one => one && (one.target = '_self', one.click()))({found})")
            time.sleep(1)

    def text(self) -> str:
        """The visible text of the page."""
        return str(self.ask("document.body?.innerText"))

    def show(self, *, width: int, height: int, scheme: str, media: str = "screen") -> None:
        """Give the window a size, and the page a light or dark scheme, on a screen or in print."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", media=media, features=features)

    def press(self, key: str) -> None:
        """Press a key as a person does."""
        codes = {"Tab": 9, "ArrowLeft": 37, "ArrowRight": 39}
        for kind in ("rawKeyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=codes[key],
            )  # fmt: skip

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._hear(answer)
        if answer.get("error", {}).get("message") == "Inspected target navigated or closed":
            return {"result": {}}
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._receive], [], [], LONGEST_SECONDS)
            assert ready, "the browser does not answer"
            read = os.read(self._receive, 1 << 20)
            assert read, "the browser has ended"
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _hear(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", details).get("description", "thrown"))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert"):
                values = [
                    str(value.get("value", value.get("description"))) for value in params["args"]
                ]
                self.errors.append(" ".join(values))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                entry = params["entry"]
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser that keeps its files in a folder of the test's."""
    program = chromium()
    assert program is not None, "the marker `browser` skips a test where there is no Chromium"
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()

    def place() -> None:
        # The protocol's two pipes are the descriptors 3 and 4; first out of each other's way.
        inward, outward = (fcntl.fcntl(pipe, fcntl.F_DUPFD, 10) for pipe in (theirs_in, theirs_out))
        os.dup2(inward, 3)
        os.dup2(outward, 4)

    process = subprocess.Popen(
        [program, *(f"--{switch}" for switch in SWITCHES), f"--user-data-dir={profile}"],
        close_fds=False,
        preexec_fn=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(process, ours_out, ours_in)
    finally:
        process.terminate()
        process.wait()
        os.close(ours_out)
        os.close(ours_in)
