"""The server restarts: in an orderly way, or after a crash."""

from benchmarks.chaos.faults.base import Fault, Scene


class RestartFast(Fault):
    """Sessions are ended, then the server stops."""

    name = "restart the server (fast)"

    def strike(self, scene: Scene) -> None:
        scene.stage.server.restart("fast")


class RestartImmediate(Fault):
    """A crash: what was not on disk is gone."""

    name = "crash the server (immediate)"

    def strike(self, scene: Scene) -> None:
        scene.stage.server.restart("immediate")
