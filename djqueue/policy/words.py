"""Numbers as people read them: how long, how many, how old. Pure: the same words in the admin, commands and logs.

Invariant: two units at the most, the second one whole, so that words of one column can be compared by eye.
"""

import math

_STEPS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s"))
_SIZES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_BYTES = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


def span(seconds: float) -> str:
    """Return a duration: `850 ms`, `4.2 s`, `4 m 12 s`, `3 h 5 m`, `12 d 4 h`; below zero as zero."""
    seconds = max(0.0, seconds)
    if not math.isfinite(seconds):
        return "for ever"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, name, lesser, lesser_name in _STEPS:
        if whole >= unit:
            rest = whole % unit // lesser
            return f"{whole // unit:,} {name} {rest} {lesser_name}" if rest else f"{whole // unit:,} {name}"
    return f"{whole} s"


def amount(number: float) -> str:
    """Return a number in at most four characters or so, for an axis: `0.5`, `120`, `12.3k`, `4M`."""
    for size, name in _SIZES:
        if abs(number) >= size * 0.9995:
            return f"{number / size:.3g}{name}"
    return f"{number:.3g}"


def count(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: `1 job`, `1,200 jobs`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def size(octets: float) -> str:
    """Return an amount of memory: `64.2 MB`."""
    for unit, name in _BYTES:
        if octets >= unit:
            return f"{octets / unit:.1f} {name}"
    return f"{octets:.0f} B"


def share(part: float, whole: float) -> str:
    """Return a part in per cent; a part that is there is never 0 %, and one that is not the whole never 100 %."""
    if whole <= 0 or part <= 0:
        return "0 %"
    percent = 100 * part / whole
    if part < whole and percent > 99:
        return "over 99 %"
    return "below 1 %" if percent < 1 else f"{min(percent, 100):.0f} %"
