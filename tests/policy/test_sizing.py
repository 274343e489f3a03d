"""The back of the envelope: figures that people check by hand."""

import pytest

from djqueue.policy.sizing import Load, connections, rounded, size


def test_fifty_million_jobs_a_day_need_what_the_envelope_says() -> None:
    found = size(Load(jobs_per_day=50_000_000, peak=4, seconds=2, slots=10, row_bytes=1_000, days=7, headroom=0.3))

    assert found.enqueues_per_second == 2_310
    assert found.operations_per_second == 7_080
    assert found.in_flight == 4_630
    assert found.workers == 602
    assert found.storage_bytes == 350e9


def test_one_server_carries_what_it_is_trusted_with_and_the_rest_needs_more() -> None:
    assert size(Load(jobs_per_day=50_000_000, server_operations=7_080)).shards == 1
    assert size(Load(jobs_per_day=50_000_000, server_operations=7_079)).shards == 2


def test_the_smallest_load_needs_a_worker_and_a_server() -> None:
    found = size(Load(jobs_per_day=1))

    assert (found.workers, found.shards, found.connections) == (1, 1, connections(processes=1, slots=10))


@pytest.mark.parametrize(("number", "expected"), [(0, 0), (2_314.8, 2_310), (0.012345, 0.0123), (9_999, 10_000)])
def test_figures_are_rounded_to_three_digits(number: float, expected: float) -> None:
    assert rounded(number) == pytest.approx(expected)
