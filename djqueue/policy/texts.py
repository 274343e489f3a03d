"""Texts that PostgreSQL is to store: names, keys, reasons. What can't be stored is refused with what was expected."""


def text_problem(what: str, value: object, limit: int) -> str:
    """Say what is wrong with a name or key that PostgreSQL is to store and index, or nothing."""
    if not isinstance(value, str):
        return f"{what}: expected text, got {type(value).__name__}"
    if not value:
        return f"{what}: expected text, got an empty one"
    if len(value) > limit:
        return f"{what}: expected at most {limit} characters, got {len(value):,}; shorten it, or use a hash of it"
    if "\0" in value:
        return f"{what}: expected text without NUL, got one at character {value.index(chr(0))}"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as fault:
            return f"{what}: expected valid Unicode, got a lone surrogate at character {fault.start}"
    return ""


def check_reason(what: str, reason: object, limit: int = 10_000) -> None:
    """Raise `ValueError` for words of people that can't be stored; none at all are fine."""
    problem = text_problem(what, reason, limit) if reason != "" else ""
    if problem:
        raise ValueError(problem)
