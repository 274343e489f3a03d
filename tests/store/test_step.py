"""Stepping from lane to lane: closed gates are jumped over, capped ones give what is left, no lane is left out."""

from collections import Counter

from djqueue.store import db, lanes, step
from djqueue.store.lanes import Walk
from tests.store.factories import ALIAS, add, request


def close(lane: str, until: str = "infinity", queue: str = "q") -> None:
    db.rows(
        ALIAS,
        "insert into djqueue_lane (queue_name, lane, closed_until) values (%(queue)s, %(lane)s, %(until)s)",
        {"queue": queue, "lane": lane, "until": until},
    )


def cap(lane: str, most: int) -> None:
    db.rows(
        ALIAS,
        "insert into djqueue_lane (queue_name, lane, max_running) values ('q', %(lane)s, %(most)s)",
        {"lane": lane, "most": most},
    )


def walk(limit: int, from_lane: str = "", per_lane: int = 1, max_steps: int = 200) -> tuple[dict[str, int], str | None]:
    """Claim by stepping; return how many came of which lane, and the lane to go on from."""
    way = Walk(queue_name="q", from_lane=from_lane, per_lane=per_lane, max_steps=max_steps)
    walked = step.step(ALIAS, request(limit), way)
    return dict(Counter(job.lane for job in walked.jobs)), walked.cursor


def fill(*lanes: str, each: int = 3) -> None:
    for lane in lanes:
        add(each, lane=lane)


def test_stepping_takes_a_share_of_each_lane_and_goes_on_where_it_stopped(store: str) -> None:
    fill("", "t0", "t1", "t2", "t3")

    taken, cursor = walk(3)
    assert (taken, cursor) == ({"": 1, "t0": 1, "t1": 1}, "t1\x01")
    assert walk(3, cursor or "") == ({"t2": 1, "t3": 1}, None)
    assert walk(3) == ({"": 1, "t0": 1, "t1": 1}, "t1\x01")


def test_a_turn_of_steps_leaves_no_lane_out(store: str) -> None:
    """Also with lanes that begin alike."""
    lanes = ["", "a", "a:", "a:b", "ab", "b", "b:1", "c"]
    fill(*lanes, each=1)
    seen: Counter[str] = Counter()
    cursor: str | None = ""
    while cursor is not None:
        taken, cursor = walk(1, cursor)
        seen.update(taken)

    assert seen == dict.fromkeys(lanes, 1)


def test_a_batch_is_filled_from_few_lanes_when_each_may_give_more(store: str) -> None:
    fill("a", "b", "c", each=9)

    assert walk(7, per_lane=5)[0] == {"a": 5, "b": 2}


def test_an_empty_queue_has_no_lane_to_go_on_from(store: str) -> None:
    assert walk(3) == ({}, None)
    assert walk(3, "x") == ({}, None)


def test_closed_lanes_are_passed_over(store: str) -> None:
    fill("a", "b", "c")
    close("b")
    close("c", "-infinity")
    close("a", queue="another")

    assert walk(9) == ({"a": 1, "c": 1}, None)
    assert lanes.lanes(ALIAS, "q", 9) == [("a", True), ("b", False), ("c", True)]


def test_a_closed_gate_is_jumped_over_with_all_its_lanes_in_one_step(store: str) -> None:
    fill("a", "g", *(f"g:{n:03}" for n in range(50)), "g:z", "h")
    close("g")

    assert walk(9, max_steps=5) == ({"a": 1, "h": 1}, None)
    assert walk(9, "g:\x01", max_steps=2) == ({"h": 1}, "h\x01")


def test_a_gate_closes_its_own_lanes_only(store: str) -> None:
    fill("g", "g1", "g1:x", "g:x")
    close("g1")

    assert walk(9)[0] == {"g": 1, "g:x": 1}


def test_steps_are_bounded_and_the_next_turn_goes_on(store: str) -> None:
    fill(*(f"c{n}" for n in range(6)), "open")
    for n in range(6):
        close(f"c{n}")

    assert walk(5, max_steps=4) == ({}, "c3\x01")
    assert walk(5, "c3\x01", max_steps=4) == ({"open": 1}, None)


def test_a_capped_lane_gives_only_what_its_cap_leaves(store: str) -> None:
    fill("a", "b", each=9)
    cap("a", 3)

    assert walk(20, per_lane=2)[0] == {"a": 2, "b": 2}
    assert walk(20, per_lane=9)[0] == {"a": 1, "b": 7}
    assert walk(20, per_lane=9)[0] == {}


def test_a_cap_of_none_at_all_claims_nothing(store: str) -> None:
    fill("a")
    cap("a", 0)

    assert walk(9)[0] == {}


def test_the_list_of_lanes_is_as_long_as_asked_for(store: str) -> None:
    fill("", "a", "b", "c")

    assert lanes.lanes(ALIAS, "q") == [("", True), ("a", True)]
    assert lanes.lanes(ALIAS, "q", 3) == [("", True), ("a", True), ("b", True)]
    assert lanes.lanes(ALIAS, "none") == []


def test_any_gate_of_a_lane_closes_it(store: str) -> None:
    fill("c1", "c1:r1", "c1:r1:t1", "c1:r2:t1", "r1", "t1")
    close("r1")

    assert walk(9) == ({"c1": 1, "c1:r2:t1": 1, "t1": 1}, None)


def test_lanes_that_begin_with_the_same_gates_up_to_a_closed_one_are_jumped_over_in_one_step(store: str) -> None:
    fill("c1:r0", *(f"c1:r1:t{n:02}" for n in range(40)), "c1:r2", each=1)
    close("r1")

    assert walk(9, max_steps=3) == ({"c1:r0": 1, "c1:r2": 1}, "c1:r2\x01")


def test_a_row_without_a_queue_closes_its_gate_in_every_queue(store: str) -> None:
    fill("c1", "c2")
    close("c1", queue="")

    assert walk(9)[0] == {"c2": 1}


def test_a_capped_gate_counts_the_leases_of_all_its_lanes(store: str) -> None:
    fill("c1", "c1:t1", "c1:t2")
    cap("c1", 2)
    step.step(ALIAS, request(1), Walk(queue_name="q", from_lane="c1:t2"))

    assert walk(9)[0] == {"c1": 1, "c1:t1": 1, "c1:t2": 1}  # each lane by itself: a cap is no hard limit
    assert walk(9)[0] == {}


def test_queues_with_lanes_are_those_with_claimable_jobs_in_other_lanes(store: str) -> None:
    add(1, queue_name="plain")
    add(1, queue_name="both")
    add(1, queue_name="both", lane="t1")
    add(1, queue_name="later", lane="t1", delay_seconds=60)

    assert lanes.laned(ALIAS, ["plain", "both", "later", "none"]) == ["both"]
