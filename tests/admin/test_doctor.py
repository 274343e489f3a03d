"""The doctor's page: for those who may order workers; it shows each finding with its remedy, and takes no orders."""

from django.urls import reverse

from djqueue.models import Queue
from djqueue.store import history
from tests.admin.conftest import Login
from tests.admin.pages import text_of


def page() -> str:
    return reverse("admin:djqueue_doctor")


def test_findings_are_shown_with_their_remedy(login: Login) -> None:
    Queue.objects.create(name="<b>q</b>", max_running=0)

    answer = login("view_worker", "order_worker").get(page())

    assert "expected max_running of queue &lt;b&gt;q&lt;/b&gt; to be 1 or more, got 0" in text_of(answer)
    assert "Raise it, or pause it." in text_of(answer)


def test_nothing_is_wrong_where_all_is_well(login: Login) -> None:
    client = login("*")
    history.db.rows("default", "drop table if exists djqueue_history_of_the_test")
    history.ensure_partitions("default")

    assert "Nothing is wrong." in text_of(client.get(page()))


def test_it_takes_the_permission_to_order_workers_and_no_orders(login: Login) -> None:
    looking = login("view_worker", "view_job")
    assert looking.get(page()).status_code == 403
    assert page() not in looking.get(reverse("admin:app_list", args=["djqueue"])).content.decode()


def test_it_is_only_looked_at(login: Login) -> None:
    client = login("*")
    assert client.post(page(), {}).status_code == 405
    assert page() in client.get(reverse("admin:app_list", args=["djqueue"])).content.decode()
