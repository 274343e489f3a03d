"""PgQueuer once more, with the batch size that suits no-op jobs best."""

from dataclasses import replace

from benchmarks.compare.peers import base, pgqueuer

PEER = replace(
    pgqueuer.PEER,
    name="pgqueuer-tuned",
    label="PgQueuer, tuned",
    settings="asyncpg, uvloop, batch size 200 for no-op jobs; finished jobs are deleted",
    drain_concurrency=200,
)

if __name__ == "__main__":
    base.run(PEER)
