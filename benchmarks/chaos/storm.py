"""Who strikes: two threads, one at processes and one at the server, each going round all of its faults in an order of
chance, so that faults of both sorts meet."""

import random
import threading
import time
from collections import Counter

from benchmarks.chaos.faults import Fault, Scene


class Storm(threading.Thread):
    """Strikes until a moment; a strike that has begun is brought to its end."""

    def __init__(self, scene: Scene, kinds: list[type[Fault]], until: float, pauses: tuple[float, float]) -> None:
        super().__init__(daemon=True)
        self._scene = scene
        self._kinds = kinds
        self._until = until
        self._pauses = pauses
        self._rng = random.Random(scene.rng.random())
        self.strikes: Counter[str] = Counter()
        self.trouble: list[str] = []
        """Strikes that went wrong themselves."""

    def run(self) -> None:
        """Go round."""
        kinds = [kind for kind in self._kinds if kind.name not in self._scene.stage.missing]
        while time.monotonic() < self._until:
            self._rng.shuffle(kinds)
            for kind in list(kinds):
                time.sleep(self._rng.uniform(*self._pauses))
                if time.monotonic() > self._until:
                    return
                self._strike(kind())

    def _strike(self, fault: Fault) -> None:
        if not fault.is_possible(self._scene):
            return
        try:
            fault.strike(self._scene)
        except Exception as error:
            self.trouble.append(f"{fault.name}: {type(error).__name__}: {error}")
        else:
            self.strikes[fault.name] += 1
