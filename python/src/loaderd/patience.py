"""How long, and how often, to ask again."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
import time
from urllib.parse import urlsplit

from loaderd.connection import Connection, Lost, Silent
from loaderd.daemons import Daemons
from loaderd.errors import (
    ClosedClient,
    DocumentLost,
    InternalError,
    LoaderdError,
    PlanMismatch,
    PoolFilling,
    RankBehind,
    RankMissing,
    RunFailed,
    RunReplaced,
    SourceDry,
    StepNotPlanned,
    StreamFull,
    TokenizerBehind,
    Unavailable,
    Unreachable,
)
from loaderd.waits import Waits
from loaderd.wire import RunInfo

log = logging.getLogger("loaderd")

OF_THE_RUN = (SourceDry, TokenizerBehind, PoolFilling, RankBehind, RankMissing, StreamFull)
"""Causes that pass and that every daemon of the run would give: to go to another one is of no use."""
_OF_ONE = (RunFailed, InternalError, DocumentLost, StepNotPlanned)
# What does not pass, but may be the matter of one daemon: the others are asked before it is raised.

_FIRST, _LONGEST = 0.1, 2.0  # seconds between the beginnings of two attempts, or of two rounds of all daemons
_ANSWER = 10.0
_FIRST_ANSWER = 1.0  # while there is another daemon to go to; doubled when all of them are silent
_GREETING = 0.5


class Patience:
    """The attempts at one thing, by one daemon or, one after the other, by several: paces them by jittered exponential
    backoff and says when to give up.

    After `patience` seconds the last cause is raised; after `connect_timeout` seconds without a word from a daemon,
    Unreachable. `stop` ends a pause with ClosedClient. What fails for long is told by `waits`, as what `what` lacks."""

    def __init__(
        self, daemons: Daemons, patience: float, connect_timeout: float, stop: threading.Event, waits: Waits, what: str
    ) -> None:
        self.daemons, self.patience, self.connect_timeout, self.stop = daemons, patience, connect_timeout, stop
        self.waits, self.what = waits, what
        self.on: Connection | None = None  # of the present attempt
        self.began = self.heard = self.attempt = time.monotonic()
        self.backoff = _FIRST
        self.answered = False
        self.last: LoaderdError | None = None  # of any kind
        self.cause: Unavailable | None = None  # that a daemon gave
        # Since the last pause:
        self._asked: set[str] = set()  # the addresses that failed
        self._refused: LoaderdError | None = None  # for good, by one daemon
        self._passes = False  # by the word of another one
        self._silences = 0
        self._left: tuple[str, LoaderdError] | None = None  # the first that failed, and how

    def turn(self) -> Connection:
        """The daemon for the next attempt."""
        self.on = self.daemons.pick(self._asked) or self.daemons.pick()
        assert self.on is not None  # with nothing to leave out
        return self.on

    def settle(self) -> bool:
        """Goes to the daemon that is the rank's own; whether it is another one than that of the present attempt."""
        before, self.on = self.on, self.daemons.settle()
        return self.on is not before

    def described(self, run: str | None, fingerprint: str | None, run_id: str | None = None) -> RunInfo:
        """The run as the daemon of the present attempt describes it. Raises PlanMismatch when its fingerprint is another
        one, RunReplaced when its id is."""
        connection = self.on or self.turn()
        info = connection.info(run, self.answer())
        self.reached()
        self.daemons.learn(info.daemons)
        if fingerprint not in (None, info.fingerprint):
            raise PlanMismatch(
                f"PLAN_MISMATCH: run {info.name} has the fingerprint {info.fingerprint} at {connection.url}, this client's is {fingerprint}: "
                "resume with the configuration of the checkpoint",
                facts={"run": info.name, "want": str(fingerprint), "have": info.fingerprint},
            )
        if run_id and info.run_id and run_id != info.run_id:
            raise replaced(info, run_id, connection.url)
        return info

    def left(self) -> float:
        """Seconds that the next call may take at most."""
        return max(_FIRST, self.began + self.patience - time.monotonic())

    def answer(self) -> float:
        """Seconds that a daemon has to answer a call that waits for nothing."""
        heard = self.heard + self.connect_timeout - time.monotonic()
        if self.daemons.several:  # the others have not been asked yet
            heard = max(heard, _FIRST_ANSWER)
        return max(_FIRST, min(self._limit(), heard, self.left()))

    def reached(self) -> None:
        """Takes note that a daemon answered just now."""
        self.heard, self.answered = time.monotonic(), True
        if self.on is not None:
            self.daemons.answered(self.on)

    def succeeded(self) -> None:
        """Takes note that the thing is done."""
        if self.on is None:
            return
        self.daemons.answered(self.on)
        if self._left is not None and self._left[0] != self.on.url:
            log.warning("%s came from %s, for %s failed: %s", self.what, self.on.url, *self._left)

    def failed(self, error: LoaderdError) -> None:
        """Returns when it is time for the next attempt; raises the error when another one is useless, or the time is
        up."""
        before = self.before()
        if isinstance(error, Unavailable):
            self.cause, self._passes = error, True
        elif isinstance(error, _OF_ONE) and self.daemons.several:
            self._refused = error
        elif not isinstance(error, Lost):
            raise error
        if not isinstance(error, Lost):
            self.reached()
        self.last = error
        another = self._another(error)
        now = time.monotonic()
        end = self.began + self.patience
        if isinstance(error, Lost) and not another:
            end = min(end, self.heard + self.connect_timeout)
        if now >= end or (self._refused and not another and not self._passes):
            raise self._verdict(error, before)
        pause = 0.0
        if not another:
            self.waits.tell(self.what, self.unreachable(error) if isinstance(error, Lost) else error)
            pause = self.attempt + self.backoff * random.uniform(0.5, 1) - now
            self._asked.clear()
            self._refused, self._passes = None, False
            self.backoff = min(2 * self.backoff, _LONGEST)
        if self.stop.wait(max(0.0, min(pause, end - now))):
            raise ClosedClient("the client is closed")
        self.attempt = time.monotonic()

    def before(self) -> LoaderdError | None:
        """How the attempt before the present one failed, where more of the time went up to there: then that is why there is nothing yet."""
        return self.last if self.attempt - self.began > time.monotonic() - self.attempt else None

    def _another(self, error: LoaderdError) -> bool:
        """Whether another daemon is to be asked at once."""
        if self.on is None or isinstance(error, OF_THE_RUN):
            return False
        rest = 0.0
        if isinstance(error, Silent):
            rest = 2 * self._limit()  # so that it takes a third of the time at most from those that answer
            self._silences += 1
        self._asked.add(self.on.url)
        self._left = self._left or (self.on.url, error)
        self.daemons.failed(self.on, error, rest)
        return self.daemons.pick(self._asked) is not None

    def _limit(self) -> float:
        if not self.daemons.several:
            return _ANSWER
        rounds = self._silences // len(self.daemons)  # in which all were too slow, and perhaps live
        return min(_ANSWER, _FIRST_ANSWER * 2.0**rounds)

    def _verdict(self, error: LoaderdError, before: LoaderdError | None) -> LoaderdError:
        """What is raised when there is no further attempt behind an error; `before` is how the one before that failed."""
        if self._refused is not None:
            return self._refused
        if not isinstance(error, Lost):
            return error
        if self.daemons.several and self.cause is not None and time.monotonic() < self.heard + self.connect_timeout:
            return self.cause  # of those that are there
        if isinstance(before, Unavailable):
            return before  # the time was up before the daemon could say it again
        return self.unreachable(error)

    def unreachable(self, error: LoaderdError) -> Unreachable:
        """The error of a transport that failed, in words for whoever has to mend it."""
        d, silence = self.daemons, time.monotonic() - self.heard
        heard = f"last answer {silence:.1f} s ago" if self.answered else f"no answer in {silence:.1f} s"
        tls = (
            "the daemon serves without TLS, or a certificate is not of the expected authority"
            if d.secure
            else "the daemon wants TLS (grpc+tls://)"
        )
        said = d.said() if d.several else [(d.url, str(error))]
        for url, what in said:
            if "HTTP/2" in what and greets_as_nats(url):  # something else answers
                return Unreachable(
                    f"no connection to {url}: a NATS server listens there, where documents are published; the Flight server is at the daemon's"
                    " flight.listen, by default grpc://127.0.0.1:8815",
                    facts={"url": url},
                )
        if d.several:
            return Unreachable(
                f"no connection to any of {len(said)} daemons that lasts ({heard}): the addresses are wrong, the daemons are down or cut off, or {tls}: "
                + "; ".join(f"{url}: {what}" for url, what in said),
                facts={"url": d.url},
            )
        return Unreachable(
            f"no connection to {d.url} that lasts ({heard}): the address is wrong, the daemon is down or cut off, "
            f"or {tls}: {error}",
            facts={"url": d.url},
        )


def replaced(info: RunInfo, run_id: str, where: str) -> RunReplaced:
    """The error of a run that was begun again under its name, as the daemon would give it."""
    return RunReplaced(
        f"RUN_REPLACED: run {info.name} at {where} was deleted and begun again: it has the id {info.run_id or '(none)'}, the one that is read here has "
        f"{run_id}; its steps need not be those of before: resume from a checkpoint of this run, begin at step 0 without one, or restore the former "
        "run's plan from its backup",
        facts={"run": info.name, "want": run_id, "have": info.run_id or ""},
    )


def greets_as_nats(url: str) -> bool:
    """Whether a NATS server listens at an address: it greets whoever connects."""
    at = urlsplit(url)
    with contextlib.suppress(OSError, ValueError), socket.create_connection((at.hostname, at.port or 0), timeout=_GREETING) as connection:
        return connection.recv(5) == b"INFO "
    return False
