"""Little's law: waiting is what waits divided by what leaves."""

from djqueue.policy.forecast import Flow, forecast


def flow(**fields: float) -> Flow:
    base = {"ready": 0, "leased": 0, "left": 0, "busy_seconds": 0.0, "window_seconds": 60.0}
    return Flow(**{**base, **fields})  # type: ignore[arg-type]


def test_a_thousand_jobs_at_ten_a_second_take_a_hundred_seconds() -> None:
    found = forecast(flow(ready=1_000, leased=50, left=600, busy_seconds=240))

    assert found.per_second == 10
    assert found.wait_seconds == 100
    assert found.drain_seconds == 105
    assert found.busy_slots == 4


def test_an_empty_queue_is_drained_whether_or_not_anything_left_it() -> None:
    assert forecast(flow()).drain_seconds == 0
    assert forecast(flow(left=100)).wait_seconds == 0


def test_a_queue_that_nothing_leaves_is_never_drained() -> None:
    found = forecast(flow(ready=1, window_seconds=0))

    assert (found.wait_seconds, found.drain_seconds) == (None, None)


def test_the_last_jobs_that_run_are_waited_for_as_well() -> None:
    found = forecast(flow(leased=10, left=60))

    assert (found.wait_seconds, found.drain_seconds) == (0, 10)
