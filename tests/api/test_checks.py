"""Every mistake of a configuration is reported at once, with an id of its own."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core import checks
from django.db import connection, connections
from django.test import override_settings

from djqueue import compat, task
from djqueue.api import registry
from djqueue.exceptions import ConfigurationError

DJQUEUE = {"BACKEND": "djqueue.backend.DjqueueBackend", "QUEUES": ["default", "emails", "images", "partner"]}
DUMMY = {"BACKEND": f"{type(compat.task_backends).__module__}.backends.dummy.DummyBackend", "QUEUES": []}


def work() -> None:
    """Do nothing."""


def more_work() -> None:
    """Do nothing."""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tasks but the test's own."""
    registry.load()  # what is imported for the first time meanwhile would be known to nobody afterwards
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "_aliases", {})


@pytest.fixture
def other(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """A second alias with the default one's settings, to be changed by the test."""
    settings = {**connections.settings["default"], "OPTIONS": {}}
    connections.settings["other"] = settings
    yield settings
    if "other" in connections:
        del connections["other"]
    del connections.settings["other"]


def found(databases: list[str] | None = None, **options: Any) -> dict[str, str]:
    """What the checks say about a backend with these options: text by id."""
    with override_settings(TASKS={"default": {**DJQUEUE, "OPTIONS": options}}):
        return ours(databases)


def ours(databases: list[str] | None = None) -> dict[str, str]:
    """djqueue's messages by id; several with one id are joined."""
    texts: dict[str, str] = {}
    for message in checks.run_checks(databases=databases):
        if message.id and message.id.startswith("djqueue."):
            texts[message.id] = "\n".join(filter(None, [texts.get(message.id), str(message)]))
    return texts


def test_the_shop_has_no_mistakes(db: None) -> None:
    assert ours(["default"]) == {}


def test_e001_every_wrong_option_is_reported_at_once() -> None:
    said = found(lease_second=3, poll_seconds=0, queues={"emails": {"weigt": 2}})["djqueue.E001"]

    assert "unknown option 'lease_second' (did you mean 'lease_seconds'?)" in said
    assert "poll_seconds: expected a number from 0.05 to 60, got 0" in said
    assert "queues['emails']: unknown setting 'weigt' (did you mean 'weight'?)" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "expected a dict of options, got []; write {} for none"),
        (None, "expected a dict of options, got None"),
        ({"queues": 5}, "queues: expected a dict of queue names to settings, got 5; write"),
        ({"queues": {"emails": 5}}, "queues['emails']: expected a dict of settings, got 5; write"),
        ({"queues": {5: {}}}, "queues: expected names of queues as keys, got 5"),
        ({"queues": {None: 1}}, "queues: expected names of queues as keys, got None"),
        ({"queues": {"emails": {"isolation": "thread"}}}, "isolation: expected 'process' or None, got 'thread'"),
        (
            {"queues": {"emails": {"tiers": {"pro": float("inf")}}}},
            "tiers: expected a dict of printable names to weights",
        ),
        ({"queues": {"emails": {"tiers": {"a\0": 1}}}}, "tiers: expected a dict of printable names to weights"),
        ({"task_modules": 5}, "task_modules: expected a list of module names, got 5; write"),
        ({"task_modules": "shop"}, "task_modules: expected a list of module names, got 'shop'"),
        ({"task_modules": [5]}, "task_modules: expected a list of module names, got [5]"),
    ],
)
def test_e001_options_of_a_wrong_shape_are_reported_and_break_nothing(options: Any, words: str) -> None:
    with override_settings(TASKS={"default": {**DJQUEUE, "OPTIONS": options}}):
        assert words in ours()["djqueue.E001"]


def test_e001_a_queue_name_that_can_not_be_stored() -> None:
    with override_settings(TASKS={"default": {**DJQUEUE, "QUEUES": ["default", "emails", "q" * 101]}}):
        assert "queue name: expected at most 100 characters, got 101" in ours()["djqueue.E001"]


