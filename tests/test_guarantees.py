"""docs/guarantees.md is true to the letter: all that it names is there, and no promise is without its tests."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)


def test_every_test_that_is_named_exists() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in NAMED
        if not (ROOT / path).exists() or f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]

    assert len(NAMED) > 80
    assert missing == []


def test_every_program_and_page_that_is_named_exists() -> None:
    modules = [name.replace(".", "/") for name in re.findall(r"python -m (benchmarks\.\w+)", TEXT)]
    files = re.findall(r"`(\.ci/\w+)`", TEXT) + [f"docs/{page}" for page in re.findall(r"\]\(([\w-]+\.md)\)", TEXT)]

    assert modules
    assert [name for name in modules if not any((ROOT / name).parent.glob(f"{Path(name).name}*"))] == []
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_every_promise_and_every_requirement_has_its_tests() -> None:
    sections = re.split(r"^### (?=\d\.)", TEXT, flags=re.MULTILINE)[1:]
    rows = re.findall(r"^\| (R\d+) \|(.*)\|$", TEXT, flags=re.MULTILINE)

    assert [section[0] for section in sections] == list("1234567")
    assert [name for name, _ in rows] == [f"R{number}" for number in range(1, 30)]
    assert all("::test_" in part for part in [*sections, *(words for _, words in rows)])
