"""What is wrong with a plan is said before any process is started."""

import pytest
from django.test import override_settings

from djqueue.exceptions import ConfigurationError
from djqueue.runtime.start import Wishes, make_plan

BACKEND = "djqueue.backend.DjqueueBackend"


@pytest.mark.parametrize("option", ["database", "listen_alias"])
def test_an_alias_that_is_none_is_refused_before_a_worker_could_charge_jobs(option: str) -> None:
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": {option: "nosuch"}}}):
        with pytest.raises(ConfigurationError, match=rf"{option}.*expected an alias of DATABASES.*got 'nosuch'"):
            make_plan(Wishes())


def test_switched_off_notifications_are_fine() -> None:
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": {"listen_alias": ""}}}):
        assert make_plan(Wishes()).options.listen_alias == ""
