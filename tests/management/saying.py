"""Running `manage.py djqueue …` in this process: what it prints, and its answer as JSON."""

import json
from io import StringIO
from typing import Any

from django.core.management import call_command


def run(*words: str) -> str:
    """Run a verb; return what it prints."""
    out = StringIO()
    call_command("djqueue", *words, stdout=out)
    return out.getvalue()


def answer(*words: str) -> Any:
    """Run a verb; return its answer as data."""
    return json.loads(run(*words, "--json"))


def partly(*words: str) -> tuple[int, Any]:
    """Run a verb that leaves with a code; return the code and the answer."""
    out = StringIO()
    try:
        call_command("djqueue", *words, "--json", stdout=out)
    except SystemExit as end:
        return int(end.code or 0), json.loads(out.getvalue())
    return 0, json.loads(out.getvalue())
