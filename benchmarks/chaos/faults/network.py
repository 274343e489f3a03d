"""The network: nothing gets through for a while, or every connection breaks."""

from benchmarks.chaos.faults.base import Fault, Scene
from benchmarks.chaos.fleet import LEASE_SECONDS


class StallNetwork(Fault):
    """Packets are lost and nobody is told, sometimes for longer than a lease."""

    name = "stall the network"

    def strike(self, scene: Scene) -> None:
        scene.stage.network.stall()
        try:
            scene.wait(1, LEASE_SECONDS * 1.3)
        finally:
            scene.stage.network.flow()


class CutNetwork(Fault):
    """Connections break, and new ones are refused."""

    name = "cut the network"

    def strike(self, scene: Scene) -> None:
        scene.stage.network.cut()
        try:
            scene.wait(1, 4)
        finally:
            scene.stage.network.mend()
