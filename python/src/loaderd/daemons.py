"""The daemons of a run: their addresses, given and learned, and which of them is asked."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from loaderd.connection import TLS, Connection, is_secure, normalized
from loaderd.errors import ClosedClient, ForkedClient, LoaderdError
from loaderd.local import data_folder

URLs = str | Sequence[str]
"""Addresses of a run's daemons: one, several with commas between them, or a sequence of such."""

# Seconds after its first failure in a row until a daemon counts as alive again because others list it: doubled with every
# further one, up to the longest.
_REVIVAL, _LONGEST_REVIVAL = 5.0, 300.0


class _Daemon:
    """A daemon as this process has found it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.answered = False  # ever
        self.failures = 0  # since its last answer
        self.failed_at = -math.inf
        self.rests_until = -math.inf  # it is silent, and to ask it costs time
        self.said: LoaderdError | None = None  # by which it failed last

    def revive(self, now: float) -> None:
        """Takes note that other daemons say that it lives."""
        if self.answered and now > self.failed_at + min(_REVIVAL * 2.0 ** (self.failures - 1), _LONGEST_REVIVAL):
            self.failed_at = -math.inf


class Daemons:
    """Connections to the daemons of a run, any of which serves every rank. Threads may share them.

    Who has a daemon stays with it until it fails. Then those come first that have not failed, in an order of the rank's
    own, so that ranks spread over them; then the one whose failure lies back furthest."""

    def __init__(self, url: URLs, *, rank: int = 0, token: str | None = None, tls: TLS | None = None) -> None:
        """`url` has addresses grpc://host:port, or grpc+tls://host:port for TLS, which `tls` implies; `token` is the
        bearer token of all daemons. Without one the token of a data folder of this machine proves who calls: of that of
        `loaderd.serve`, where the URL is what it gave."""
        self.rank = rank
        self._token, self._tls, self._folder = token, tls, _folder(url)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        given = [Connection(u, token=token, tls=tls, folder=self._folder) for u in _addresses(url)]
        self.secure = any(c.secure for c in given)
        self._given = sorted({c.url for c in given})
        self._all = {c.url: _Daemon(c) for c in given}
        self._listed: list[str] = []
        # The first that is asked is the same on every rank, so that all find the same plan.
        self._current: _Daemon | None = self._all[self._given[0]]

    @property
    def url(self) -> str:
        """The addresses in words, and as `Client` takes them."""
        return ",".join(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def several(self) -> bool:
        """Whether there is another daemon to go to."""
        return len(self._all) > 1

    def check_fork(self) -> None:
        """Raises ForkedClient in a process that was forked after this was made: in there a connection would hang."""
        if os.getpid() != self._pid:
            raise ForkedClient(f"the client of {self.url} was made before the process was forked; make it in the child")

    def pick(self, but: Collection[str] = ()) -> Connection | None:
        """The one to ask, of those whose addresses are not in `but`. With something in `but` None says that none is
        left that is worth asking at once."""
        with self._lock:
            found = self._best(but)
        return None if found is None else found.connection

    def settle(self) -> Connection:
        """The rank's own among those that live, which is asked from now on."""
        with self._lock:
            self._current = None
            self._current = found = self._best(())
        assert found is not None  # with nothing to leave out
        return found.connection

    def answered(self, connection: Connection) -> None:
        """Takes note that a daemon has answered: one stays with it."""
        with self._lock:
            if found := self._all.get(connection.url):
                found.answered, found.failures, found.failed_at, found.rests_until = True, 0, -math.inf, -math.inf
                self._current = self._current or found

    def failed(self, connection: Connection, error: LoaderdError, rest: float = 0.0) -> None:
        """Takes note that a daemon is not the one to ask now, and, for `rest` seconds, not while another one is
        there."""
        with self._lock:
            found = self._all.get(connection.url)
            if found is None:
                return
            now = time.monotonic()
            found.failed_at, found.rests_until, found.said = now, now + rest, error
            found.failures += 1
            if self._current is found:
                self._current = None

    def learn(self, urls: Iterable[str]) -> None:
        """Takes note of which daemons the run has, as one of them says. An address without TLS is no use to somebody
        who was given one with; and one that is listed alone is the one that says so."""
        listed = []
        for url in urls:
            try:
                url = normalized(url, self._tls is not None)
            except ValueError:
                continue  # of a kind that this version does not know
            if is_secure(url) or not self.secure:
                listed.append(url)
        with self._lock:
            if len(listed) < 2 or self._closed:
                return
            now = time.monotonic()
            self._listed = sorted(set(listed))
            known = {*self._given, *self._listed} | ({self._current.connection.url} if self._current else set())
            self._all = {u: d for u, d in self._all.items() if u in known}
            for u in self._listed:
                if u not in self._all:
                    self._all[u] = _Daemon(Connection(u, token=self._token, tls=self._tls, folder=self._folder))
                self._all[u].revive(now)

    def said(self) -> list[tuple[str, str]]:
        """Every address, and how asking there failed last."""
        with self._lock:
            return [(u, str(d.said) if d.failures else "was not asked") for u, d in self._all.items()]

    def close(self) -> None:
        """Ends all connections, for good."""
        if os.getpid() != self._pid:
            return  # they, and perhaps the lock, are the parent's
        with self._lock:
            self._closed = True
            ended = [d.connection for d in self._all.values()]
        for connection in ended:
            connection.close()

    def _best(self, but: Collection[str]) -> _Daemon | None:
        if self._closed:
            raise ClosedClient(f"the client of {self.url} is closed")
        if self._current is not None and self._current.connection.url not in but:
            return self._current
        now = time.monotonic()
        found = [
            (d.rests_until > now, d.failed_at, place, d)
            for place, d in enumerate(self._all[u] for u in self._order())
            if d.connection.url not in but and not (but and d.rests_until > now)
        ]
        return min(found)[-1] if found else None  # no two have the same place

    def _order(self) -> list[str]:
        """The addresses in the rank's order: ranks that share their first one go to different ones when it fails. Those
        that were given and that no daemon lists may be other names of some, and come last."""
        urls = self._listed or self._given
        n, first = len(urls), self.rank % len(urls)
        others = urls[:first] + urls[first + 1 :]
        turn = self.rank // n % max(1, n - 1)
        order = [urls[first], *others[turn:], *others[:turn]]
        return order + [u for u in self._all if u not in order]


def _folder(url: URLs) -> Path:
    """The data folder of the daemons: of loaderd.serve's URL, else that of this process."""
    served = (getattr(text, "folder", None) for text in ([url] if isinstance(url, str) else url))
    return next((folder for folder in served if folder is not None), data_folder()).absolute()


def _addresses(url: URLs) -> list[str]:
    texts = [url] if isinstance(url, str) else list(url)
    found = [part.strip() for text in texts for part in text.split(",")]
    if not found:
        raise ValueError("no url: want grpc://host:port or grpc+tls://host:port")
    return found
