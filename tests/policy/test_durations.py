"""Durations as people write and read them."""

import pytest

from djqueue.policy import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5m", 90),
        ("15m", 900),
        ("2h", 7_200),
        ("3D", 259_200),
        (" 1s ", 1),
        ("3650d", 315_360_000),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5", "1w", "soon", "1h30m", "nan", "inf", "1e9", "3651d", "9" * 40])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="90s, 15m, 2h or 3d"):
        durations.parse(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (1.25, "1.2 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (75, "1 min 15 s"),
        (3_600, "1 h"),
        (7_500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
        (400_000_000, "4,629 d 15 h"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert durations.in_words(seconds) == words
