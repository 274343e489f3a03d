"""The pages through a real server, where requests run in threads of their own."""

from typing import Any
from urllib.request import Request, urlopen

import pytest
from django.conf import settings
from pytest_django.live_server_helper import LiveServer

from tests.admin import rows
from tests.admin.conftest import Login
from tests.admin.pages import list_of, page_of


@pytest.mark.parametrize("make", [rows.make_scheduled_job, rows.make_dead_letter, rows.make_finished, rows.make_entry])
def test_pages_are_served_by_a_live_server(live_server: LiveServer, login: Login, make: Any) -> None:
    cookie = login("*").cookies[settings.SESSION_COOKIE_NAME].value
    obj = make()

    for address in (list_of(str(obj._meta.model_name)), page_of(obj)):
        request = Request(live_server.url + address, headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}"})
        with urlopen(request, timeout=20) as answer:
            assert str(obj.pk) in answer.read().decode()
            assert answer.url == live_server.url + address
