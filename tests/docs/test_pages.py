"""The pages by themselves: their Python can be compiled, their links lead somewhere."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]*)\)")


def of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> Iterator[str]:
    """Give the anchors of a page's headings, as GitHub and MyST make them."""
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_all_python_of_a_page_can_be_compiled(page: Path) -> None:
    for language, text in FENCE.findall(page.read_text()):
        if language == "python":
            compile(dedent(text), of(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in set(anchors(target)), link


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    listed = re.findall(r"^([\w\-/*]+)$", index, re.MULTILINE)
    found = {path for each in listed for path in (ROOT / "docs").glob(f"{each}.md")}

    assert {of(page) for page in PAGES[1:]} - {of(page) for page in found} <= {"docs/index.md", "README.md"}
