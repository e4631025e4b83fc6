"""A Chromium that notices what a person might not: messages on the console, requests to another
host, addresses that do not answer, pages that are too heavy or scroll sideways.
"""

from __future__ import annotations

import os
import shutil
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, Response

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE = (1400, 1000)
PHONE = (360, 740)
"""Width and height; docs/decisions/0050-pages.md names the narrowest that is promised."""
MOST_SHIFT = 0.01
"""Of what is seen, moved by the page itself while it loads; the Web Vitals call 0.1 good."""
MOST_BYTES = 150_000
"""Of a page with its style and script, without images, as transferred."""

NOTE_SHIFTS = """
window.__shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (entry.hadRecentInput) continue;
    const moved = entry.sources.map((source) => source.node?.outerHTML?.slice(0, 80) ?? "text");
    window.__shifts.push([entry.value, moved.join(" and ")]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""


def find_chromium() -> str:
    """The program; a missing one fails the tests, for a test that was not made proves nothing."""
    wanted = os.environ.get("CHROMIUM")
    found = next(
        (path for name in [wanted, *BROWSERS] if name and (path := shutil.which(name))), ""
    )
    if not found or (wanted and not shutil.which(wanted)):
        pytest.fail(
            f"no Chromium was found{f' at `{wanted}`' if wanted else ''}\n\nhint: on Debian or "
            "Ubuntu `apt-get install chromium`, or name one with CHROMIUM=…",
            pytrace=False,
        )
    return found


@dataclass
class Visitor:
    """One tab, with everything that went wrong in it."""

    page: Page
    url: str
    noted: list[str] = field(default_factory=list)
    clicks: int = 0
    expected_statuses: tuple[int, ...] = ()
    _requests: list[Request] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.noted.append(f"script error: {error}"))
        self.page.on("request", self._see)
        self.page.on("response", self._read)
        self.page.on("dialog", self._dismiss)

    def _hear(self, message: ConsoleMessage) -> None:
        refused = any(str(status) in message.text for status in self.expected_statuses)
        if message.type in ("error", "warning") and not refused:
            self.noted.append(f"console {message.type}: {message.text}")

    def _see(self, request: Request) -> None:
        self._requests.append(request)
        if not request.url.startswith((self.url + "/", "data:", "blob:")):
            self.noted.append(f"a request left the host: {request.url}")

    def _read(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected_statuses:
            self.noted.append(f"{response.url} answered {response.status}")

    def _dismiss(self, dialog: Any) -> None:
        self.noted.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def visit(self, path: str) -> None:
        """By typing the address, which is no click."""
        self._requests.clear()
        self.page.goto(self.url + path, wait_until="load")

    def click(self, link: Locator) -> None:
        """Follows a link and counts it."""
        self.clicks += 1
        link.click()
        self.page.wait_for_load_state("load")

    @property
    def path(self) -> str:
        """Where the tab is, as a person reads it."""
        parts = urllib.parse.urlsplit(self.page.url)
        return urllib.parse.unquote(parts.path + (f"?{parts.query}" if parts.query else ""))

    def text(self) -> str:
        return " ".join(self.page.locator("main").inner_text().split())

    def transferred(self) -> int:
        """Bytes of the last visit as they went over the wire, without images."""
        total = 0
        for request in self._requests:
            if request.resource_type != "image" and request.response():
                sizes = request.sizes()
                total += sizes["responseBodySize"] + sizes["responseHeadersSize"]
        return total

    def sideways(self) -> list[str]:
        """Elements that make the page itself scroll sideways; none when it does not."""
        found: list[str] = self.page.evaluate(
            """() => {
              const root = document.documentElement;
              if (root.scrollWidth <= root.clientWidth) return [];
              const wide = [...document.body.querySelectorAll('*')].filter((element) => {
                const box = element.getBoundingClientRect();
                return box.right > root.clientWidth + 1 && !element.closest('.box, pre, svg');
              });
              return ['the page is ' + root.scrollWidth + ' wide',
                      ...wide.slice(0, 5).map((e) => e.outerHTML.slice(0, 120))];
            }"""
        )
        return found

    def shifts(self) -> list[str]:
        """What moved by itself since the page began to load."""
        self.page.wait_for_timeout(50)
        found: list[tuple[float, str]] = self.page.evaluate("window.__shifts")
        total = sum(value for value, _ in found)
        return [f"{value:.4f}: {what}" for value, what in found] if total > MOST_SHIFT else []

    def troubles(self) -> Iterator[str]:
        """What is wrong with the page whatever its width: its weight, its unrest, its barriers."""
        size = self.transferred()
        if size > MOST_BYTES:
            yield f"{size} bytes were transferred"
        yield from (f"moved by itself {shift}" for shift in self.shifts())
        yield from self.barriers()

    def barriers(self) -> list[str]:
        """Serious and critical findings of axe-core, with the elements."""
        findings = Axe().run(self.page).response["violations"]
        return [
            f"{finding['id']} ({finding['impact']}): {node['html'][:200]} "
            f"{' '.join(node.get('failureSummary', '').split())[:300]}"
            for finding in findings
            if finding["impact"] in ("serious", "critical")
            for node in finding["nodes"]
        ]


@contextmanager
def visitor(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = WIDE,
    script: bool = True,
    dark: bool = False,
    expected_statuses: tuple[int, ...] = (),
) -> Iterator[Visitor]:
    """A tab in a profile of its own; what went wrong in it fails the test at its end."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        java_script_enabled=script,
        color_scheme="dark" if dark else "light",
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(20_000)
    context.add_init_script(NOTE_SHIFTS)
    tab = Visitor(context.new_page(), url, expected_statuses=expected_statuses)
    tab.listen()
    try:
        yield tab
        assert tab.noted == [], tab.page.url
    finally:
        context.close()
