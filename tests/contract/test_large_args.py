"""Arguments that are too large for a row: a file that comes and goes with its job."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.core import checks
from django.core.files.storage import storages
from django.db import DatabaseError, connection, transaction
from django.test import Client, override_settings
from django.urls import reverse

from djqueue.compat import InvalidTask, TaskResultStatus
from djqueue.exceptions import ArgumentsError
from djqueue.models import DeadLetter
from djqueue.runtime import largeargs
from djqueue.store import db, operate
from djqueue.testing import assert_enqueued, run_jobs
from tests.contract.examples import add, fail, receipt, say

LARGE = "x" * 5_000
DAY = timedelta(days=1)
OPTIONS = {"large_args": "args", "large_args_over_bytes": 1_000, "large_args_max_bytes": 20_000}

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The storage's files, for a backend that uses it."""
    backend = {"BACKEND": "djqueue.backend.DjqueueBackend", "QUEUES": [], "OPTIONS": OPTIONS}
    kept = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    with override_settings(TASKS={"default": backend}, STORAGES={"args": kept, "default": kept, "staticfiles": plain}):
        yield tmp_path


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def row(id_: str) -> dict[str, Any]:
    [(args,)] = db.rows("default", "select args::text from djqueue_job where id = %(id)s", {"id": id_})
    found: dict[str, Any] = json.loads(args)
    return found


def age(seconds: float) -> Any:
    """Let jobs be enqueued as if so long ago, by the clock that their ids are made with."""
    return mock.patch("djqueue.policy.ids.time.time_ns", lambda: int((time.time() - seconds) * 1e9))


def test_large_arguments_go_to_a_file_and_reach_the_handler(folder: Path) -> None:
    result = say.enqueue(LARGE)

    [file] = files(folder)
    stored = row(result.id)["file"]
    assert (result.args, file.name) == ([LARGE], f"{result.id}.json")
    assert row(result.id)["args"] == []
    assert (stored["storage"], stored["bytes"], folder / stored["name"]) == ("args", file.stat().st_size, file)
    assert run_jobs().succeeded == 1
    found = say.get_result(result.id)
    assert (found.args, found.return_value) == ([LARGE], LARGE)


def test_small_arguments_stay_in_the_row(folder: Path) -> None:
    assert "file" not in row(say.enqueue("x" * 900).id)
    assert files(folder) == []


def test_a_batch_has_a_file_for_each_large_row(folder: Path) -> None:
    results = say.enqueue_many([(LARGE,), ("small",), (LARGE,)])

    assert len(files(folder)) == 2
    assert [result.args for result in results] == [[LARGE], ["small"], [LARGE]]
    assert run_jobs().succeeded == 3


def test_a_task_may_want_no_file_or_another_storage(folder: Path) -> None:
    replace(say, large_args="").enqueue(LARGE)
    assert files(folder) == []
    replace(say, large_args="default").enqueue(LARGE)
    assert len(files(folder)) == 1
    with pytest.raises(InvalidTask, match="large_args: expected an alias of STORAGES, '' or None, got 7"):
        replace(say, large_args=7)  # type: ignore[arg-type]


def test_what_is_too_large_even_for_a_file_is_refused(folder: Path) -> None:
    with pytest.raises(ArgumentsError, match="expected at most 20,000 bytes of JSON"):
        say.enqueue("x" * 20_001)

    assert files(folder) == []


def test_the_error_without_a_storage_names_the_option() -> None:
    with pytest.raises(ArgumentsError, match="or let the option large_args put arguments into a storage"):
        say.enqueue("x" * 1_000_001)


def test_a_duplicate_leaves_no_file_and_a_replacement_is_refused(folder: Path) -> None:
    receipt.enqueue(7, copies=LARGE)  # type: ignore[arg-type]

    assert not receipt.enqueue(7, copies=LARGE).created  # type: ignore[arg-type]
    assert len(files(folder)) == 1
    with pytest.raises(ArgumentsError, match="on_conflict='replace': expected arguments of at most 1,000 bytes"):
        receipt.using(on_conflict="replace").enqueue(7, copies=LARGE)  # type: ignore[arg-type]


def test_an_enqueue_that_the_database_refuses_leaves_no_file(folder: Path) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("alter table djqueue_job add constraint refuse check (priority <> 3) not valid")
        say.using(priority=3).enqueue(LARGE)

    assert files(folder) == []


def test_a_missing_file_is_permanent_and_says_where_it_should_be(folder: Path) -> None:
    result = say.enqueue(LARGE)
    [file] = files(folder)
    content = file.read_bytes()
    file.unlink()

    assert run_jobs(due_now=True).states == {"dead": 1}
    letter = DeadLetter.objects.get()
    assert f"{result.id}.json' of the storage 'args', but there is no such file; put it back" in letter.reason

    file.write_bytes(content)
    operate.requeue("default", [letter.pk])
    assert run_jobs().succeeded == 1


def test_a_file_that_was_changed_is_permanent(folder: Path) -> None:
    say.enqueue(LARGE)
    [file] = files(folder)
    file.write_text('{"args": ["other"], "kwargs": {}}')

    assert run_jobs(due_now=True).states == {"dead": 1}
    assert "are not those that were written" in DeadLetter.objects.get().reason


