"""The floor of bulk enqueue: COPY of the same rows into djqueue's table."""

from collections.abc import Sequence
from typing import Any

from benchmarks.compare.peers import bare, base, djqueue

COPY = "copy djqueue_job (id, queue_name, task_name, args) from stdin (format binary)"


class Client(bare.Client):
    """Inserts rows by COPY."""

    def many(self, numbers: Sequence[int], task: str) -> Any:
        """Copy rows, in one transaction."""
        with self._connection.cursor() as cursor, cursor.copy(COPY) as copy:
            copy.set_types(["uuid", "text", "text", "jsonb"])
            for number in numbers:
                copy.write_row(
                    (self._id(), "default", "benchmarks.compare.djqueue_tasks.noop", _jsonb(bare._args(number)))
                )


def _jsonb(text: str) -> Any:
    from psycopg.types.json import Jsonb

    return Jsonb(text, dumps=str)


PEER = base.Peer(
    name="copy",
    label="floor: COPY",
    package="psycopg",
    client=Client,
    setup=djqueue.setup,
    worker=None,
    settings="COPY of the same rows, binary",
    left=djqueue.PEER.left,
)

if __name__ == "__main__":
    base.run(PEER)
