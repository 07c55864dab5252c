"""Drives a headless Chromium through its debugging pipe, without a library."""

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time

CHROMIUM = next(
    filter(
        None,
        map(shutil.which, ("chromium", "chromium-browser", "google-chrome")),
    ),
    None,
)


@contextlib.contextmanager
def open_page(address, folder, **window):
    """A page in a browser of its own."""
    # The browser reads commands from file 3 and writes to file 4.
    (read_end, to_browser), (from_browser, write_end) = os.pipe(), os.pipe()
    command = [
        "exec",
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        f"--user-data-dir={folder}",
        "--remote-debugging-pipe",
        "about:blank",
        f"3<&{read_end}",
        f"4>&{write_end}",
    ]
    process = subprocess.Popen(
        ["bash", "-c", " ".join(command)],
        pass_fds=(read_end, write_end),
        stderr=subprocess.DEVNULL,
    )
    os.close(read_end)
    os.close(write_end)
    try:
        page = Page(to_browser, from_browser)
        page.resize(**window)
        page.open(address)
        yield page
    finally:
        os.close(to_browser)
        os.close(from_browser)
        process.terminate()
        process.wait(10)


class Page:
    """One tab.

    Args:
        to_browser, from_browser: Ends of the pipes.
    """

    def __init__(self, to_browser, from_browser):
        self._write, self._read = to_browser, from_browser
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t for t in targets if t["type"] == "page")
        self._session = self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.complaints = []

    def call(self, method, **params):
        """Sends a command and returns its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            if answer.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(answer["params"])

    def _next(self):
        while b"\0" not in self._rest:
            chunk = os.read(self._read, 1 << 16)
            assert chunk, "the browser is gone"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def run(self, expression):
        """The value of a JavaScript expression."""
        result = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, expression, seconds=20):
        """Waits until an expression holds; returns its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(expression)):
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.05)
        return value

    def text(self, selector):
        return self.run(f"document.querySelector({selector!r}).innerText")

    def type(self, selector, text):
        """Puts text into a field as a keyboard would."""
        self.run(f"document.querySelector({selector!r}).select()")
        self.call("Input.insertText", text=text)

    def press(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def hover(self, selector, number=0):
        """Moves the pointer onto an element."""
        x, y = self.run(
            f"(e => (e.scrollIntoView({{block: 'center'}}), "
            f"(b => [b.x + b.width / 2, b.y + b.height / 2])"
            f"(e.getBoundingClientRect())))"
            f"(document.querySelectorAll({selector!r})[{number}])"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def click(self, selector, number=0):
        x, y = self.hover(selector, number)
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                clickCount=1,
            )

    def resize(self, width=1200, height=900, dark=False):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2,
            mobile=width < 600,
        )
        scheme = "dark" if dark else "light"
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def screenshot(self, path):
        """A picture of the whole page."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)[
            "data"
        ]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
