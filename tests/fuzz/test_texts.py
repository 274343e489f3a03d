"""Whatever somebody types: it is understood, or refused with the error that is documented for it, and no other."""

import json
import math
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from djqueue.conf import Options
from djqueue.policy import celerybeat, crontab, durations
from djqueue.policy.cron import CronExpression, next_fire
from djqueue.policy.cronwords import in_words
from djqueue.policy.errors import append_error, clean_text, stored_errors
from djqueue.policy.payloads import version_of
from djqueue.policy.search import Search, SearchInvalid, parse
from djqueue.policy.verdict import LONGEST_SECONDS, retry_after
from djqueue.policy.weights import QueueSelection, parse_slots
from djqueue.rates import Rate
from tests.fuzz.profile import ANY_TEXT, JSON, PLAIN_NUMBERS, fuzzed, of_words

NOW = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
CRON = of_words("*", "*/5", "1-5", "H", "mon", "L", "#2", "?", "jan", "31", "60", "@daily", "@reboot", more=" ,-/HLW0")
FIVE = st.tuples(*[of_words("*", "*/7", "0", "5", "1-3", "31", "2", "sun", "L", "H", more=",-/#")] * 5).map(" ".join)
PARIS = ZoneInfo("Europe/Paris")


@fuzzed
@given(CRON | FIVE)
def test_cron_expressions(text: str) -> None:
    try:
        expression = CronExpression.parse(text, "entry")
    except ValueError as refused:
        assert str(refused).startswith("cron: ")
        return
    try:
        fire = next_fire(expression, PARIS, NOW)
    except ValueError as refused:
        assert "no further time" in str(refused)
    else:
        assert fire > NOW
    assert in_words(expression, "Europe/Paris")
    assert CronExpression.parse(expression.text, "entry") == expression


@fuzzed
@given(st.lists(CRON | FIVE | ANY_TEXT, max_size=5).map("\n".join), st.booleans())
def test_crontab_files(text: str, system: bool) -> None:
    for line in crontab.read(text, system=system):
        assert line is not None


@fuzzed
@given(st.tuples(*[of_words("*", "*/5", "1", "jan", "mon-fri", more=",-/")] * 5))
def test_schedules_of_celery_beat(fields: tuple[str, ...]) -> None:
    try:
        celerybeat.crontab(*fields)
    except ValueError as refused:
        assert str(refused)


@fuzzed
@given(
    of_words(
        "120", "0", "-1", "1.5", "1e9", "Wed, 21 Oct 2015 07:28:00 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "99999999999"
    ),
    st.none() | of_words("Wed, 21 Oct 2015 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", " +0100"),
)
def test_retry_after_headers(value: str, date: str | None) -> None:
    found = retry_after(value, date=date, now=NOW)

    assert found is None or 0 <= found <= LONGEST_SECONDS


@fuzzed
@given(
    of_words(
        "id:",
        "task:",
        "queue:",
        "state:dead",
        "older:",
        "10m",
        "args.",
        "kwargs.",
        ".0",
        ":",
        '"',
        "\\",
        "*",
        more=" '$@",
    )
)
def test_searches(text: str) -> None:
    try:
        assert isinstance(parse(text), Search)
    except SearchInvalid as refused:
        assert "xpected" in str(refused)


@fuzzed
@given(of_words("default", "emails:3", "*", "-images", ":", "0", "1001", more=",:-* "))
def test_queues_and_slots(text: str) -> None:
    for read in (QueueSelection.parse, parse_slots):
        try:
            read(text)
        except ValueError as refused:
            assert str(refused).startswith(("queues: ", "slots: "))


@fuzzed
@given(
    of_words("5/s", "100/m", "3/10s", "0/s", "/", "9" * 10, more="smhd/0 ") | PLAIN_NUMBERS | JSON,
    st.none() | PLAIN_NUMBERS,
)
def test_rates(text: Any, burst: Any) -> None:
    try:
        rate = Rate.parse(text, burst)
    except ValueError as refused:
        assert "expected" in str(refused)
    else:
        assert 0 < rate.per_second < math.inf
        assert 1 <= rate.burst < math.inf


@fuzzed
@given(of_words("90", "15m", "2h", "3d", ".5", "s", "1" * 13, more=" -e"))
def test_durations(text: str) -> None:
    try:
        assert 0 < durations.parse(text) <= durations.MOST_SECONDS
    except ValueError as refused:
        assert "expected" in str(refused)


@fuzzed
@given(
    JSON
    | st.dictionaries(st.sampled_from([*Options.__dataclass_fields__]) | st.text(), JSON | PLAIN_NUMBERS, max_size=4)
)
def test_options(given_options: Any) -> None:
    options, problems = Options.parse(given_options)

    assert isinstance(options, Options)
    assert all(isinstance(problem, str) and problem for problem in problems)


@fuzzed
@given(ANY_TEXT, st.integers(0, 200))
def test_texts_of_errors_can_be_stored(text: str, limit: int) -> None:
    found = clean_text(text, limit)

    assert "\0" not in found
    assert len(found.encode()) <= max(limit, 100)


@fuzzed
@given(JSON)
def test_errors_in_a_row(errors: Any) -> None:
    entries = stored_errors(json.dumps(errors))

    assert append_error(entries, {"message": "next"})[-1] == {"message": "next"}


@fuzzed
@given(JSON | st.dictionaries(st.just("version"), JSON))
def test_versions_in_a_row(options: Any) -> None:
    assert version_of(json.dumps(options)) >= 0
