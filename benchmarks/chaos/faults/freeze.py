"""SIGSTOP for longer than a lease, and SIGCONT: what thaws believes that no time has passed."""

import contextlib
import os
import signal

from benchmarks.chaos.faults.base import Fault, Scene
from benchmarks.chaos.fleet import LEASE_SECONDS, children_of


class FreezeChild(Fault):
    """A worker or a keeper."""

    name = "freeze a worker or keeper"

    def strike(self, scene: Scene) -> None:
        pid = scene.fleet.a_child(scene.rng)
        if pid is not None:
            freeze(scene, [pid])


class FreezeAll(Fault):
    """A whole supervisor with its children, as a paused virtual machine."""

    name = "freeze a supervisor"

    def strike(self, scene: Scene) -> None:
        parent = scene.fleet.a_parent(scene.rng)
        freeze(scene, [parent, *children_of(parent)])


def freeze(scene: Scene, pids: list[int]) -> None:
    """Freeze, wait, thaw."""
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number is signal.SIGSTOP:
            scene.wait(0.5, LEASE_SECONDS * 1.7)
