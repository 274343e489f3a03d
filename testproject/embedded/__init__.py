"""A PostgreSQL server of one's own, for tests, the demo and the benchmarks.

`EmbeddedServer` runs `postgres` as a child process on the loopback address, in a data folder that is kept or
temporary. Files, from the outside in: `home` (where the shop's data lives) · `server` (start, stop, restart) ->
`folder` (data folder and its postmaster.pid) -> `binaries` (where they are) · `reach` (who may use them) -> `launch`
(child processes, the user they run as, their end) -> `errors`.
The one invariant: a server never outlives the process that started it.
"""

from testproject.embedded.errors import BinariesNotFound, EmbeddedServerError, ServerNotOwned, ServerStartFailed
from testproject.embedded.server import EmbeddedServer

__all__ = ["BinariesNotFound", "EmbeddedServer", "EmbeddedServerError", "ServerNotOwned", "ServerStartFailed"]
