"""Durations as people write them: `90`, `90s`, `15m`, `2h`, `3d`; and as they read them."""

import re

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
MOST_SECONDS = 315_360_000
"""Ten years, as everywhere in djqueue."""

_PATTERN = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([smhd]?)")


def parse(text: str) -> float:
    """Return a duration in seconds, above 0 and at most ten years. Raises `ValueError` with what was expected."""
    found = _PATTERN.fullmatch(text.strip().lower())
    seconds = float(found[1]) * UNITS[found[2] or "s"] if found else 0.0
    if not 0 < seconds <= MOST_SECONDS:
        raise ValueError(f"expected a duration above 0 and up to ten years, such as 90s, 15m, 2h or 3d, got {text!r}")
    return seconds


def in_words(seconds: float) -> str:
    """Return a duration in its two largest units, such as `2 h 5 min`; below ten seconds with a decimal."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, name, small, small_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            large, rest = divmod(whole, size)
            return f"{large:,} {name}" + (f" {rest // small} {small_name}" if rest // small else "")
    return f"{whole} s"
