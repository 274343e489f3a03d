"""`manage.py djqueue doctor`: what is wrong around the queue, with its remedy. It calls and prints."""

import sys
from dataclasses import asdict
from typing import Any

from djqueue.api import doctor
from djqueue.management.verbs.common import Print, as_json, backend_of, verb
from djqueue.policy.diagnosis import Finding

FOUND = 4
"""The exit code where something was found."""


def add_arguments(verbs: Any) -> None:
    """Declare the verb."""
    parser = verb(verbs, "doctor", "what is wrong around the queue, why it matters, and the remedy")
    parser.set_defaults(run=_doctor)


def _doctor(options: dict[str, Any], out: Print) -> None:
    backend = backend_of(options)
    found = doctor.examine(backend.alias_of_database, backend.djqueue_options)
    if options["json"]:
        out(as_json({"healthy": not found, "findings": [asdict(each) for each in found]}))
    else:
        out("\n\n".join(_said(each) for each in found) or "Nothing is wrong.")
    if found:
        sys.exit(FOUND)


def _said(each: Finding) -> str:
    return f"{each.severity} {each.id}: {each.found}\n  why: {each.why}\n  remedy: {each.remedy}"
