"""What a test does with a page: go, press, read, look for faults, take a picture."""

import os
from pathlib import Path
from typing import Any

from django.urls import reverse

from tests.helpers import eventually

PATIENCE = 20.0
SERIOUS = {"serious", "critical"}
TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth + 1 ? [] : ["page"].concat(
    [...document.querySelectorAll("#content *")].filter((each) => each.getBoundingClientRect().right > innerWidth + 1
        && !each.closest(".djq-scroll, .results, .djq-nav ul, svg"))
        .slice(0, 3).map((each) => each.outerHTML.slice(0, 160)))
"""
RUN_AXE = """axe.run(document.querySelector("#content"), {
    resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]})"""
SCREENS = os.environ.get("DJQUEUE_SCREENS", "")
"""A folder for pictures of all pages; none are kept where it is not given."""


class Looker:
    """A page of the browser, and all that it complained about."""

    def __init__(self, page: Any, site: str, axe: str) -> None:
        self.page = page
        self.said: list[str] = []
        self._site = site
        self._axe = axe
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.said.append(f"{page.url}: {error}"))

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning") and "favicon.ico" not in str(message.location):
            self.said.append(f"{self.page.url}: {message.text}")

    def go(self, name: str, *args: object, query: str = "") -> None:
        """Go to one of the admin's pages, by the name of its address."""
        self.page.goto(self._site + reverse(f"admin:{name}", args=args) + query)

    def overview(self, query: str = "") -> None:
        """Go to the overview."""
        self.page.goto(self._site + reverse("admin:app_list", args=["djqueue"]) + query)

    def text(self) -> str:
        """What a reader sees."""
        return str(self.page.inner_text("body"))

    def sees(self, words: str, within: float = PATIENCE) -> None:
        """Wait until the page says this, refreshed by itself."""
        eventually(lambda: words in self.text(), within, message=lambda: f"no {words!r} in:\n{self.text()}")

    def act(self, label: str, **fields: str) -> None:
        """Choose all rows of a list and run an action on them."""
        self.page.check("#action-toggle")
        self.page.select_option("select[name=action]", label=label)
        for name, value in fields.items():
            field = self.page.locator(f"#changelist-form [name={name}]")
            field.select_option(value) if field.evaluate("each => each.tagName") == "SELECT" else field.fill(value)
        self.page.click("#changelist-form button[name=index]")

    def faults(self) -> list[str]:
        """The serious faults of accessibility in djqueue's own part of the page."""
        # Evaluated by the browser's debugger: the page's own policy would not let a foreign script in.
        self.page.evaluate(self._axe)
        found = self.page.evaluate(RUN_AXE)
        return [
            f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in SERIOUS
            for node in each["nodes"]
        ]

    def too_wide(self) -> list[str]:
        """What makes the page so wide that it must be moved sideways as a whole; nothing, if it need not."""
        return list(self.page.evaluate(TOO_WIDE))

    def picture(self, name: str, *, whole: bool = False) -> None:
        """Keep a picture, where a folder for them is given."""
        if SCREENS:
            self.page.evaluate("scrollTo(0, 0)")
            self.page.screenshot(path=Path(SCREENS) / f"{name}.png", full_page=whole)
