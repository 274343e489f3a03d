"""Fairness between tenants: which worker pools serve one, and how far its share has been used.

Pools: shuffle sharding. Each tenant gets k of n pools by a stable hash; two tenants share all k of theirs with a
probability of 1 in n-over-k, so who floods its own pools delays few others. Source: MacCarthaigh, Workload isolation
using shuffle-sharding, Amazon Builders' Library.

Shares: start-time fair queuing. A tenant's virtual time grows by its jobs' run time ÷ weight; the least goes first; one
that comes back after a rest starts at the queue's virtual time, so a rest saves nothing up. Source: Goyal, Vin, Cheng,
Start-time Fair Queuing, IEEE/ACM Transactions on Networking 5(5), 1997.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

from djqueue.policy.gates import Gate, gate

MOST_POOLS = 64
MOST_SETS = 50_000
"""Sets of pools that a tenant can have: more would make a claim's list of its own too long."""

EXAMPLE = 'for example "3/8" (the third of eight) or "3/8:2" (each tenant has two of them)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool of workers of `of`; each tenant is served by `each` of them. Jobs without a tenant: by all."""

    number: int
    """From 1 on."""
    of: int
    each: int = 2

    @classmethod
    def parse(cls, text: str) -> "Pool":
        """Read `i/n` or `i/n:k`. Raises `ValueError` with what was expected."""
        head, colon, last = text.partition(":")
        numbers = [*head.split("/"), last if colon else "2"]
        if len(numbers) != 3 or not all(each.isascii() and each.isdigit() and len(each) < 5 for each in numbers):
            raise ValueError(f"pool: expected numbers, {EXAMPLE}, got {text!r}")
        number, of, each = map(int, numbers)
        if not colon:
            each = min(each, of)
        if not 1 <= number <= of <= MOST_POOLS:
            raise ValueError(f"pool: expected the number of one of at most {MOST_POOLS} pools, {EXAMPLE}, got {text!r}")
        if not 1 <= each <= of or comb(of, each) > MOST_SETS:
            raise ValueError(
                f"pool: expected each tenant to have 1 to {of} pools, in at most {MOST_SETS:,} different sets, "
                f"{EXAMPLE}, got {each}"
            )
        return cls(number=number, of=of, each=each)

    @property
    def sets(self) -> int:
        """How many different sets of pools there are; a tenant's is its hash modulo this."""
        return comb(self.of, self.each)

    @property
    def mine(self) -> list[int]:
        """The sets that contain this pool."""
        return [place for place, chosen in enumerate(_sets(self.of, self.each)) if self.number in chosen]


def pools_of(tenant_id: str, of: int, each: int = 2) -> tuple[int, ...]:
    """Return the pools that serve a tenant, from 1 on: the same in every process and release."""
    return _sets(of, each)[shard(gate(Gate.TENANT, tenant_id), comb(of, each))]


def shard(tenant_gate: str, sets: int) -> int:
    """Return the set of pools of a tenant's gate: the first 32 bits of its hash, modulo the number of sets."""
    return int(tenant_gate[1:9], 16) % sets


def start(virtual: float | None, floor: float) -> float:
    """Return the virtual time at which a tenant's next job starts: never before the queue's own, `floor`."""
    return max(floor, virtual or 0.0)


def finish(start: float, seconds: float, weight: float) -> float:
    """Return a tenant's virtual time after a job that ran so many seconds."""
    return start + seconds / weight


@lru_cache(maxsize=8)
def _sets(of: int, each: int) -> tuple[tuple[int, ...], ...]:
    return tuple(combinations(range(1, of + 1), each))
