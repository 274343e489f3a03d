"""No connection is left (53300), while sessions are being ended."""

from contextlib import ExitStack

from benchmarks.chaos.faults.backends import TERMINATE
from benchmarks.chaos.faults.base import Fault, Scene
from benchmarks.chaos.stage import ignoring_trouble

MOST = 250


class ExhaustConnections(Fault):
    """Somebody else takes every one that there is, and half of ours as well."""

    name = "exhaust connections"

    def strike(self, scene: Scene) -> None:
        with ExitStack() as held:
            with ignoring_trouble():
                first = held.enter_context(scene.stage.direct())
                self._take_all(scene, held)
                first.execute(TERMINATE)
                self._take_all(scene, held)
                scene.wait(1, 3)

    def _take_all(self, scene: Scene, held: ExitStack) -> None:
        with ignoring_trouble():
            for _ in range(MOST):
                held.enter_context(scene.stage.direct())
