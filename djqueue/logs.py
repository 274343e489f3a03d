"""Log lines as JSON, one object a line, for `LOGGING`: `{"()": "djqueue.logs.JsonFormatter"}`.

djqueue's own lines are words and `key=value`; the values become fields of their own. They are taken from the line's
template and its parameters, never from the finished text, so that a value with spaces or `=` in it stays one value.
Invariant: no field replaces time, level, logger or message. Only `logging`, no Django.
"""

import json
import logging
import math
import re
from datetime import UTC, datetime
from typing import Any

WHO = "djqueue"
"""The attribute of records of `context.log` that holds who speaks: job_id, task, queue and attempt."""

_PARAMETER = re.compile(r"(?:\b(\w+)=)?%(?:%|[-+ #0]*[0-9]*(?:\.[0-9]+)?[a-zA-Z])")
_NAMES = {"job": "job_id"}
"""What lines call otherwise than `context.log` does: one name to search for."""


class JsonFormatter(logging.Formatter):
    """Format a record as a JSON object: time (UTC, of this machine), level, logger, message, fields, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line without a line break."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps({**line, **_fields(record), **line})


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    who = getattr(record, WHO, None)
    if isinstance(who, dict):
        return {str(name): _plain(value) for name, value in who.items()}
    return _parameters(record.msg, record.args) if record.name == "djqueue" else {}


def _parameters(template: object, values: object) -> dict[str, Any]:
    """Return the `key=value` parameters of a line; none where template and parameters can't be matched."""
    if not isinstance(template, str) or not isinstance(values, tuple):
        return {}
    names = [found[1] for found in _PARAMETER.finditer(template) if not found[0].endswith("%%")]
    if len(names) != len(values):
        return {}
    return {_NAMES.get(name, name): _plain(value) for name, value in zip(names, values, strict=True) if name}


def _plain(value: Any) -> Any:
    """Return what JSON has as it is, all else as text."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
