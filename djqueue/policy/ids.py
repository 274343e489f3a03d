"""Job ids: UUID version 7 (RFC 9562), known before the insert and the same in every table.

An id is an identity only: what orders jobs is `run_at` and then `seq`, both given by the database.
"""

import os
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

_VERSION = 7 << 76
_VARIANT = 2 << 62


def uuid7() -> UUID:
    """Return a new id: 48 bits of Unix milliseconds, then 74 random bits."""
    random = int.from_bytes(os.urandom(10), "big")
    milliseconds = time.time_ns() // 1_000_000
    return UUID(int=milliseconds << 80 | _VERSION | (random >> 64 & 0xFFF) << 64 | _VARIANT | random & (1 << 62) - 1)


def made_at(id_: UUID) -> datetime:
    """Return the moment that an id was made, by the clock of the process that made it; 1970 for what is no such id."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=id_.int >> 80 if id_.version == 7 else 0)
