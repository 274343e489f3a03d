"""The server refuses writes for a while, as after a failover to a replica (25006)."""

from benchmarks.chaos.faults.base import Fault, Scene


class ReadOnly(Fault):
    """All new transactions are read-only."""

    name = "read-only server"

    def strike(self, scene: Scene) -> None:
        scene.stage.set("default_transaction_read_only", "on")
        try:
            scene.wait(1, 4)
        finally:
            scene.stage.set("default_transaction_read_only", "")
