"""Users with exactly the permissions that a test names."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client

from tests.store.factories import PARTITION_FOR_ALL

Login = Callable[..., Client]


@pytest.fixture
def tables(db: None) -> None:
    """Tables that can take a finished job of any day."""
    with connection.cursor() as cursor:
        cursor.execute(PARTITION_FOR_ALL)


@pytest.fixture
def login(tables: None) -> Login:
    """Log a member of staff in who has these djqueue permissions; `login("*")` a superuser."""

    def in_as(*codenames: str) -> Client:
        user = User.objects.create_user("ada", is_staff=True, is_superuser=codenames == ("*",))
        if codenames != ("*",):
            found = Permission.objects.filter(content_type__app_label="djqueue", codename__in=codenames)
            assert found.count() == len(codenames), "a permission that does not exist"
            user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        return client

    return in_as
