"""What every fault is: a name, and one strike that ends by itself, with everything mended again."""

import random
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.stage import Stage


@dataclass(slots=True)
class Scene:
    """What can be struck at, and what was killed so far."""

    stage: Stage
    fleet: Fleet
    rng: random.Random
    kills: list[tuple[float, int]] = field(default_factory=list)
    """Moments (monotonic) and pids of workers that were killed."""

    def wait(self, least: float, most: float) -> None:
        """Let it last for a while."""
        time.sleep(self.rng.uniform(least, most))


class Fault(ABC):
    """One kind of fault."""

    name: str

    def is_possible(self, scene: Scene) -> bool:
        """Tell whether there is something to strike at."""
        return True

    @abstractmethod
    def strike(self, scene: Scene) -> None:
        """Do it, let it last, mend it."""
