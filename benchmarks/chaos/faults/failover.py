"""The primary dies and its synchronous standby takes over: what was committed is there."""

from benchmarks.chaos.faults.base import Fault, Scene


class FailOver(Fault):
    """Once per run: there is one standby."""

    name = "fail over"

    def is_possible(self, scene: Scene) -> bool:
        return scene.stage.standby is not None

    def strike(self, scene: Scene) -> None:
        stage = scene.stage
        assert stage.standby is not None
        stage.network.cut()
        stage.server.stop("immediate")
        stage.server, stage.standby = stage.standby, None
        with stage.direct() as connection:
            connection.execute("select pg_promote()")
        stage.set("synchronous_standby_names", "")
        stage.tablespace_is_gone()
        stage.network.target_port = stage.server.port
        stage.network.mend()
