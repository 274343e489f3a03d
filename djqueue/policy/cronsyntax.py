"""Which cron expressions are accepted: five fields and aliases, and nothing that two crons read differently.

    *  5  mon  1-5  */5  1-30/5  1,15     as in every cron
    L   in day of month: the last day         5L, friL   in day of week: the last Friday of the month
    5#2, fri#2   the second Friday            H, H/15, H(0-29)   a fixed number, chosen by the entry's name

What means something else elsewhere, or something new each time (seconds, years, `W`, `?`, `R`, `5/15`, ranges that
wrap), is refused with what to write instead. Day of month and day of week, where both are given, match if either does;
`*/2` in one of them beside a value in the other is refused, because Debian's cron then wants both.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from djqueue.policy.cronhash import spread

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
EXAMPLE = 'for example "30 2 * * 1-5" (02:30 from Monday to Friday) or "@daily"'

LAST = "l"
DAY_OF_MONTH, DAY_OF_WEEK = 2, 4

_PLAIN = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\w+))?", re.ASCII)
_NTH = re.compile(r"(\w+?)(?:#(\d)|l)", re.ASCII)
_HASHED = re.compile(r"h(?:\((\w+)-(\w+)\))?(?:/(\w+))?", re.ASCII)
_FOREIGN = {
    "w": "W (the nearest weekday) is not known to every cron; name the days of the week instead",
    "?": "? is not known to every cron; write *",
    "r": "R would mean another time in every process; write H, which the entry's name fixes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    low: int
    high: int
    words: dict[str, int] = field(default_factory=dict)
    hashed_high: int = 0
    """Where `H` ends, if not at `high`."""


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = (
    _Field(name="minute", low=0, high=59),
    _Field(name="hour", low=0, high=23),
    _Field(name="day of month", low=1, high=31, hashed_high=28),
    _Field(name="month", low=1, high=12, words={word: number for number, word in enumerate(_MONTHS, start=1)}),
    _Field(name="day of week", low=0, high=7, words={word: number for number, word in enumerate(_DAYS)}, hashed_high=6),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What one field matches."""

    numbers: frozenset[int]
    """Plain numbers; Sunday is 0."""

    last: bool = False
    """Day of month: its last day."""

    nth: frozenset[tuple[int, int]] = frozenset()
    """Day of week: (day, which of the month); 0 is the last one."""

    starred: bool = False
    """Some item begins with `*`."""

    whole: bool = False
    """Every number there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """An expression that was read."""

    words: tuple[str, ...]
    """The five fields in lower case; `H` is replaced by its number, an alias is written out."""

    values: tuple[Values, ...]


def read_fields(text: str, name: str | None = None) -> Fields:
    """Read five fields or an alias. `name` is the entry's, for `H`. Raises `ValueError` with what was expected."""
    words = text.lower().split()
    if not words:
        raise ValueError(f"cron: expected five fields or an alias, got blank text; {EXAMPLE}")
    if words[0].startswith("@"):
        words = _alias(text, words)
    if len(words) != len(_FIELDS):
        names = ", ".join(each.name for each in _FIELDS)
        more = " (seconds and years are not supported)" if len(words) in (6, 7) else ""
        raise ValueError(f"cron: expected five fields ({names}), got {len(words)} in {text!r}{more}; {EXAMPLE}")
    words = [_unhashed(each, word, name) for each, word in zip(_FIELDS, words, strict=True)]
    values = tuple(_values(each, word) for each, word in zip(_FIELDS, words, strict=True))
    _check_days(words, values)
    return Fields(words=tuple(words), values=values)


def _alias(text: str, words: list[str]) -> list[str]:
    if len(words) > 1 or words[0] not in ALIASES:
        raise ValueError(f"cron: expected one of {', '.join(ALIASES)}, got {text!r}; {EXAMPLE}")
    return ALIASES[words[0]].split()


def _unhashed(each: _Field, word: str, name: str | None) -> str:
    return ",".join(_number_for(each, item, name) for item in word.split(","))


def _number_for(each: _Field, item: str, name: str | None) -> str:
    """Return the item, `H` replaced by what the name makes of it."""
    match = _HASHED.fullmatch(item)
    if match is None:
        return item
    if name is None:
        raise ValueError(f"cron: {each.name}: expected the name of an entry beside H, got none; {EXAMPLE}")
    first, last, step = match.groups()
    low = each.low if first is None else _number(each, first)
    high = (each.hashed_high or each.high) if last is None else _number(each, last)
    if high < low:
        raise ValueError(f'cron: {each.name}: expected a range that ascends, got {item!r}; for example "H(0-29)"')
    if step is None:
        return str(low + spread(name, each.name, high - low + 1))
    _check_step(each, item, step, bare=False)
    return f"{low + spread(name, each.name, min(int(step), high - low + 1))}-{high}/{step}"


