"""Job ids: UUID version 7 (RFC 9562), known before the insert and the same in every table.

An id is an identity only: what orders jobs is `run_at` and then `seq`, both given by the database.
"""

import os
import time
from uuid import UUID

_VERSION = 7 << 76
_VARIANT = 2 << 62


def uuid7() -> UUID:
    """Return a new id: 48 bits of Unix milliseconds, then 74 random bits."""
    random = int.from_bytes(os.urandom(10), "big")
    milliseconds = time.time_ns() // 1_000_000
    return UUID(int=milliseconds << 80 | _VERSION | (random >> 64 & 0xFFF) << 64 | _VARIANT | random & (1 << 62) - 1)
