"""How long, and how often, to ask again."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from urllib.parse import urlsplit

from loaderd.connection import Connection, Lost
from loaderd.errors import ClosedClient, LoaderdError, Unavailable, Unreachable
from loaderd.waits import Waits

_FIRST, _LONGEST = 0.1, 2.0  # seconds between the beginnings of two attempts
_ANSWER = 10.0
_GREETING = 0.5


class Patience:
    """The attempts at one thing: paces them by jittered exponential backoff and says when to give up.

    After `patience` seconds the last cause is raised; after `connect_timeout` seconds without a word from a daemon,
    Unreachable. `stop` ends a pause with ClosedClient. What fails for long is told by `waits`, as what `what` lacks."""

    def __init__(
        self, connection: Connection, patience: float, connect_timeout: float, stop: threading.Event, waits: Waits, what: str
    ) -> None:
        self.connection, self.patience, self.connect_timeout, self.stop = connection, patience, connect_timeout, stop
        self.waits, self.what = waits, what
        self.began = self.heard = self.attempt = time.monotonic()
        self.backoff = _FIRST
        self.answered = False
        self.last: LoaderdError | None = None  # of any kind
        self.cause: Unavailable | None = None  # that the daemon gave

    def left(self) -> float:
        """Seconds that the next call may take at most."""
        return max(_FIRST, self.began + self.patience - time.monotonic())

    def answer(self) -> float:
        """Seconds that a daemon has to answer a call that waits for nothing."""
        return max(_FIRST, min(_ANSWER, self.heard + self.connect_timeout - time.monotonic(), self.left()))

    def reached(self) -> None:
        """Takes note that a daemon answered just now."""
        self.heard, self.answered = time.monotonic(), True

    def failed(self, error: LoaderdError) -> None:
        """Returns when it is time for the next attempt; raises the error when another one is useless, or the time is
        up."""
        if isinstance(error, Unavailable):
            self.cause = error
            self.reached()
        elif not isinstance(error, Lost):
            raise error
        self.last = error
        now = time.monotonic()
        end = self.began + self.patience
        if isinstance(error, Lost):
            end = min(end, self.heard + self.connect_timeout)
        if now >= end:
            raise self.unreachable(error) if isinstance(error, Lost) else error
        self.waits.tell(self.what, self.unreachable(error) if isinstance(error, Lost) else error)
        pause = self.attempt + self.backoff * random.uniform(0.5, 1) - now
        self.backoff = min(2 * self.backoff, _LONGEST)
        if self.stop.wait(max(0.0, min(pause, end - now))):
            raise ClosedClient("the client is closed")
        self.attempt = time.monotonic()

    def unreachable(self, error: LoaderdError) -> Unreachable:
        c, silence = self.connection, time.monotonic() - self.heard
        heard = f"last answer {silence:.1f} s ago" if self.answered else f"no answer in {silence:.1f} s"
        tls = (
            "the daemon serves without TLS, or a certificate is not of the expected authority"
            if c.secure
            else "the daemon wants TLS (grpc+tls://)"
        )
        if "HTTP/2" in str(error) and greets_as_nats(c.url):  # something else answers
            return Unreachable(
                f"no connection to {c.url}: a NATS server listens there, where documents are published; the Flight server is at the daemon's"
                " flight.listen, by default grpc://127.0.0.1:8815",
                facts={"url": c.url},
            )
        return Unreachable(
            f"no connection to {c.url} that lasts ({heard}): the address is wrong, the daemon is down or cut off, "
            f"or {tls}: {error}",
            facts={"url": c.url},
        )


def greets_as_nats(url: str) -> bool:
    """Whether a NATS server listens at an address: it greets whoever connects."""
    at = urlsplit(url)
    with contextlib.suppress(OSError, ValueError), socket.create_connection((at.hostname, at.port or 0), timeout=_GREETING) as connection:
        return connection.recv(5) == b"INFO "
    return False