def test_e002_djqueue_is_not_installed(settings: Any) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "djqueue"]

    assert "djqueue.E002" in {message.id for message in compat.task_backends["default"].check()}


def test_without_the_app_nothing_can_be_enqueued_and_the_error_says_why(settings: Any) -> None:
    """Django asks the backends for their checks only where something has imported its tasks."""
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "djqueue"]
    declared = task(work)
    compat.task_backends["default"].__dict__.pop("djqueue_options", None)

    with pytest.raises(ConfigurationError, match=r"djqueue, which is not installed. Add \"djqueue\" to INSTALLED_APPS"):
        declared.enqueue()


def test_e003_an_alias_that_does_not_exist() -> None:
    assert "expected an alias of DATABASES (default), got 'jobs'" in found(database="jobs")["djqueue.E003"]


def test_e004_a_database_that_is_not_postgresql(other: dict[str, Any]) -> None:
    other |= {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}

    assert "expected PostgreSQL, got sqlite for 'other'" in found(database="other")["djqueue.E004"]


def test_e005_an_atomic_task_under_a_stricter_isolation_level_must_say_what_it_runs_at(other: dict[str, Any]) -> None:
    silent = task(atomic=True)(work)
    task(atomic=True, isolation="read committed")(more_work)
    other["OPTIONS"] = {"isolation_level": 4}

    said = found(database="other")["djqueue.E005"]

    assert f"{silent.module_path}: atomic=True runs at READ COMMITTED" in said
    assert "more_work" not in said
    other["OPTIONS"] = {"isolation_level": 2}
    assert "work" not in found(database="other").get("djqueue.E005", "")


def test_e005_a_process_of_its_own_says_nothing_about_the_level(other: dict[str, Any]) -> None:
    task(atomic=True, isolation="process")(work)
    other["OPTIONS"] = {"isolation_level": 4}

    assert 'OPTIONS["queues"] = {name: {"isolation": "process"}}' in found(database="other")["djqueue.E005"]


def test_e005_a_stricter_level_may_also_come_from_the_server(db: None) -> None:
    task(atomic=True)(work)
    with connection.cursor() as cursor:
        cursor.execute("set default_transaction_isolation = 'repeatable read'")

    assert "djqueue.E005" not in ours()
    assert "tests.api.test_checks.work: atomic=True" in ours(["default"])["djqueue.E005"]


def test_e006_a_module_of_tasks_that_can_not_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    said = found(task_modules=["no.such.module"])["djqueue.E006"]

    assert "can't be imported: ModuleNotFoundError: No module named 'no'" in said


def test_e007_two_tasks_that_claim_one_name() -> None:
    task(aliases=["old"])(work)
    task(aliases=["old"])(more_work)

    assert "the alias 'old' is a name of tests.api.test_checks.work already" in ours()["djqueue.E007"]


def test_e008_a_server_that_is_too_old(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("djqueue.checks.OLDEST_POSTGRESQL", 99)

    assert "djqueue.E008" not in ours()
    assert "djqueue needs 99 or later" in ours(["default"])["djqueue.E008"]


class KeepAway:
    """A router that keeps djqueue's tables out of every database."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Refuse."""
        return False if app_label == "djqueue" else None


def test_e009_a_router_that_keeps_the_tables_away() -> None:
    with override_settings(DATABASE_ROUTERS=[KeepAway()]):
        assert "keep djqueue's tables away from 'default'" in ours()["djqueue.E009"]


@pytest.mark.parametrize("path", ["no.such.module", "testproject.trials.mortal.CAUSES", "nodots"])
def test_e010_a_redact_hook_that_is_no_function(path: str) -> None:
    assert f"got {path!r}" in found(redact=path)["djqueue.E010"]


def test_e010_says_nothing_of_a_function() -> None:
    assert "djqueue.E010" not in found(redact="testproject.trials.mortal.without_card_numbers")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["stripe"], "circuits: expected a dict of circuit names to settings, got ['stripe']"),
        ({"stripe": 3}, "circuits['stripe']: expected a dict of settings, got 3"),
        ({"": {}}, "circuits['']: expected a name of 1 to 100 characters"),
        ({"stripe": {"probe": 3}}, "circuits['stripe']: unknown setting 'probe' (did you mean 'probes'?); known are"),
        ({"stripe": {"failure_ratio": 50}}, "failure_ratio: expected a number from 1e-06 to 1, got 50"),
        ({"stripe": {"min_calls": 2.5}}, "min_calls: expected a whole number from 1 to 100,000, got 2.5"),
        ({"stripe": {"probes": True}}, "probes: expected a whole number from 1 to 1,000, got True"),
    ],
)
def test_e001_settings_of_circuits_have_limits(wrong: Any, words: str) -> None:
    assert words in found(circuits=wrong)["djqueue.E001"]


