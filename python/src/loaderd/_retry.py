"""The pacing and the limits of retries."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
import time
from urllib.parse import urlsplit

from loaderd._connection import CallTimeoutError, Connection, ConnectionLostError
from loaderd._daemons import Daemons
from loaderd._stall_log import StallLog
from loaderd._wire import RunInfo
from loaderd.errors import (
    ClosedClientError,
    DocumentLostError,
    DocumentsFilteredError,
    InternalError,
    LoaderdError,
    PlanMismatchError,
    PoolFillingError,
    RankBehindError,
    RankMissingError,
    RunFailedError,
    RunReplacedError,
    SourceDryError,
    StepNotPlannedError,
    StreamFullError,
    TokenizerBehindError,
    UnavailableError,
    UnreachableError,
)

log = logging.getLogger("loaderd")

OF_THE_RUN = (
    SourceDryError,
    TokenizerBehindError,
    PoolFillingError,
    DocumentsFilteredError,
    RankBehindError,
    RankMissingError,
    StreamFullError,
)
"""Temporary causes that every daemon of the run would return, so that failover does not help."""
_OF_ONE = (RunFailedError, InternalError, DocumentLostError, StepNotPlannedError)
# Permanent errors that may be specific to one daemon: the client tries the other daemons before it raises them.

_FIRST, _LONGEST = 0.1, 2.0  # seconds between the starts of two attempts, or of two rounds of all daemons
_ANSWER = 10.0
_FIRST_ANSWER = 1.0  # while failover is possible; doubled after each round in which all daemons time out
_GREETING = 0.5


class Retry:
    """The attempts of one operation, on one daemon or on several in turn.

    It paces them by jittered exponential backoff and decides when to give up.

    After `timeout` seconds the last cause is raised; after `connect_timeout` seconds without an answer from any daemon,
    UnreachableError. `stop` ends a pause with ClosedClientError. `stall_log` logs repeated failures, and `what` names
    the missing result.
    """

    def __init__(
        self,
        daemons: Daemons,
        timeout: float,
        connect_timeout: float,
        stop: threading.Event,
        stall_log: StallLog,
        what: str,
    ) -> None:
        self.daemons, self.timeout, self.connect_timeout, self.stop = daemons, timeout, connect_timeout, stop
        self.stall_log, self.what = stall_log, what
        self.on: Connection | None = None  # of the current attempt
        self.began = self.heard = self.attempt = time.monotonic()
        self.backoff = _FIRST
        self.answered = False
        self.last: LoaderdError | None = None  # of any kind
        self.cause: UnavailableError | None = None  # reported by a daemon
        # Since the last pause:
        self._asked: set[str] = set()  # addresses that failed
        self._refused: LoaderdError | None = None  # a permanent error of one daemon
        self._temporary = False  # another daemon reported a temporary cause
        self._silences = 0
        self._left: tuple[str, LoaderdError] | None = None  # the first daemon that failed, and its error

    def turn(self) -> Connection:
        """Selects the daemon for the next attempt."""
        self.on = self.daemons.pick(self._asked) or self.daemons.pick()
        assert self.on is not None  # the selection is not restricted
        return self.on

    def settle(self) -> bool:
        """Switches to the rank's preferred daemon.

        Returns whether it differs from that of the current attempt.
        """
        before, self.on = self.on, self.daemons.settle()
        return self.on is not before

    def described(self, run: str | None, fingerprint: str | None, run_id: str | None = None) -> RunInfo:
        """Returns the run as the daemon of the current attempt describes it.

        Raises:
            PlanMismatchError: If its fingerprint differs.
            RunReplacedError: If its id differs.
        """
        connection = self.on or self.turn()
        info = connection.info(run, self.answer())
        self.reached()
        self.daemons.learn(info.daemons)
        if fingerprint not in (None, info.fingerprint):
            raise PlanMismatchError(
                f"PLAN_MISMATCH: run {info.name} at {connection.url} has the fingerprint {info.fingerprint}, the "
                f"client expects {fingerprint}: "
                "resume with the configuration of the checkpoint",
                facts={"run": info.name, "want": str(fingerprint), "have": info.fingerprint},
            )
        if run_id and info.run_id and run_id != info.run_id:
            raise replaced(info, run_id, connection.url)
        return info

    def left(self) -> float:
        """Returns the timeout of the next call in seconds."""
        return max(_FIRST, self.began + self.timeout - time.monotonic())

    def answer(self) -> float:
        """Returns the timeout in seconds of a call that a daemon answers immediately."""
        heard = self.heard + self.connect_timeout - time.monotonic()
        if self.daemons.several:  # the others have not been called yet
            heard = max(heard, _FIRST_ANSWER)
        return max(_FIRST, min(self._limit(), heard, self.left()))

    def reached(self) -> None:
        """Records that a daemon answered just now."""
        self.heard, self.answered = time.monotonic(), True
        if self.on is not None:
            self.daemons.answered(self.on)

    def succeeded(self) -> None:
        """Records that the operation is done."""
        if self.on is None:
            return
        self.daemons.answered(self.on)
        if self._left is not None and self._left[0] != self.on.url:
            log.warning("received %s from %s after %s failed: %s", self.what, self.on.url, *self._left)

    def failed(self, error: LoaderdError) -> None:
        """Returns when the next attempt is due.

        Raises the error when another attempt is useless, or the time has expired.
        """
        before = self.before()
        if isinstance(error, UnavailableError):
            self.cause, self._temporary = error, True
        elif isinstance(error, _OF_ONE) and self.daemons.several:
            self._refused = error
        elif not isinstance(error, ConnectionLostError):
            raise error
        if not isinstance(error, ConnectionLostError):
            self.reached()
        self.last = error
        another = self._another(error)
        now = time.monotonic()
        end = self.began + self.timeout
        if isinstance(error, ConnectionLostError) and not another:
            end = min(end, self.heard + self.connect_timeout)
        if now >= end or (self._refused and not another and not self._temporary):
            raise self._verdict(error, before)
        pause = 0.0
        if not another:
            self.stall_log.report(
                self.what, self.unreachable(error) if isinstance(error, ConnectionLostError) else error
            )
            pause = self.attempt + self.backoff * random.uniform(0.5, 1) - now
            self._asked.clear()
            self._refused, self._temporary = None, False
            self.backoff = min(2 * self.backoff, _LONGEST)
        if self.stop.wait(max(0.0, min(pause, end - now))):
            raise ClosedClientError("the client is closed")
        self.attempt = time.monotonic()

    def before(self) -> LoaderdError | None:
        """Returns the error of the previous attempt if it is the actual cause.

        It is if most of the time passed before the current attempt.
        """
        return self.last if self.attempt - self.began > time.monotonic() - self.attempt else None

    def _another(self, error: LoaderdError) -> bool:
        """Reports whether another daemon is to be called immediately."""
        if self.on is None or isinstance(error, OF_THE_RUN):
            return False
        rest = 0.0
        if isinstance(error, CallTimeoutError):
            rest = 2 * self._limit()  # so that it takes at most a third of the time from daemons that answer
            self._silences += 1
        self._asked.add(self.on.url)
        self._left = self._left or (self.on.url, error)
        self.daemons.failed(self.on, error, rest)
        return self.daemons.pick(self._asked) is not None

    def _limit(self) -> float:
        if not self.daemons.several:
            return _ANSWER
        rounds = self._silences // len(self.daemons)  # rounds in which all daemons were too slow, but perhaps alive
        return min(_ANSWER, _FIRST_ANSWER * 2.0**rounds)

    def _verdict(self, error: LoaderdError, before: LoaderdError | None) -> LoaderdError:
        """Returns the error to raise when no attempt follows `error`; `before` is the error of the previous attempt."""
        if self._refused is not None:
            return self._refused
        if not isinstance(error, ConnectionLostError):
            return error
        if self.daemons.several and self.cause is not None and time.monotonic() < self.heard + self.connect_timeout:
            return self.cause  # of the daemons that answer
        if isinstance(before, UnavailableError):
            return before  # the time expired before the daemon could repeat it
        if isinstance(error, CallTimeoutError) and isinstance(before, ConnectionLostError):
            error = before  # the time expired before the attempt could fail for the same cause
        return self.unreachable(error)

    def unreachable(self, error: LoaderdError) -> UnreachableError:
        """Returns the error of a failed transport, with what the operator needs to fix it."""
        d, silence = self.daemons, time.monotonic() - self.heard
        heard = f"last answer {silence:.1f} s ago" if self.answered else f"no answer in {silence:.1f} s"
        tls = (
            "the daemon serves without TLS, or a certificate was not issued by the expected authority"
            if d.secure
            else "the daemon requires TLS (grpc+tls://)"
        )
        said = d.said() if d.several else [(d.url, str(error))]
        for url, what in said:
            if "HTTP/2" in what and greets_as_nats(url):  # another server answers
                return UnreachableError(
                    f"cannot connect to {url}: this is the address of a NATS server, which receives documents; connect "
                    "to the daemon's flight.listen,"
                    " by default grpc://127.0.0.1:8815",
                    facts={"url": url},
                )
        if d.several:
            return UnreachableError(
                f"cannot keep a connection to any of {len(said)} daemons ({heard}): the addresses are wrong, the "
                f"daemons are down or unreachable, or {tls}: " + "; ".join(f"{url}: {what}" for url, what in said),
                facts={"url": d.url},
            )
        return UnreachableError(
            f"cannot keep a connection to {d.url} ({heard}): the address is wrong, the daemon is down or unreachable, "
            f"or {tls}: {error}",
            facts={"url": d.url},
        )


def replaced(info: RunInfo, run_id: str, where: str) -> RunReplacedError:
    """Returns the error of a run that was deleted and created again under its name, as the daemon would return it."""
    return RunReplacedError(
        f"RUN_REPLACED: run {info.name} at {where} was deleted and created again: it has the id "
        f"{info.run_id or '(none)'}, the client reads the run with "
        f"the id {run_id}, whose steps may differ: resume from a checkpoint of this run, start at step 0 without one, "
        "or restore the former run's "
        "plan from its backup",
        facts={"run": info.name, "want": run_id, "have": info.run_id or ""},
    )


def greets_as_nats(url: str) -> bool:
    """Reports whether a NATS server listens at an address: it sends INFO to every connection."""
    at = urlsplit(url)
    with (
        contextlib.suppress(OSError, ValueError),
        socket.create_connection((at.hostname, at.port or 0), timeout=_GREETING) as connection,
    ):
        return connection.recv(5) == b"INFO "
    return False
