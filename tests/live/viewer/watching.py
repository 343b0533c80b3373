"""A page in a real browser, watched: whatever a safe page never does is noted, and fails the test that looked at it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    Response,
    expect,
)

from tests.fakes.hostile_run import CANARY

TIMEOUT_MS = 30_000
"""Of whatever is waited for; far more than it takes, since the machine may be busy with other things."""
expect.set_options(timeout=TIMEOUT_MS)
_LOOK_MS = 10
_PICTURES_ARE_THERE = """
[...document.images].filter((image) => image.getBoundingClientRect().top < innerHeight)
  .every((image) => image.complete && image.naturalWidth > 0)
"""
_TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} by ${event.blockedURI || event.sample}`), true);
"""


@dataclass
class Watched:
    page: Page
    origin: str
    """Scheme, host and port of the one server that it may ask; "file://" for a page that asks none."""
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def get(self, testid: str) -> Locator:
        return self.page.get_by_test_id(testid)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def until(self, expression: str) -> None:
        """Until it is true. Playwright's own way to wait for that evaluates in the page, which its policy forbids."""
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            self.page.wait_for_timeout(_LOOK_MS)

    def until_pictures_are_there(self) -> None:
        """Those on the screen: the others are fetched when they come near it."""
        self.until(_PICTURES_ARE_THERE)

    def open(self, url: str) -> None:
        """As whoever pastes a link: the page is loaded anew, also where only what follows its # is another."""
        self.page.goto("about:blank")
        self.page.goto(url)

    def check(self) -> None:
        if not self.page.is_closed() and self.page.evaluate(f"window.{CANARY} !== undefined"):
            self.complaints.append("something of the run was executed")
        assert self.complaints == []

    def watch(self, context: BrowserContext) -> None:
        context.add_init_script(_TELL_VIOLATIONS)
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        context.on("dialog", self._on_dialog)
        context.on("weberror", lambda error: self._complain("error", str(error.error)))
        context.on("console", self._on_console)
        context.on("page", lambda page: self._complain("window", page.url) if page is not self.page else None)
        self.page.on("download", lambda download: self._complain("download", download.url))

    def _on_request(self, request: Request) -> None:
        self.requests.append(request.url)
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" != self.origin:
            self._complain("request", request.url)

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self._complain(f"status {response.status}", response.url)

    def _on_dialog(self, dialog: Dialog) -> None:
        self._complain("dialog", dialog.message)
        dialog.dismiss()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._complain(f"console {message.type}", message.text)

    def _complain(self, what: str, text: str) -> None:
        self.complaints.append(f"{what}: {text[:300]}")


@contextmanager
def watched_page(
    browser: Browser, url: str, *, width: int = 1440, height: int = 900, is_dark: bool = False, is_offline: bool = False
) -> Iterator[Watched]:
    """A new browser profile with one page, at a URL. Raises AssertionError at its end for what it did wrong."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if is_dark else "light",
        reduced_motion="reduce",
        offline=is_offline,
    )
    context.set_default_timeout(TIMEOUT_MS)
    try:
        parts = urlsplit(url)
        watched = Watched(context.new_page(), f"{parts.scheme}://{parts.netloc}")
        watched.watch(context)
        watched.page.goto(url)
        yield watched
        watched.check()
    finally:
        context.close()
