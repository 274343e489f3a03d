"""The retry budget on a queue's page."""

from djqueue.models import Queue
from djqueue.policy.budget import BudgetOptions
from djqueue.store import budget
from tests.admin.conftest import Login
from tests.admin.pages import page_of, text_of


def test_a_queue_s_page_says_how_many_retries_were_pushed_later(login: Login) -> None:
    client = login("view_queue")
    queue = Queue.objects.create(name="emails")
    assert "retries were pushed later" not in text_of(client.get(page_of(queue)))

    budget.spend("default", {"emails": 130}, BudgetOptions(ratio=0.1, floor_per_second=2))

    assert "2.0 per second; 10 of 130 retries were pushed later, the last " in text_of(client.get(page_of(queue)))
