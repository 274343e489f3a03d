"""The server ends sessions, as an administrator or an idle timeout does."""

from benchmarks.chaos.faults.base import Fault, Scene
from benchmarks.chaos.stage import ignoring_trouble

TERMINATE = """select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and random() < 0.5"""


class KillBackends(Fault):
    """Half of all sessions."""

    name = "kill backends"

    def strike(self, scene: Scene) -> None:
        with ignoring_trouble(), scene.stage.direct() as connection:
            connection.execute(TERMINATE)
