"""Every page of djqueue is whole in django-unfold's frame, and acts work there."""

import pytest
from django.test import Client

from djqueue.models import Job
from tests.admin import rows
from tests.admin.addresses import addresses, one_of_each
from tests.admin.conftest import Login
from tests.admin.pages import list_of, page_of, text_of, told


def test_every_page_stands_in_the_frame_of_unfold(login: Login) -> None:
    client = login("*")
    seen = 0

    for name, address in addresses(one_of_each()):
        response = client.get(address, follow=True)
        if response.status_code in (403, 404, 405):
            continue
        page = text_of(response)
        assert page.rstrip().endswith("</html>"), name
        assert "unfold/css/styles.css" in page, name
        seen += 1

    assert seen > 40


@pytest.mark.parametrize("query", ["", "?state=dead", "?q=queue:emails", "?q=nonsense:x"])
def test_the_list_of_jobs_has_its_tabs_its_search_and_its_style(login: Login, query: str) -> None:
    client = login("*")
    rows.make_dead_letter()

    page = text_of(client.get(list_of("job") + query))

    for part in ('class="djq-tabs"', 'class="djq-search"', "djqueue/jobs.css", "djqueue/look.css"):
        assert part in page


def test_a_job_is_cancelled_on_its_page(login: Login) -> None:
    client: Client = login("*")
    job = rows.make_job()
    assert "djq-timeline" in text_of(client.get(page_of(job)))

    form = {"action": "cancel", "index": "0", "_selected_action": [str(job.pk)]}
    assert told(client.post(list_of("job"), form)) == ["Cancel: 1 cancelled."]

    assert Job.objects.count() == 0
