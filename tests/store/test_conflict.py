"""The change of a waiting job between an enqueuer's statements: what is claimed in that moment stays free of locks."""

import pytest

from djqueue.states import OnConflict
from djqueue.store import conflict, db
from djqueue.store.conflict import Terms
from tests.store.factories import ALIAS, Party, ack, add, add_one, count, new_job, parties, row, take_one

REPLACE = Terms(mode=OnConflict.REPLACE)


@pytest.mark.parametrize("keys", [["k"], ["k", "l"]], ids=["alone", "one of two"])
def test_a_job_claimed_while_the_change_waits_is_not_locked_by_it(
    committed: None, other: Party, keys: list[str]
) -> None:
    """The statement locks the row before it sees that the job runs by now; only a rollback takes that back."""
    ids = [add_one(dedupe_key=key) for key in keys]
    jobs = [new_job(dedupe_key=key, args='{"args": [2]}') for key in keys]
    other.begin()
    job = other.do(take_one)
    with parties(1) as [enqueuer]:
        enqueuer.begin()
        answer = enqueuer.start(conflict._change, ALIAS, jobs, REPLACE)
        enqueuer.wait_until_blocked()
        other.commit()

        assert answer.result(timeout=20) is None
        db.rows(ALIAS, "set lock_timeout to '2s'")
        assert ack(job) == {ids[0]}
        enqueuer.commit()


def test_many_holders_are_changed_in_one_statement(store: str) -> None:
    ids = [add_one(dedupe_key=f"k{n}") for n in range(3)]
    jobs = [new_job(dedupe_key=f"k{n}", args=f'{{"args": [{n}]}}', lane=f"l{n}", priority=4) for n in range(3)]

    found = conflict._change(ALIAS, jobs, REPLACE)

    assert found is not None
    assert {key: answer.id for key, answer in found.items()} == {f"k{n}": id_ for n, id_ in enumerate(ids)}
    assert [row(id_, "lane, priority, args -> 'args' ->> 0") for id_ in ids] == [(f"l{n}", 4, str(n)) for n in range(3)]


def test_a_suspect_that_is_replaced_stays_one(store: str) -> None:
    id_ = add_one(dedupe_key="k")
    db.rows(ALIAS, "update djqueue_job set suspect = true")

    conflict._change(ALIAS, [new_job(dedupe_key="k")], REPLACE)

    assert row(id_, "state, suspect") == ("ready", True)


def test_what_is_set_aside_stays_aside(store: str) -> None:
    id_ = add_one(dedupe_key="k")
    db.rows(ALIAS, "update djqueue_job set state = 'parked', parked_for = 'task:t'")

    conflict._change(ALIAS, [new_job(dedupe_key="k")], REPLACE)

    assert row(id_, "state, parked_for") == ("parked", "task:t")
    assert add(1)
    assert count() == 2
