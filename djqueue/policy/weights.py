"""Which queues a worker serves, and in what order it looks at them.

A claim goes through the queues in a weighted random order: a queue with weight 3 comes before one with weight 1 three
times in four, and every queue comes first now and then. The invariant: no queue with a weight is ever left out.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MAX_WEIGHT = 1000
MAX_SLOTS = 500
SLOTS_EXAMPLE = 'for example "critical:2,emails:1"'
EXAMPLE = 'for example "default:5,email:3,images", "*" or "*,-reports"'


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSelection:
    """The queues that `--queues` named."""

    weights: dict[str, int] = field(default_factory=dict)
    """Queues named one by one, with their weights (1 where none was given)."""

    everything: bool = False
    """All known queues are served, except `excluded`."""

    excluded: frozenset[str] = frozenset()
    """Queues that are not served although `everything` is set."""

    @classmethod
    def parse(cls, text: str) -> "QueueSelection":
        """Read `name`, `name:weight`, `*` (all) and `-name` (not this one), parted by commas.

        Exclusions alone mean all others. Raises `ValueError` with what was expected.
        """
        weights: dict[str, int] = {}
        excluded: set[str] = set()
        everything = False
        for item in _items(text):
            if item == "*":
                everything = True
            elif item.startswith("-"):
                excluded.add(_name(item[1:], item))
            else:
                name, weight = _weighted(item)
                if name in weights:
                    raise ValueError(f"queues: expected each queue once, got {name!r} twice; {EXAMPLE}")
                weights[name] = weight
        _check_together(weights, everything, excluded)
        return cls(weights=weights, everything=everything or not weights, excluded=frozenset(excluded))

    def words(self) -> list[str]:
        """Return what is served, as `serves` reads it: names, `*` for all others, `-name` for what is not."""
        everything = ["*"] if self.everything else []
        return [*self.weights, *everything, *(f"-{name}" for name in sorted(self.excluded))]

    def names(self, known: Iterable[str]) -> list[str]:
        """Return the queues to serve: those named, then, where everything is served, the other `known` ones."""
        others = known if self.everything else ()
        return [name for name in dict.fromkeys((*self.weights, *others)) if name not in self.excluded]


def parse_slots(text: str) -> dict[str, int]:
    """Read `name:slots` parted by commas. Raises `ValueError` with what was expected."""
    slots: dict[str, int] = {}
    for item in _items(text, "slots", SLOTS_EXAMPLE) if text else ():
        name, _, number = item.rpartition(":")
        if not name or not (number.isascii() and number.isdigit() and 1 <= int(number[:10]) <= MAX_SLOTS):
            raise ValueError(f"slots: expected a queue and 1 to {MAX_SLOTS} slots, got {item!r}; {SLOTS_EXAMPLE}")
        if name in slots:
            raise ValueError(f"slots: expected each queue once, got {name!r} twice; {SLOTS_EXAMPLE}")
        slots[name] = int(number)
    return slots


def serves(said: Iterable[str], queue_name: str) -> bool:
    """Tell whether a worker that says so of itself (`name`, `*`, `-name`) serves a queue."""
    words = set(said)
    return queue_name in words or ("*" in words and f"-{queue_name}" not in words)


def shuffle(weights: Mapping[str, float], rng: random.Random) -> list[str]:
    """Return the names in a weighted random order: the heavier, the sooner. A weight of 0 or less comes last.

    Source: Efraimidis and Spirakis, Weighted random sampling with a reservoir (2006): order by random()^(1/weight),
    descending. Here in logarithms, which is the same order and does not underflow.
    """
    if len(weights) < 2:
        return list(weights)
    keys = {name: rng.expovariate(weight) if weight > 0 else float("inf") for name, weight in weights.items()}
    return sorted(keys, key=keys.__getitem__)


def _items(text: str, what: str = "queues", example: str = EXAMPLE) -> list[str]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise ValueError(f"{what}: expected names parted by commas, got {text!r}; {example}")
    return items


def _name(name: str, item: str) -> str:
    if not name or name == "*" or any(character.isspace() for character in name):
        raise ValueError(f"queues: expected a queue's name without spaces, got {item!r}; {EXAMPLE}")
    return name


def _weighted(item: str) -> tuple[str, int]:
    name, colon, weight = item.rpartition(":")
    if not colon:
        return _name(item, item), 1
    if name == "*":
        raise ValueError(f'queues: expected "*" without a weight, got {item!r}; name a queue to give it one')
    if not (weight.isascii() and weight.isdigit() and 1 <= int(weight[:10]) <= MAX_WEIGHT):
        raise ValueError(
            f"queues: expected a weight from 1 to {MAX_WEIGHT} after the last colon, got {item!r}; "
            f'a name that contains a colon needs a weight ("{item}:1")'
        )
    return _name(name, item), int(weight)


def _check_together(weights: dict[str, int], everything: bool, excluded: set[str]) -> None:
    if both := sorted(excluded & weights.keys()):
        raise ValueError(f"queues: expected {both[0]!r} either named or excluded, got both")
    if excluded and weights and not everything:
        raise ValueError('queues: exclusions next to named queues do nothing without "*"; add "*" or leave them out')
