"""Tenants' shares: virtual time grows by run time ÷ weight, and a rest saves nothing up."""

from djqueue.policy.gates import Gate, gate
from djqueue.store import db, tenants
from djqueue.store.tenants import Used
from tests.store.factories import ALIAS, add, bend

TIERS = '{"q": {"pro": 4}}'


def virtual() -> dict[str, float]:
    return {each.tenant_id: each.virtual_seconds for each in tenants.of_queue(ALIAS, "q")}


def advance(*used: tuple[str, float]) -> None:
    tenants.advance(ALIAS, [Used("q", tenant, 1, seconds) for tenant, seconds in used], TIERS)


def test_run_time_counts_by_weight_or_tier(store: str) -> None:
    tenants.set_tenant(ALIAS, "q", "heavy", weight=2)
    tenants.set_tenant(ALIAS, "q", "pro", tier="pro")

    advance(("plain", 8), ("heavy", 8), ("pro", 8))

    assert virtual() == {"plain": 8, "heavy": 4, "pro": 2}


def test_a_tenant_that_comes_back_starts_at_the_queues_own_time(store: str) -> None:
    advance(("a", 100), ("b", 120))
    advance(("new", 1))

    assert virtual()["new"] == 101


def test_a_tenant_whose_long_job_still_runs_is_not_taken_for_resting(store: str) -> None:
    advance(("slow", 1), ("quick", 1))
    add(1, lane=gate(Gate.TENANT, "slow"), tenant_id="slow")
    bend("state = 'leased', attempts = 1, leased_by = 'w', lease_until = now() + '1 h'")
    advance(("quick", 50))

    advance(("slow", 10))

    assert virtual() == {"slow": 11, "quick": 51}


def test_settings_can_be_taken_back_and_rows_without_any_are_forgotten(store: str) -> None:
    tenants.set_tenant(ALIAS, "q", "a", max_running=3)
    assert tenants.capped_queues(ALIAS) == ["q"]
    tenants.set_tenant(ALIAS, "q", "a")
    tenants.set_tenant(ALIAS, "q", "kept", tier="pro")
    advance(("a", 1), ("kept", 1), ("today", 1))
    assert tenants.capped_queues(ALIAS) == []

    db.rows(ALIAS, "update djqueue_tenant set used_at = now() - interval '2 days' where tenant_id <> 'today'")

    assert tenants.forget(ALIAS) == 1
    assert set(virtual()) == {"kept", "today"}
