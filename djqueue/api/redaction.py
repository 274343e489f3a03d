"""What must not be read in error messages, tracebacks and, in the admin, arguments: a hook of the project takes it out.

Stands before a failure is recorded and before the admin shows a payload. Invariant: what the hook did not return is
never stored or shown; where the hook fails, a placeholder stands in the text's place.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.utils.module_loading import import_string

from djqueue.policy.errors import TEXT_LIMIT, FailureText, clean_text

log = logging.getLogger("djqueue")

Hook = Callable[[str, str, str], str]
"""Called with the kind of text (`message`, `traceback`, `reason`, `arguments`, …), the task's name and the text."""


class Redaction:
    """The hook that `OPTIONS["redact"]` names, or none."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._hook: Hook | None = None

    def __bool__(self) -> bool:
        return bool(self._path)

    def text(self, kind: str, task_name: str, text: str, limit: int = TEXT_LIMIT) -> str:
        """Return what may be read of a text. Never raises."""
        if not self._path or not text:
            return text
        try:
            if self._hook is None:
                self._hook = import_string(self._path)
            found: Any = self._hook(kind, task_name, text)
            if not isinstance(found, str):
                raise TypeError(f"expected text, got {type(found).__name__}")
            return clean_text(found, limit)
        except BaseException as fault:
            # Neither its text nor its traceback: both may hold what was to be taken out.
            log.error(
                "the redact hook failed, a placeholder stands in its place hook=%s error=%s", self._path, _name(fault)
            )
            return f"[redacted: the redact hook failed with {_name(fault)}]"

    def failure(self, task_name: str, failure: FailureText) -> FailureText:
        """Return what may be recorded of a failure; its class and its frame stay."""
        if not self._path:
            return failure
        return replace(
            failure,
            message=self.text("message", task_name, failure.message),
            traceback=self.text("traceback", task_name, failure.traceback),
        )


def _name(fault: BaseException) -> str:
    return type(fault).__name__
