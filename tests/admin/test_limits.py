"""Limits and tenants in the admin: how full they are, and what people set instead."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from djqueue.models import Limiter, Queue, Tenant
from djqueue.policy.gates import Gate, gate, queue_gate
from djqueue.store import limits
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import act, add_to, list_of, page_of, text_of

PARTNER = limits.of_key("partner")
NASTY = "<script>alert('\u202e')</script>"


def make_limiter(name: str = PARTNER, **fields: object) -> Limiter:
    return Limiter.objects.create(name=name, **{"label": "key partner", "declared_running": 4, **fields})


def make_tenant(tenant_id: str = "acme", **fields: object) -> Tenant:
    base = {"queue_name": "emails", "gate": gate(Gate.TENANT, tenant_id)}
    return Tenant.objects.create(tenant_id=tenant_id, **{**base, **fields})


def test_a_limit_shows_how_full_it_is_and_whose_number_counts(login: Login) -> None:
    make_limiter()
    make_limiter(limits.of_rate("maps"), label="key maps", declared_running=None, declared_rate=0.5, declared_burst=3)
    make_limiter(queue_gate("emails"), label="queue emails", max_running=2)
    for _ in range(3):
        rows.make_running_job(lane=f"{PARTNER}:{gate(Gate.TENANT, 'acme')}", tenant_id="acme")

    page = text_of(login("view_limiter").get(list_of("limiter")))

    assert "3 of 4" in page
    assert "3 of 2" in page
    assert "30 per minute, 3 at once" in page
    assert page.count(">full<") == 1


def test_people_s_numbers_are_set_beside_those_of_the_code_and_taken_back(login: Login) -> None:
    client = login("view_limiter", "change_limiter")
    limiter = make_limiter()

    client.post(page_of(limiter), {"max_running": "9", "rate": "0.5", "burst": ""})
    limiter.refresh_from_db()
    assert (limiter.max_running, limiter.rate, limiter.burst, limiter.declared_running) == (9, 0.5, 1.0, 4)

    client.post(page_of(limiter), {"max_running": "", "rate": "", "burst": ""})
    limiter.refresh_from_db()
    assert (limiter.max_running, limiter.rate, limiter.declared_running) == (None, None, 4)
    assert LogEntry.objects.count() == 2


def test_a_limit_is_paused_for_a_while_and_resumed(login: Login) -> None:
    client = login("view_limiter", "change_limiter")
    limiter = make_limiter()

    [paused] = act(client, "pause", [limiter], span="4h", reason="they asked us to")
    [*_, shorter] = act(client, "pause", [limiter], span="15m")
    limiter.refresh_from_db()
    assert limiter.paused_until is not None
    assert abs(limiter.paused_until - timezone.now() - timedelta(hours=4)) < timedelta(minutes=1)
    assert "they asked us to" in text_of(client.get(list_of("limiter")))
    [*_, resumed] = act(client, "resume", [limiter])

    limiter.refresh_from_db()
    assert limiter.paused_until is None
    assert (paused, resumed) == ("1 paused for four hours.", "1 resumed.")
    assert shorter == "0 paused for 15 minutes. Refused: 1 paused for longer already."
    assert [entry.change_message for entry in LogEntry.objects.order_by("id")] == [
        "Paused for four hours. they asked us to",
        "Resumed.",
    ]


def test_who_may_only_look_sets_and_pauses_nothing(login: Login) -> None:
    client = login("view_limiter", "view_tenant")
    limiter, tenant = make_limiter(), make_tenant()

    client.post(page_of(limiter), {"max_running": "9"})
    act(client, "pause", [limiter])
    client.post(page_of(tenant), {"max_running": "9"})

    limiter.refresh_from_db()
    tenant.refresh_from_db()
    assert (limiter.max_running, limiter.paused_until, tenant.max_running) == (None, None, None)


def test_the_top_tenants_stand_first_with_their_share_of_what_runs(login: Login) -> None:
    for tenant, running in (("acme", 3), ("globex", 1)):
        make_tenant(tenant)
        for _ in range(running):
            rows.make_running_job(tenant_id=tenant)
    Tenant.objects.create(queue_name="emails", tenant_id="", gate="", virtual_seconds=9)

    page = text_of(login("view_tenant").get(list_of("tenant")))

    top = page.partition('aria-label="Top tenants"')[2].partition("</table>")[0]
    assert top.index("acme") < top.index("globex")
    assert "3 of 4 (75 %)" in top
    assert "2 tenants" in page


def test_a_tenant_is_given_a_cap_and_a_weight_before_and_after_its_first_job(login: Login) -> None:
    client = login("view_tenant", "add_tenant", "change_tenant")
    Queue.objects.create(name="emails")

    client.post(add_to("tenant"), {"queue_name": "emails", "tenant_id": "acme", "max_running": "2", "weight": "3"})
    tenant = Tenant.objects.get()
    assert (tenant.max_running, tenant.weight, tenant.gate) == (2, 3.0, gate(Gate.TENANT, "acme"))

    client.post(page_of(tenant), {"max_running": "", "weight": "0.5", "tier": "gold"})
    tenant.refresh_from_db()
    assert (tenant.max_running, tenant.weight, tenant.tier, tenant.tenant_id) == (None, 0.5, "gold", "acme")
    assert LogEntry.objects.count() == 2


@pytest.mark.parametrize("weight", ["0", "-1", "x"])
def test_a_weight_out_of_its_limits_is_refused(login: Login, weight: str) -> None:
    client = login("view_tenant", "change_tenant")
    tenant = make_tenant()

    assert "Please correct the error below" in text_of(client.post(page_of(tenant), {"weight": weight}))


def test_a_tenant_is_found_by_its_exact_id(login: Login) -> None:
    client = login("view_tenant")
    make_tenant()

    assert "1 tenant" in text_of(client.get(list_of("tenant"), {"q": "acme"}))
    assert "0 tenants" in text_of(client.get(list_of("tenant"), {"q": "acm"}))


def test_whatever_stands_there_is_escaped_and_costs_few_queries(login: Login) -> None:
    client = login("view_limiter", "view_tenant")
    limiter = make_limiter(label=NASTY, paused_until=rows.LAST_MOMENT, paused_reason=NASTY)
    tenant = make_tenant(NASTY, queue_name=NASTY, tier=NASTY)
    rows.make_running_job(tenant_id=NASTY, queue_name=NASTY)

    for address in (list_of("limiter"), page_of(limiter), list_of("tenant"), page_of(tenant)):
        with CaptureQueriesContext(connection) as found:
            page = text_of(client.get(address))
        assert "<script>alert" not in page
        assert len(found) <= 12


def test_a_queue_s_own_limits_are_set_on_its_page(login: Login) -> None:
    client = login("*")
    queue = Queue.objects.create(name="emails")
    form = {"paused_until_0": "", "paused_until_1": "", "paused_reason": "", "max_running": "5", "rate_limit": "100/m"}

    client.post(page_of(queue), {**form, "tenant_max_running": "2", "target_seconds": "30"})
    wrong = text_of(client.post(page_of(queue), {**form, "rate_limit": "often"}))

    queue.refresh_from_db()
    assert (queue.max_running, queue.rate_limit, queue.tenant_max_running, queue.target_seconds) == (5, "100/m", 2, 30)
    assert "expected a number of starts per unit of time" in wrong
