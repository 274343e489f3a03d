"""All kinds of faults: what strikes at processes, and what strikes at the server and the network."""

from benchmarks.chaos.faults.backends import KillBackends
from benchmarks.chaos.faults.base import Fault, Scene
from benchmarks.chaos.faults.clock import ShiftClock
from benchmarks.chaos.faults.connections import ExhaustConnections
from benchmarks.chaos.faults.failover import FailOver
from benchmarks.chaos.faults.freeze import FreezeAll, FreezeChild
from benchmarks.chaos.faults.kill import KillChild, KillParent
from benchmarks.chaos.faults.network import CutNetwork, StallNetwork
from benchmarks.chaos.faults.read_only import ReadOnly
from benchmarks.chaos.faults.restart import RestartFast, RestartImmediate
from benchmarks.chaos.faults.snapshot import OldSnapshot
from benchmarks.chaos.faults.tablespace import FillTablespace

PROCESSES: list[type[Fault]] = [KillChild, KillParent, FreezeChild, FreezeAll, ShiftClock]
SERVER: list[type[Fault]] = [
    KillBackends,
    RestartFast,
    RestartImmediate,
    ReadOnly,
    ExhaustConnections,
    OldSnapshot,
    FillTablespace,
    StallNetwork,
    CutNetwork,
    FailOver,
]

__all__ = ["PROCESSES", "SERVER", "Fault", "Scene"]
