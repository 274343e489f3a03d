"""The registry: names lead to tasks that were declared, never to an import (R29)."""

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from djqueue import task
from djqueue.api import registry

TASKS = {"default": {"BACKEND": "djqueue.backend.DjqueueBackend", "QUEUES": []}}


def one() -> None:
    """Do nothing."""


def two() -> None:
    """Do nothing."""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty registry, for this test only."""
    registry.load()  # what is imported for the first time meanwhile would be known to nobody afterwards
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "_aliases", {})
    yield


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with a task, that nobody has imported."""
    (tmp_path / "jobs_of_the_test.py").write_text("from djqueue import task\n\n@task\ndef work(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "jobs_of_the_test"
    sys.modules.pop("jobs_of_the_test", None)


def test_a_task_is_known_by_its_name_and_by_its_aliases() -> None:
    made = task(aliases=["old.one"])(one)

    assert registry.get("tests.api.test_registry.one") is made
    assert registry.get("old.one") is made
    assert registry.names() == ["old.one", "tests.api.test_registry.one"]
    assert registry.tasks() == [made]


def test_what_using_made_does_not_take_the_declared_tasks_place() -> None:
    made = task(one)
    made.using(priority=7)

    assert registry.get(made.module_path) is made


def test_a_function_that_is_defined_anew_takes_the_place_of_the_old_one() -> None:
    task(aliases=["old.one"])(one)
    anew = types.FunctionType(one.__code__, one.__globals__, "one")

    made = task(aliases=["old.one"])(anew)

    assert registry.get(made.module_path) is made
    assert registry.get("old.one") is made


def test_a_name_wins_over_an_alias_and_the_conflict_is_told() -> None:
    name = f"{one.__module__}.one"
    wanter = task(aliases=[name, "older"])(two)
    holder = task(one)

    assert registry.get(name) is holder
    assert registry.get("older") is wanter
    assert registry.alias_conflicts() == [(name, holder.module_path, wanter.module_path)]


def test_the_first_of_two_tasks_with_one_alias_keeps_it_and_the_conflict_is_told() -> None:
    first, second = task(aliases=["old"])(one), task(aliases=["old"])(two)

    assert registry.get("old") is first
    assert registry.alias_conflicts() == [("old", first.module_path, second.module_path)]


def test_r29_a_name_that_nobody_declared_leads_nowhere_and_imports_nothing(module: str) -> None:
    assert registry.get(f"{module}.work") is None
    assert registry.get("os.system") is None
    assert module not in sys.modules


def test_load_imports_the_modules_that_the_option_names(module: str) -> None:
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": {"task_modules": [module]}}}):
        registry.load()

        assert registry.get(f"{module}.work") is not None


def test_load_imports_the_tasks_modules_of_installed_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "testproject.shop.tasks", raising=False)

    registry.load()

    assert registry.get("testproject.shop.tasks.send_receipt") is not None
