"""kill -9 of a worker, a keeper, or a whole supervisor."""

import contextlib
import os
import signal
import time

from benchmarks.chaos.faults.base import Fault, Scene
from benchmarks.chaos.fleet import children_of


class KillChild(Fault):
    """A worker or a keeper; the supervisor gives back what it held."""

    name = "kill a worker or keeper"

    def strike(self, scene: Scene) -> None:
        pid = scene.fleet.a_child(scene.rng)
        if pid is not None:
            kill(scene, pid)


class KillParent(Fault):
    """The supervisor: its children end with it, and its leases run out."""

    name = "kill a supervisor"

    def strike(self, scene: Scene) -> None:
        parent = scene.fleet.a_parent(scene.rng)
        for pid in children_of(parent):
            scene.kills.append((time.monotonic(), pid))
        kill(scene, parent)


def kill(scene: Scene, pid: int) -> None:
    """Kill, and remember when."""
    scene.kills.append((time.monotonic(), pid))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
