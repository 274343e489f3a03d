"""Whether acks wait for the disk: seen from inside their transactions."""

import pytest

from testproject.trials import tasks
from tests.runtime.trial import Trial, history, rows

pytestmark = pytest.mark.slow

WITNESS = """
create table witness (setting text);
create function see() returns trigger language plpgsql as $$
begin insert into witness values (current_setting('synchronous_commit')); return null; end $$;
create trigger witness after insert on djqueue_history for each row execute function see();
"""


@pytest.mark.parametrize(("durable", "expected"), [(True, "on"), (False, "off")])
def test_an_ack_alone_waits_for_the_disk_unless_it_may_not(trial: Trial, durable: bool, expected: str) -> None:
    rows(WITNESS)
    trial.supervisor("--max-jobs", "1", options={"durable_acks": durable})  # it claims nothing more meanwhile
    tasks.hold.enqueue("alone", trial.file("go"))
    trial.wait_for_starts("alone")
    trial.make("go")
    trial.wait_until_done()

    assert history() == {"succeeded": 1}
    assert rows("select setting from witness") == [(expected,)]


def test_the_ack_of_an_atomic_handler_waits_for_the_disk_in_any_case(trial: Trial) -> None:
    rows(WITNESS)
    tasks.count.enqueue("nothing")
    trial.supervisor("--threads", "1", options={"durable_acks": False})
    trial.wait_until_done()

    assert rows("select setting from witness") == [("on",)]
