"""What makes two failures the same: the class, where in the project's own code it happened, and the message without
what differs from job to job.

    shop.errors.PartnerDown │ shop/partner.py:fetch │ order # of customer '…' has no account
    exception class           innermost own frame     numbers, ids, addresses and quoted parts masked

Invariant: a fingerprint never depends on arguments, moments, line numbers or installation folders, so that it is the
same on every host and in the next release.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

LENGTH = 32
MESSAGE_LIMIT = 1_000
_OWN_PACKAGE = f"{Path(__file__).resolve().parent.parent.as_posix()}/"
_FOREIGN = ("/site-packages/", "/dist-packages/", "/lib/python", _OWN_PACKAGE)

# In this order: the longer shapes before the shorter ones that are parts of them.
_MASKS = [
    (re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|«[^»]*»|“[^”]*”"), "'…'"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<uuid>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"), "<email>"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE), "<url>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{12,}\b"), "<hex>"),
    (re.compile(r"[-+]?\b\d[\d.,:_]*\b|\d+"), "#"),
    (re.compile(r"\s+"), " "),
]


def mask(message: str) -> str:
    """Return the message with numbers, ids, addresses and quoted parts replaced by marks."""
    text = message[:MESSAGE_LIMIT]
    for pattern, mark in _MASKS:
        text = pattern.sub(mark, text)
    return text.strip()


def innermost_own_frame(trace: TracebackType | None, foreign: Iterable[str] = _FOREIGN) -> str:
    """Return `folder/file.py:function` of the innermost frame outside of installed packages and the standard library;
    the innermost of all where every frame is foreign; empty without a traceback."""
    own = last = ""
    marks = tuple(foreign)
    while trace is not None:
        code = trace.tb_frame.f_code
        path = code.co_filename.replace("\\", "/")
        last = f"{'/'.join(path.split('/')[-2:])}:{code.co_name}"
        if not path.startswith("<") and not any(mark in path for mark in marks):
            own = last
        trace = trace.tb_next
    return own or last


def fingerprint(exception: str, frame: str, message: str) -> str:
    """Return the fingerprint: 32 hexadecimal digits of SHA-256 over class, frame and masked message."""
    text = "\0".join((exception, frame, mask(message)))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:LENGTH]
