"""The daemons of a run: their addresses, given and learned, and the selection of the daemon to call."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from loaderd._connection import TLS, Connection, is_secure, normalize_url
from loaderd._local_auth import data_folder
from loaderd.errors import ClosedClientError, ForkedClientError, LoaderdError

URLs = str | Sequence[str]
"""Addresses of a run's daemons: one, several separated by commas, or a sequence of such."""

# Seconds after its first consecutive failure until a daemon counts as alive again because others list it. Doubled with
# every further failure, up to the longest.
_REVIVAL, _LONGEST_REVIVAL = 5.0, 300.0


class _Daemon:
    """The state of a daemon as this process has observed it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.answered = False  # at least once
        self.failures = 0  # since its last answer
        self.failed_at = -math.inf
        self.rests_until = -math.inf  # it timed out, and calling it costs time
        self.said: LoaderdError | None = None  # the last error

    def revive(self, now: float) -> None:
        """Clears the failure of a daemon that other daemons list as alive, once its revival delay has passed."""
        if self.answered and now > self.failed_at + min(_REVIVAL * 2.0 ** (self.failures - 1), _LONGEST_REVIVAL):
            self.failed_at = -math.inf


class Daemons:
    """Connections to the daemons of a run, any of which serves every rank.

    They are safe for use by several threads.

    A rank stays with its daemon until that daemon fails. Then daemons without a failure are preferred, in a
    rank-specific order that spreads ranks over them; next is the daemon with the oldest failure.
    """

    def __init__(self, url: URLs, *, rank: int = 0, token: str | None = None, tls: TLS | None = None) -> None:
        """Creates connections to the given daemons, which connect on the first call.

        Without a token, the token of a data folder on this machine proves the caller's identity. It is the folder of
        `loaderd.serve` if `serve` returned the URL.

        Args:
            url: Addresses grpc://host:port, or grpc+tls://host:port for TLS, which `tls` implies.
            rank: The rank whose order of daemons is used.
            token: The bearer token of all daemons.
            tls: What TLS needs in addition to the system's authorities.
        """
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
        # The first daemon is the same on every rank, so that all ranks find the same plan.
        self._current: _Daemon | None = self._all[self._given[0]]

    @property
    def url(self) -> str:
        """The addresses as text, in the form that `Client` accepts."""
        return ",".join(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def several(self) -> bool:
        """Whether failover to another daemon is possible."""
        return len(self._all) > 1

    def check_fork(self) -> None:
        """Checks that this process was not forked after this was created: connections would hang there.

        Raises:
            ForkedClientError: If it was.
        """
        if os.getpid() != self._pid:
            raise ForkedClientError(
                f"cannot use the client of {self.url}: it was created before the process was forked; create it in the "
                "child process"
            )

    def pick(self, but: Collection[str] = ()) -> Connection | None:
        """Returns the daemon to call, among those whose addresses are not in `but`.

        If `but` is not empty, None means that no daemon is left that is worth calling immediately.
        """
        with self._lock:
            found = self._best(but)
        return None if found is None else found.connection

    def settle(self) -> Connection:
        """Selects the rank's preferred daemon among those alive, which is used from now on."""
        with self._lock:
            self._current = None
            self._current = found = self._best(())
        assert found is not None  # the selection is not restricted
        return found.connection

    def answered(self, connection: Connection) -> None:
        """Records that a daemon answered: the rank stays with it."""
        with self._lock:
            if found := self._all.get(connection.url):
                found.answered, found.failures, found.failed_at, found.rests_until = True, 0, -math.inf, -math.inf
                self._current = self._current or found

    def failed(self, connection: Connection, error: LoaderdError, rest: float = 0.0) -> None:
        """Records that a daemon failed and should not be called now.

        For `rest` seconds it is not called while another one is available.
        """
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
        """Records the run's daemons as one of them lists them.

        An address without TLS is ignored if a given address has TLS. A list of one address is ignored because it names
        only the daemon that sent it.
        """
        listed = []
        for url in urls:
            try:
                url = normalize_url(url, self._tls is not None)
            except ValueError:
                continue  # of a kind that this version does not support
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
        """Returns every address with its last error."""
        with self._lock:
            return [(u, str(d.said) if d.failures else "not tried") for u, d in self._all.items()]

    def close(self) -> None:
        """Closes all connections permanently."""
        if os.getpid() != self._pid:
            return  # connections, and perhaps the lock, belong to the parent
        with self._lock:
            self._closed = True
            ended = [d.connection for d in self._all.values()]
        for connection in ended:
            connection.close()

    def _best(self, but: Collection[str]) -> _Daemon | None:
        if self._closed:
            raise ClosedClientError(f"the client of {self.url} is closed")
        if self._current is not None and self._current.connection.url not in but:
            return self._current
        now = time.monotonic()
        found = [
            (d.rests_until > now, d.failed_at, place, d)
            for place, d in enumerate(self._all[u] for u in self._order())
            if d.connection.url not in but and not (but and d.rests_until > now)
        ]
        return min(found)[-1] if found else None  # places are unique, so daemons are never compared

    def _order(self) -> list[str]:
        """Returns the addresses in the rank's order.

        Ranks that share their first daemon have different next ones. Given addresses that no daemon lists may be other
        names of listed ones, and are last.
        """
        urls = self._listed or self._given
        n, first = len(urls), self.rank % len(urls)
        others = urls[:first] + urls[first + 1 :]
        turn = self.rank // n % max(1, n - 1)
        order = [urls[first], *others[turn:], *others[:turn]]
        return order + [u for u in self._all if u not in order]


def _folder(url: URLs) -> Path:
    """Returns the data folder of the daemons: that of loaderd.serve's URL, else that of this process."""
    served = (getattr(text, "folder", None) for text in ([url] if isinstance(url, str) else url))
    return next((folder for folder in served if folder is not None), data_folder()).absolute()


def _addresses(url: URLs) -> list[str]:
    texts = [url] if isinstance(url, str) else list(url)
    found = [part.strip() for text in texts for part in text.split(",")]
    if not found:
        raise ValueError("no url: want grpc://host:port or grpc+tls://host:port")
    return found