def test_a_storage_that_is_away_for_a_while_is_tried_again(folder: Path) -> None:
    say.enqueue(LARGE)

    with mock.patch.object(storages["args"], "open", side_effect=ConnectionError("storage is away")):
        assert run_jobs().states == {"scheduled": 1}
    assert run_jobs(due_now=True).succeeded == 1


def test_retries_and_requeues_read_the_file_again(folder: Path) -> None:
    fail.enqueue(LARGE)

    assert run_jobs(due_now=True).states == {"ready": 1, "dead": 1}
    assert operate.requeue("default", [DeadLetter.objects.get().pk]).ids
    assert run_jobs(due_now=True).states == {"ready": 1, "dead": 1}
    assert_enqueued(fail, count=1)


def test_files_go_a_day_after_their_jobs_and_no_others(folder: Path) -> None:
    with age(90_000):
        gone, kept = say.enqueue(LARGE), say.enqueue(LARGE)
        with transaction.atomic():
            say.enqueue(LARGE)
            transaction.set_rollback(True)
    young = say.enqueue(LARGE)
    db.rows("default", "delete from djqueue_job where id = any(%(ids)s::uuid[])", {"ids": [gone.id, young.id]})
    foreign = folder / "djqueue_args/of_another_database/1/" / f"{gone.id}.json"
    stranger = next(path for path in files(folder) if path.stem == gone.id).parent / "notes.txt"
    foreign.parent.mkdir(parents=True)
    for path in (foreign, stranger):
        path.write_text("not ours")

    assert sum(largeargs.sweep("default")) == 2

    left = {path.stem for path in files(folder)} - {"notes"}
    assert left == {kept.id, young.id, gone.id}
    assert foreign.exists()
    assert stranger.exists()
    assert run_jobs().succeeded == 1
    assert sum(largeargs.sweep("default")) == 0


def test_without_a_storage_nothing_is_swept() -> None:
    assert largeargs.storages_in_use() == set()
    assert list(largeargs.sweep("default")) == []


def test_a_storage_in_trouble_does_not_end_the_sweep(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with mock.patch.object(storages["args"], "listdir", side_effect=RuntimeError("no such bucket")):
        assert list(largeargs.sweep("default")) == []

    assert "files of arguments can't be swept storage=args error=no such bucket" in caplog.text


def test_an_alias_that_is_no_storage_is_reported(folder: Path) -> None:
    backend = {"BACKEND": "djqueue.backend.DjqueueBackend", "QUEUES": [], "OPTIONS": {"large_args": "arg"}}
    with override_settings(TASKS={"default": backend}):
        found = [str(each) for each in checks.run_checks() if each.id == "djqueue.E012"]

    [said] = found
    assert "large_args: expected an alias of STORAGES (args, default, staticfiles), got 'arg' (did you mean" in said


def client(*codenames: str) -> Client:
    user = User.objects.create(username="ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    found = Client()
    found.force_login(user)
    return found


def test_the_admin_serves_the_file_to_those_who_may_see_payloads(folder: Path) -> None:
    id_ = say.enqueue(LARGE).id
    page, file = (reverse(f"admin:djqueue_job_{what}", args=[id_]) for what in ("change", "arguments"))

    seen = client("view_job", "view_payload")
    assert f'<a href="{file}">Download the arguments</a>' in seen.get(page).content.decode()
    answer = seen.get(file)
    assert json.loads(answer.content) == {"args": [LARGE], "kwargs": {}}
    assert answer["Content-Disposition"] == f'attachment; filename="{id_}.json"'
    files(folder)[0].unlink()
    assert seen.get(file).status_code == 404
    User.objects.all().delete()
    other = client("view_job")
    assert "Download" not in other.get(page).content.decode()
    assert other.get(file).status_code == 403
    assert seen.get(reverse("admin:djqueue_job_arguments", args=[UUID(int=1)])).status_code in (302, 404)


def test_a_copy_in_the_admin_has_a_file_of_its_own_and_an_edited_letter_keeps_it(folder: Path) -> None:
    fail.enqueue(LARGE)
    run_jobs(due_now=True)
    letter = DeadLetter.objects.get()
    ada = client("view_deadletter", "view_payload", "duplicate_job", "edit_deadletter", "view_job")
    reference = json.dumps(letter.args)
    wanted = {"arguments": reference, "queue": "default", "priority": "0", "reason": ""}

    copied = ada.post(reverse("admin:djqueue_deadletter_copy", args=[letter.pk]), wanted)
    assert copied.status_code == 302, copied.content.decode()
    assert len(files(folder)) == 2
    edited = ada.post(reverse("admin:djqueue_deadletter_edit", args=[letter.pk]), {"arguments": reference})
    assert edited.status_code == 302, edited.content.decode()

    assert row(str(letter.pk))["file"] == letter.args["file"]
    assert run_jobs(due_now=True).states == {"ready": 2, "dead": 2}
    assert {each.errors[-1]["message"] for each in DeadLetter.objects.all()} == {LARGE}


def test_arguments_of_a_job_without_a_file_are_at_no_address(folder: Path) -> None:
    id_ = add.enqueue(1).id

    assert client("view_job", "view_payload").get(reverse("admin:djqueue_job_arguments", args=[id_])).status_code == 404


def test_a_result_whose_file_is_gone_can_still_be_asked(folder: Path) -> None:
    result = say.enqueue(LARGE)
    files(folder)[0].unlink()

    found = say.get_result(result.id)

    assert (found.status, found.args) == (TaskResultStatus.READY, [])
