"""The network between workers and server: a TCP proxy that can stall, cut, and lead to another server."""

import contextlib
import socket
import threading


class Network:
    """Clients connect to `port`; where that leads can be changed, and whether anything gets through."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port: int = self._listener.getsockname()[1]
        self._flows = threading.Event()
        self._flows.set()
        self._is_up = True
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Let nothing through, and tell nobody: packets are lost, connections stay."""
        self._flows.clear()

    def flow(self) -> None:
        """Let everything through again."""
        self._flows.set()

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self._is_up = False
        with self._lock:
            for each in self._open:
                _close(each)
            self._open.clear()

    def mend(self) -> None:
        """Take new connections again."""
        self._is_up = True

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._flows.wait()
        if not self._is_up:
            _close(client)
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
        except OSError:
            _close(client)
            return
        for each in (client, server):
            each.settimeout(None)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open |= {client, server}
        threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
        threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                self._flows.wait()
                target.sendall(data)
        except OSError:
            pass
        with self._lock:
            self._open -= {source, target}
        _close(source)
        _close(target)


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
