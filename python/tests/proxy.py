"""A TCP proxy between client and daemon that cuts, delays or drops its traffic."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable


class Proxy:
    """Forwards connections of its own port to a target on loopback.

    `budget` is called for every connection and returns the bytes from the target after which the connection is cut
    (None: never). With `hang` all further bytes are dropped instead. While `swallow` is set nothing is forwarded in
    either direction and connections stay open. `delay` is added to every chunk of data, in seconds. Between `down`
    and `up` the port refuses connections, as when a daemon is killed."""

    def __init__(
        self, target: int, *, budget: Callable[[], int | None] = lambda: None, hang: bool = False, delay: float = 0
    ) -> None:
        self.target, self.budget, self.hang, self.delay = target, budget, hang, delay
        self.swallow = threading.Event()
        self.forwarded = threading.Condition()
        self.connections = self.cuts = self.bytes = self.swallowed = 0
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{self._port}"

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()
        for t in self._threads:
            t.join()

    def up(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._accepting.start()

    def down(self) -> None:
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._accepting.join()
        for s in self._sockets:
            reset(s)

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        """Waits until a condition on the counts holds."""
        with self.forwarded:
            assert self.forwarded.wait_for(condition, timeout=seconds)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                reset(client)
                continue
            with self.forwarded:
                self.connections += 1
                self.forwarded.notify_all()
            self._sockets += [client, server]
            for source, sink, budget in ((client, server, None), (server, client, self.budget())):
                t = threading.Thread(target=self._carry, args=(source, sink, budget), daemon=True)
                self._threads.append(t)
                t.start()

    def _carry(self, source: socket.socket, sink: socket.socket, budget: int | None) -> None:
        try:
            while data := source.recv(64 << 10 if budget is None else max(1, min(64 << 10, budget))):
                if self.delay:
                    time.sleep(self.delay)
                if self.swallow.is_set():
                    with self.forwarded:
                        self.swallowed += len(data)
                        self.forwarded.notify_all()
                    continue
                sink.sendall(data)
                with self.forwarded:
                    self.bytes += len(data)
                    self.forwarded.notify_all()
                if budget is not None and (budget := budget - len(data)) <= 0:
                    if self.hang:
                        self.swallow.set()
                        budget = None
                        continue
                    with self.forwarded:
                        self.cuts += 1
                    break
        except OSError:
            pass  # the other direction cut it
        reset(source)
        reset(sink)


def reset(s: socket.socket) -> None:
    """Closes a connection immediately, as a cut cable does: no pending data is sent."""
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    s.close()
