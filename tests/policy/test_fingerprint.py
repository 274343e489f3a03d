"""Failures with one cause have one fingerprint; failures with two have two."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from djqueue.policy.fingerprint import LENGTH, fingerprint, innermost_own_frame, mask


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 has no account", "order 4711 has no account"),
        ("no answer after 3.25 s", "no answer after 12 s"),
        ("key 'a@b.de' exists", "key 'x' exists"),
        ('Key (id)=(5) "red" is gone', 'Key (id)=(6) "blue" is gone'),
        ("at 0x7f3a2b", "at 0xdeadbeef"),
        ("job 018f3b7e-1111-7abc-8def-0123456789ab", "job 018f3b7e-2222-7abc-8def-0123456789ab"),
        ("no mail for anna@example.com", "no mail for bob.b@mail.example.org"),
        ("GET https://a.example/1?x=2 failed", "GET https://b.example/ failed"),
        ("digest 9f86d081884c7d65 differs", "digest 60303ae22b998861 differs"),
        ("two  spaces", "two\nspaces"),
        ("at 2026-03-01T12:00:00", "at 2027-04-02T01:02:03"),
    ],
)
def test_what_differs_from_job_to_job_is_masked(one: str, other: str) -> None:
    assert mask(one) == mask(other)


@pytest.mark.parametrize(
    ("one", "other"), [("no account", "no answer"), ("order is closed", "order is open"), ("deadbeef", "feedface")]
)
def test_what_is_said_in_words_is_kept(one: str, other: str) -> None:
    assert mask(one) != mask(other)


@pytest.mark.parametrize("part", ["class", "frame", "message"])
def test_class_frame_and_message_each_count(part: str) -> None:
    parts = {"class": "a.B", "frame": "shop/x.py:f", "message": "broken"}
    changed = {**parts, part: parts[part] + "x"}
    assert fingerprint(*parts.values()) != fingerprint(*changed.values())
    assert len(fingerprint(*parts.values())) == LENGTH


def test_the_innermost_frame_of_own_code_is_named_without_line_and_folder() -> None:
    def broken() -> None:
        json.loads("{")

    try:
        broken()
    except ValueError as error:
        assert innermost_own_frame(error.__traceback__) == "policy/test_fingerprint.py:broken"


def test_without_own_frames_the_innermost_of_all_is_named() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        assert innermost_own_frame(error.__traceback__.tb_next, foreign=["/"]).startswith("json/")  # type: ignore[union-attr]
    assert innermost_own_frame(None) == ""


@given(st.text(max_size=3_000))
def test_any_message_has_a_fingerprint(message: str) -> None:
    assert len(fingerprint("a.B", "", message)) == LENGTH
    assert mask(mask(message)) == mask(mask(mask(message)))


def test_messages_that_are_hard_on_patterns_stay_short() -> None:
    for hard in ("'" * 5_000, "a@" * 2_500, "0" * 5_000, "\\'" * 2_500, "http" + ":" * 5_000):
        assert len(mask(hard)) <= 2_000


def test_a_checkout_in_a_folder_called_like_the_package_is_the_project_s_own() -> None:
    """Where the sources lie on a host must not matter."""
    code = compile("def fetch():\n    raise ValueError\n", "/srv/djqueue/shop/partner.py", "exec")
    space: dict[str, Any] = {}
    exec(code, space)

    with pytest.raises(ValueError) as raised:
        json.JSONDecoder(object_hook=lambda found: space["fetch"]()).decode("{}")

    assert innermost_own_frame(raised.value.__traceback__) == "shop/partner.py:fetch"
