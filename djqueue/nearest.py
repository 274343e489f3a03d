"""The nearest known name to a misspelt one, for error messages."""

import difflib


def nearest(name: str, known: list[str]) -> str:
    """Return ` (did you mean 'x'?)` for the nearest known name, or nothing."""
    close = difflib.get_close_matches(str(name), known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
