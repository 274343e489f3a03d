"""A reader holds a snapshot, so that nothing dead can be cleared up."""

from benchmarks.chaos.faults.base import Fault, Scene
from benchmarks.chaos.stage import ignoring_trouble


class OldSnapshot(Fault):
    """For some seconds."""

    name = "old snapshot"

    def strike(self, scene: Scene) -> None:
        with ignoring_trouble(), scene.stage.direct() as connection:
            connection.execute("begin isolation level repeatable read")
            connection.execute("select count(*) from djqueue_job")
            scene.wait(4, 8)
            connection.execute("commit")
