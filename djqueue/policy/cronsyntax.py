"""Which cron expressions are accepted: the five classic fields, nothing that two crons read differently.

croniter reads much more (seconds, years, `L`, `#`, `W`, hashed and random values, `5/15`, ranges that wrap); an entry
that means something else elsewhere, or something new each time, is refused here with what to write instead.
"""

import re
from dataclasses import dataclass, field

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

_ITEM = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\w+))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    low: int
    high: int
    words: dict[str, int] = field(default_factory=dict)


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS = (
    _Field(name="minute", low=0, high=59),
    _Field(name="hour", low=0, high=23),
    _Field(name="day of month", low=1, high=31),
    _Field(name="month", low=1, high=12, words={word: number for number, word in enumerate(_MONTHS, start=1)}),
    _Field(name="day of week", low=0, high=7, words={word: number for number, word in enumerate(_DAYS)}),
)


def read_fields(text: str) -> list[str]:
    """Return the five fields of an expression or alias, lower-case. Raises `ValueError` with what was expected."""
    words = text.lower().split()
    if not words:
        raise ValueError(f"cron: expected five fields or an alias, got blank text; {EXAMPLE}")
    if words[0].startswith("@"):
        return _alias(text, words)
    if len(words) != len(_FIELDS):
        names = ", ".join(each.name for each in _FIELDS)
        raise ValueError(f"cron: expected five fields ({names}), got {len(words)} in {text!r}; {EXAMPLE}")
    for each, word in zip(_FIELDS, words, strict=True):
        for item in word.split(","):
            _check_item(each, item)
    return words


def _alias(text: str, words: list[str]) -> list[str]:
    if len(words) > 1 or words[0] not in ALIASES:
        raise ValueError(f"cron: expected one of {', '.join(ALIASES)}, got {text!r}; {EXAMPLE}")
    return ALIASES[words[0]].split()


def _check_item(each: _Field, item: str) -> None:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise ValueError(
            f"cron: {each.name}: expected a number, a range, * or a list of these, got {item!r}; {EXAMPLE}"
        )
    star, first, last, step = match.groups()
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


def _number(each: _Field, word: str) -> int:
    number = each.words.get(word)
    if number is None and word.isdigit() and len(word) <= 2:
        number = int(word)
    if number is None or not each.low <= number <= each.high:
        names = f" or {next(iter(each.words))} to {list(each.words)[-1]}" if each.words else ""
        raise ValueError(f"cron: {each.name}: expected {each.low} to {each.high}{names}, got {word!r}; {EXAMPLE}")
    return number


def _check_step(each: _Field, item: str, step: str, *, bare: bool) -> None:
    if bare:
        raise ValueError(
            f"cron: {each.name}: expected a step after * or a range, got {item!r}; "
            f'write the range, "{item.split("/")[0]}-{each.high}/{step}"'
        )
    if not (step.isdigit() and len(step) <= 2 and 1 <= int(step) <= each.high):
        raise ValueError(f'cron: {each.name}: expected a step from 1 to {each.high}, got {item!r}; for example "*/5"')
