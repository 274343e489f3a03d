"""Numbers that spread load and stay the same: `H` in an expression, and the jitter of one fire.

Both come from a hash of the entry's name, never from a random number: every process, and every release, finds the
same ones, so that a preview tells the truth.
"""

from datetime import datetime
from hashlib import blake2b


def spread(name: str, about: str, count: int) -> int:
    """Return a number from 0 to `count` - 1 that depends on the name and on what it is about, and on nothing else."""
    digest = blake2b(f"{about}\0{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % count


def jitter(name: str, fire_at: datetime, most_seconds: int) -> int:
    """Return by how many whole seconds, 0 to `most_seconds`, the job of this fire time starts later."""
    return spread(name, fire_at.isoformat(), most_seconds + 1)
