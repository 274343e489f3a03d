"""The wall clock of half the workers jumps by up to ten minutes."""

from benchmarks.chaos.faults.base import Fault, Scene


class ShiftClock(Fault):
    """Forwards or backwards; nothing may depend on it."""

    name = "shift the clock"

    def strike(self, scene: Scene) -> None:
        scene.fleet.set_clock(scene.rng.randint(-600, 600))
