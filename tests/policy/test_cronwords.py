"""A schedule in words says what the expression means."""

import pytest

from djqueue.policy.cron import CronExpression
from djqueue.policy.cronwords import in_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("30 2 * * *", "at 02:30 every day"),
        ("@daily", "at 00:00 every day"),
        ("0,30 2 * * *", "at 02:00 and 02:30 every day"),
        ("* * * * *", "every minute every day"),
        ("*/5 * * * *", "every 5 minutes every day"),
        ("@hourly", "every hour every day"),
        ("15 * * * *", "at minute 15 of every hour every day"),
        ("*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour every day"),
        ("*/15 9-17 * * mon-fri", "every 15 minutes, hours 9 to 17 on Monday to Friday"),
        ("* 2 * * *", "every minute, hour 2 every day"),
        ("30 */2 * * *", "at minute 30, every 2 hours from 00:00 every day"),
        ("0 9 * * sat,sun", "at 09:00 on Saturday and Sunday"),
        ("0 9 * * fri-7", "at 09:00 on Friday to Sunday"),
        ("0 9 * * sun,mon,wed", "at 09:00 on Monday, Wednesday and Sunday"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("0 0 1,15,L * *", "at 00:00 on days 1 and 15 and the last day of the month"),
        ("0 0 1 1,7 *", "at 00:00 on day 1 of the month in January and July"),
        ("0 9 * * fri#2", "at 09:00 on the second Friday of the month"),
        ("0 9 * * friL", "at 09:00 on the last Friday of the month"),
        ("0 0 13 * fri", "at 00:00 on day 13 of the month, and also on Friday"),
        ("0 0 1-31 * mon", "at 00:00 every day"),
        ("0 0 * * 0-6", "at 00:00 every day"),
    ],
)
def test_a_schedule_is_told_in_words(text: str, words: str) -> None:
    assert in_words(CronExpression.parse(text), "Europe/Paris") == f"{words}, Paris time"


def test_zones_without_a_place_are_named_as_they_are() -> None:
    daily = CronExpression.parse("@daily")

    assert in_words(daily, "UTC") == "at 00:00 every day, UTC"
    assert in_words(daily, "Etc/GMT+5") == "at 00:00 every day, Etc/GMT+5"
    assert in_words(daily, "America/Argentina/Buenos_Aires") == "at 00:00 every day, Buenos Aires time"
