"""The disk is full (53100): no table can grow."""

import contextlib

from benchmarks.chaos.faults.base import Fault, Scene

CHUNK = bytes(1 << 16)


class FillTablespace(Fault):
    """A file takes all that is left, and goes again."""

    name = "fill the tablespace"

    def is_possible(self, scene: Scene) -> bool:
        return scene.stage.tablespace is not None  # after a failover the tables lie on another disk

    def strike(self, scene: Scene) -> None:
        assert scene.stage.tablespace is not None
        filler = scene.stage.tablespace / "filler"
        try:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(CHUNK)
            scene.wait(1, 4)
        finally:
            filler.unlink(missing_ok=True)
