"""Pages in a real browser: headless Chromium of the system, offline, with axe-core.

`opened` gives a page from disk that must not speak of errors; the other functions look at it. Pages
may not reach a network: every request but that for the file itself is refused and remembered.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import Browser, Page, Route, sync_playwright

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
#: Widths in CSS pixels; paper is A4 less the margins that browsers leave.
DESKTOP, PHONE, PAPER = 1280, 390, 718


def chromium() -> str:
    """Return where the system's browser is; tests/system_packages.sh installs it."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert found, "Chromium is missing: install it with sh tests/system_packages.sh"
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser without its sandbox, which containers do not allow."""
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@dataclass
class Seen:
    """A page, and everything it complained about or asked for on the way."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def violations(self) -> list[str]:
        """Return what axe-core finds against WCAG 2.2 A and AA, contrast apart."""
        off = {"color-contrast": {"enabled": False}}
        return self._axe(
            {"runOnly": {"type": "tag", "values": list(RULES)}, "rules": off}, {"include": ["html"]}
        )

    def faint_texts(self) -> list[str]:
        """Return texts of too little contrast; those on charts are tested with their colours."""
        rule = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
        return self._axe(rule, {"include": ["html"], "exclude": ["svg"]})

    def _axe(self, options: dict[str, Any], where: dict[str, list[str]]) -> list[str]:
        # through the debugger, which a content security policy does not bind
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE)
        options |= {"resultTypes": ["violations"]}
        found = self.page.evaluate("([where, how]) => axe.run(where, how)", [where, options])
        return [
            f"{rule['id']}: {node['target']} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"][:3]
        ]

    def wider_than_the_window(self) -> int:
        """Return by how many pixels the page itself scrolls sideways."""
        return int(
            self.page.evaluate(
                "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )

    def reached_by_tab(self, most: int = 400) -> list[str]:
        """Return tag and label of all that the tab key leads to; each must show its focus."""
        names: list[str] = []
        for _ in range(most):
            self.page.keyboard.press("Tab")
            name, outline = self.page.evaluate(_FOCUSED)
            if not name:
                break
            assert outline, f"no visible focus on {name}"
            names.append(name)
        return names

    def column(self, table: str, column: int) -> list[str]:
        """Return the texts of a table's column, top to bottom."""
        cells = self.page.locator(f"{table} tbody tr > :nth-child({column + 1})")
        return [text.strip() for text in cells.all_inner_texts()]

    def open_all(self) -> None:
        """Unfold every part that is folded away."""
        self.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")

    def printed_pages(self, path: Path) -> int:
        """Print to a PDF of A4 and return how many pages it has."""
        path.write_bytes(self.page.pdf(format="A4"))
        return len(re.findall(rb"/Type\s*/Page\b(?!s)", path.read_bytes()))


_FOCUSED = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return ["", false];
  const words = at.getAttribute("aria-label") || at.textContent || at.id;
  const style = getComputedStyle(at);
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  return [`${at.tagName.toLowerCase()} ${words.trim().slice(0, 60)}`, seen];
}"""


@contextmanager
def opened(
    started: Browser, path: Path, *, width: int = DESKTOP, dark: bool = False, scripts: bool = True
) -> Iterator[Seen]:
    """Open a page from disk and fail if it complains, raises or asks for anything else."""
    context = started.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        service_workers="block",
    )
    page = context.new_page()
    seen = Seen(page)
    address = path.resolve().as_uri()

    def answer(route: Route) -> None:
        if route.request.url.split("#")[0] == address:
            route.continue_()
        else:
            seen.requests.append(route.request.url)
            route.abort()

    page.route("**/*", answer)
    page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.complaints.append(f"error: {error}"))
    try:
        page.goto(address)
        yield seen
        assert seen.complaints == [], seen.complaints
        assert seen.requests == [], seen.requests
    finally:
        context.close()
