"""A TCP proxy on loopback that can lose a server's answer: it passes a request on, and then cuts the connection."""

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Proxy:
    """Stands between clients and a server; `lose_answer_to` arms it for one request."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_wanted: Callable[[bytes], bool] | None = None
        self._passes_it_on = True
        self.lost = threading.Event()

    def lose_answer_to(self, is_wanted: Callable[[bytes], bool], *, after_the_server_has_it: bool) -> None:
        """Cut the connection of the next request that is wanted: after the server has answered it, or before it gets
        it at all."""
        self._passes_it_on = after_the_server_has_it
        self._is_wanted = is_wanted

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answers, args=(client, server), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := client.recv(1 << 20):
                if self._is_wanted is not None and self._is_wanted(data):
                    self._is_wanted = None
                    self._lose(data, client, server)
                    return
                server.sendall(data)
        except OSError:
            pass
        _close(client, server)

    def _lose(self, data: bytes, client: socket.socket, server: socket.socket) -> None:
        """The client's side is closed first, so that no answer can reach it."""
        _close(client)
        if self._passes_it_on:
            server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            while server.recv(1 << 20):
                pass
        _close(server)
        self.lost.set()

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while data := server.recv(1 << 20):
                client.sendall(data)
        except OSError:
            pass
        _close(client)


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        each.close()
