"""A partner on a loopback socket: answers, or says 503 while it is down, and remembers each request."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

MISSING = "/missing"
"""What the partner does not know: 404."""


class Request(NamedTuple):
    """One request, by the machine's clock."""

    at: float
    status: int


class StubPartner:
    """An HTTP server in threads of this process."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.is_down = False
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self) -> None:
                stub._answer(self)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 512
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "StubPartner":
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        status = 503 if self.is_down else 404 if handler.path.startswith(MISSING) else 200
        self.requests.append(Request(time.time(), status))
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