def _values(each: _Field, word: str) -> Values:
    numbers: set[int] = set()
    nth: set[tuple[int, int]] = set()
    last = starred = False
    for item in word.split(","):
        if each is _FIELDS[DAY_OF_MONTH] and item == LAST:
            last = True
        elif each is _FIELDS[DAY_OF_WEEK] and (found := _nth(each, item)):
            nth.add(found)
        else:
            numbers.update(_range(each, item))
            starred |= item.startswith("*")
    if each is _FIELDS[DAY_OF_WEEK]:
        numbers = {number % 7 for number in numbers}
    whole = len(numbers) == each.high - each.low + (each is not _FIELDS[DAY_OF_WEEK])
    return Values(numbers=frozenset(numbers), last=last, nth=frozenset(nth), starred=starred, whole=whole)


def _nth(each: _Field, item: str) -> tuple[int, int] | None:
    """Read `fri#2`, `5#2`, `friL`, `5L`."""
    match = _NTH.fullmatch(item)
    if match is None:
        return None
    day, which = _number(each, match[1]) % 7, int(match[2] or 0)
    if match[2] and not 1 <= which <= 5:
        raise ValueError(f'cron: {each.name}: expected # with 1 to 5, got {item!r}; for example "fri#2" or "friL"')
    return day, which


def _range(each: _Field, item: str) -> Iterator[int]:
    match = _PLAIN.fullmatch(item)
    if match is None:
        raise ValueError(
            f"cron: {each.name}: expected a number, a range, * or a list of these, got {item!r}; "
            f"{_FOREIGN.get(item[-1:], EXAMPLE)}; {EXAMPLE}"
        )
    star, first, last, step = match.groups()
    low, high = each.low, each.high
    if not star:
        low = _number(each, first)
        high = low if last is None else _number(each, last)
        if high < low:
            raise ValueError(
                f"cron: {each.name}: expected a range that ascends, got {item!r}; "
                f'write its two parts, "{first}-{each.high},{each.low}-{last}"'
            )
    if step is not None:
        _check_step(each, item, step, bare=not star and last is None)
    return iter(range(low, high + 1, int(step or 1)))


def _number(each: _Field, word: str) -> int:
    number = each.words.get(word)
    if number is None and word.isdigit() and len(word) <= 2:
        number = int(word)
    if number is None or not each.low <= number <= each.high:
        raise ValueError(
            f"cron: {each.name}: expected {each.low} to {each.high}{_also(each)}, got {word!r}; {_advice(each, word)}"
        )
    return number


def _also(each: _Field) -> str:
    return f" or {next(iter(each.words))} to {list(each.words)[-1]}" if each.words else ""


def _advice(each: _Field, word: str) -> str:
    foreign = _FOREIGN.get(word) or (_FOREIGN["w"] if re.fullmatch(r"l?\d*w", word) else None)
    if foreign:
        return f"{foreign}; {EXAMPLE}"
    if each is _FIELDS[DAY_OF_WEEK] and LAST in (word, word[:1]):
        return 'name the day before L, for example "friL" (the last Friday of the month)'
    return EXAMPLE


def _check_step(each: _Field, item: str, step: str, *, bare: bool) -> None:
    if bare:
        raise ValueError(
            f"cron: {each.name}: expected a step after * or a range, got {item!r}; "
            f'write the range, "{item.split("/")[0]}-{each.high}/{step}"'
        )
    if not (step.isdigit() and len(step) <= 2 and 1 <= int(step) <= each.high):
        raise ValueError(f'cron: {each.name}: expected a step from 1 to {each.high}, got {item!r}; for example "*/5"')


def _check_days(words: list[str], values: tuple[Values, ...]) -> None:
    """Refuse what Debian's cron reads as "both must match" and others as "either"."""
    for one, other in ((DAY_OF_MONTH, DAY_OF_WEEK), (DAY_OF_WEEK, DAY_OF_MONTH)):
        if values[one].starred and not values[one].whole and not (values[other].starred and values[other].whole):
            span = re.sub(r"\*", f"{_FIELDS[one].low}-{_FIELDS[one].high - (one == DAY_OF_WEEK)}", words[one])
            raise ValueError(
                f"cron: expected * or a range in {_FIELDS[one].name} beside {words[other]!r} in "
                f"{_FIELDS[other].name}, got {words[one]!r}: some crons want both to match, others either; "
                f'for days that match either write "{span}"'
            )