def test_w006_settings_of_a_circuit_that_no_task_names() -> None:
    task(circuit="stripe")(work)

    assert (
        "'strip' has settings, but no task names it (did you mean 'stripe'?)"
        in found(circuits={"strip": {}})["djqueue.W006"]
    )
    assert "djqueue.W006" not in found(circuits={"stripe": {"probes": 1}})


@pytest.mark.parametrize("wrong", [{"dead_letter_days": 0}, {"digest_seconds": -1}, {"redact": 3}])
def test_e001_options_of_dead_letters_have_limits(wrong: dict[str, Any]) -> None:
    assert next(iter(wrong)) in found(**wrong)["djqueue.E001"]


def test_dead_letters_may_be_kept_for_ever() -> None:
    assert found(dead_letter_days=None) == {}


def test_w001_jobs_that_are_not_written_to_the_default_database(other: dict[str, Any]) -> None:
    assert "jobs are written to 'other'" in found(database="other")["djqueue.W001"]


@pytest.mark.parametrize(
    ("pool", "size"), [(True, 4), ({}, None), ({"min_size": 2, "max_size": 7}, 7), ({"max_size": 8}, None)]
)
def test_w002_a_pool_that_is_smaller_than_a_worker_needs(other: dict[str, Any], pool: Any, size: int | None) -> None:
    other["OPTIONS"] = {"pool": pool}

    said = found(database="other").get("djqueue.W002")

    if size is None:
        assert said is None
    else:
        assert said is not None
        assert f"holds {size} connections, a worker with 8 slots needs 8" in said


def test_w003_djqueue_is_installed_and_not_used() -> None:
    with override_settings(TASKS={"default": DUMMY}):
        assert list(ours()) == ["djqueue.W003"]


def test_w004_the_backport_is_not_installed(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr("djqueue.checks.TASKS_LOGGER", "django_tasks")
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_tasks"]

    said = found(poll_seconds=0)

    assert "which is not in INSTALLED_APPS" in said["djqueue.W004"]
    assert "poll_seconds" in said["djqueue.E001"]


def test_w005_settings_for_a_queue_that_is_not_listed() -> None:
    assert "'mails' has settings, but is not one of QUEUES" in found(queues={"mails": {}})["djqueue.W005"]


def test_several_mistakes_are_reported_together() -> None:
    assert {"djqueue.E001", "djqueue.E003", "djqueue.E006", "djqueue.W005"} <= set(
        found(database="jobs", poll_seconds=0, task_modules=["no.such.module"], queues={"mails": {}})
    )


def test_missing_upgrades_are_named() -> None:
    task(version=4, upgrades={1: lambda args, kwargs: (args, kwargs), 3: lambda args, kwargs: (args, kwargs)})(work)
    task(version=2)(more_work)

    said = found()["djqueue.E011"]

    assert "test_checks.work: version=4: upgrades: expected functions for versions 1 to 3, got none for 2" in said
    assert "test_checks.more_work: version=2: upgrades: expected functions for versions 1 to 1, got none for 1" in said
