"""What is wrong with a plan is said before any process is started."""

import pytest
from django.test import override_settings

from djqueue.exceptions import ConfigurationError
from djqueue.runtime.start import Wishes, WishRefused, make_plan

BACKEND = "djqueue.backend.DjqueueBackend"


@pytest.mark.parametrize("option", ["database", "listen_alias"])
def test_an_alias_that_is_none_is_refused_before_a_worker_could_charge_jobs(option: str) -> None:
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": {option: "nosuch"}}}):
        with pytest.raises(ConfigurationError, match=rf"{option}.*expected an alias of DATABASES.*got 'nosuch'"):
            make_plan(Wishes())


def test_switched_off_notifications_are_fine() -> None:
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": {"listen_alias": ""}}}):
        assert make_plan(Wishes()).options.listen_alias == ""


def test_slots_are_reserved_for_queues_that_are_served_only() -> None:
    assert make_plan(Wishes(slots="emails:2")).reserved == (("emails", 2),)
    assert make_plan(Wishes(slots="emails:2")).of_reservation(0).selection.words() == ["emails"]
    with pytest.raises(WishRefused, match="--slots: expected a queue that --queues serves, got 'emails'"):
        make_plan(Wishes(queues="default", slots="emails:2"))
    with pytest.raises(WishRefused, match="--slots: expected a queue and 1 to 500 slots"):
        make_plan(Wishes(slots="emails"))
