"""The jobs of an object on its page, beside a form that saves as ever."""

from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from djqueue.models import Job
from testproject.shop.models import Order
from testproject.shop.tasks import send_receipt
from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import text_of

FORM = {"number": "A2", "customer_email": "b@example.org", "total": "2"}


@pytest.fixture
def order(db: None) -> Order:
    return Order.objects.create(number="A1", customer_email="a@example.org", total=Decimal(1))


def address(order: Order) -> str:
    return f"/admin/shop/order/{order.pk}/change/"


def test_an_object_shows_its_jobs_in_all_places_and_leads_to_all(login: Login, order: Order) -> None:
    client = login("*")
    subject = {"options": {"subject": f"shop.order:{order.pk}"}}
    send_receipt.using(subject=order).enqueue(order.pk)
    mine = [Job.objects.get(), rows.make_finished(**subject), rows.make_dead_letter(**subject)]
    other = rows.make_job(options={"subject": "shop.order:0"})

    page = text_of(client.get(address(order)))

    assert all(str(job.pk) in page for job in mine)
    assert str(other.pk) not in page
    assert f"q=subject%3Ashop.order%3A{order.pk}" in page


def test_the_form_around_it_saves_as_ever(login: Login, order: Order) -> None:
    client = login("*")
    job = rows.make_job(options={"subject": f"shop.order:{order.pk}"})

    assert client.post(address(order), FORM).status_code == 302
    assert client.post("/admin/shop/order/add/", {**FORM, "number": "A3"}).status_code == 302
    assert "No job has been enqueued" in text_of(client.get("/admin/shop/order/add/"))

    order.refresh_from_db()
    job.refresh_from_db()
    assert (order.number, Order.objects.count(), Job.objects.count()) == ("A2", 2, 1)


def test_who_may_not_see_jobs_sees_none_there(tables: None, order: Order) -> None:
    job = rows.make_job(options={"subject": f"shop.order:{order.pk}"})
    user = User.objects.create_user("grace", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_order", "change_order"]))
    client = Client()
    client.force_login(user)

    page = text_of(client.get(address(order)))

    assert str(job.pk) not in page
    assert "djq-inline" not in page


def test_it_costs_the_same_for_one_job_and_for_many(
    login: Login, order: Order, django_assert_max_num_queries: Any
) -> None:
    client = login("*")
    for _ in range(30):
        rows.make_job(options={"subject": f"shop.order:{order.pk}"})

    with django_assert_max_num_queries(8):
        page = text_of(client.get(address(order)))

    assert page.count('/change/">testproject') == 20
