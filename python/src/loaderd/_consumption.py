"""What the trainer has taken from the client's buffers, and its report to the daemon."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from loaderd._connection import Connection
from loaderd._daemons import Daemons
from loaderd.errors import ClosedClientError, LoaderdError

log = logging.getLogger("loaderd")

REPORT_SECONDS = 1.0
"""Seconds between two reports while few steps are taken."""
AGAIN_SECONDS = 60.0
"""Seconds until the same alert is logged again."""
_ANSWER_SECONDS = 2.0
_LEAVE_SECONDS = 0.5
_LEAST_WINDOW = 8  # of any daemon


class Progress(NamedTuple):
    """`taken` is the index of the step that the trainer takes next.

    Unless it is `waiting` for that step, it holds the one before. `since` is when either changed, by time.monotonic().
    """

    taken: int
    waiting: bool
    since: float


class Consumption:
    """The progress of the trainer: one thread changes it, another one reports it.

    The trainer's thread takes no lock; it stores one tuple per step.
    """

    def __init__(self, taken: int = 0) -> None:
        self.progress = Progress(taken, False, time.monotonic())
        self.due = math.inf  # the number of steps taken at which the reporter is woken
        self.wake: SimpleQueue[None] = SimpleQueue()
        self.on_end: Callable[[], None] = lambda: None

    def wait(self) -> None:
        """Records that the trainer requests the next step, and has therefore consumed the one before."""
        self.progress = Progress(self.progress.taken, True, time.monotonic())

    def end(self) -> None:
        """Records that the trainer has consumed the last step.

        No step follows.
        """
        self.wait()
        self.on_end()

    def take(self) -> None:
        """Records that the trainer received the next step."""
        taken = self.progress.taken + 1
        self.progress = Progress(taken, False, time.monotonic())
        if taken >= self.due:
            self.due = math.inf
            self.wake.put(None)


class Reporter:
    """Reports a Consumption in a daemon thread.

    A report is sent every REPORT_SECONDS and when half of the daemon's window was taken since the last report. A failed
    report is lost; the next one is sent to another daemon.
    """

    def __init__(self, daemons: Daemons, consumption: Consumption) -> None:
        self._daemons, self._consumption = daemons, consumption
        self._pid = os.getpid()
        self._on: Connection | None = None  # of the stream; None before the first
        self._body: Mapping[str, Any] = {}
        self._failed: frozenset[str] = frozenset()  # addresses that failed since the last successful report
        self._window = _LEAST_WINDOW
        self._alerts = Alerts()
        self._ended = self._left = False
        self._thread: threading.Thread | None = None
        consumption.on_end = partial(self.close, left=True)

    def begin(self, on: Connection, body: Mapping[str, Any], ahead: int) -> None:
        """Starts reporting over the connection of an opened stream.

        `body` identifies the rank, `ahead` is serve.ahead of the daemon.
        """
        self._body, self._failed, self._window, self._on = body, frozenset(), max(ahead, _LEAST_WINDOW), on
        self._schedule(self._consumption.progress.taken)
        if self._thread is None and not self._ended:
            thread = threading.Thread(target=self._run, name="loaderd-report", daemon=True)
            thread.start()
            self._thread = thread  # only now: another thread may call close, which joins it

    def report_of(self, taken: int) -> dict[str, Any] | None:
        """Returns the body of a report that the trainer has taken the steps before `taken`.

        Returns None if it has not, or before the first stream.
        """
        return None if not self._body or self._consumption.progress.taken < taken else {**self._body, "taken": taken}

    def close(self, left: bool) -> None:
        """Ends the thread permanently.

        With `left` the last report states that the client was closed on purpose or has all steps; `close` waits briefly
        for that report.
        """
        if os.getpid() != self._pid or self._ended:
            return
        self._ended, self._left = True, left
        self._consumption.wake.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=_LEAVE_SECONDS)

    def _run(self) -> None:
        while not self._ended:
            self._pause()
            if not self._ended:
                self._report(_ANSWER_SECONDS)
        if self._left:
            self._report(_LEAVE_SECONDS)

    def _pause(self) -> None:
        try:
            self._consumption.wake.get(timeout=REPORT_SECONDS)
            while True:
                self._consumption.wake.get_nowait()
        except Empty:
            pass

    def _report(self, timeout: float) -> None:
        on = self._on
        if on is None:
            return
        if self._failed:
            try:
                on = self._daemons.pick(self._failed) or on
            except ClosedClientError:
                return
        progress = self._consumption.progress
        still = max(0.0, time.monotonic() - progress.since)
        own = {"taken": progress.taken, "waiting": progress.waiting, "still": round(still, 3), "left": self._left}
        try:
            found = on.act("consumed", {**self._body, **own}, timeout)
        except LoaderdError:
            self._failed = frozenset() if on.url in self._failed else self._failed | {on.url}
        else:
            self._failed = frozenset()
            self._answered(found[0] if found else {})
            self._schedule(progress.taken)

    def _schedule(self, reported: int) -> None:
        """Makes the trainer's thread wake this one when enough steps were taken since a report."""
        due = reported + max(1, self._window // 2)
        if self._consumption.progress.taken >= due:
            self._consumption.wake.put(None)
        else:
            self._consumption.due = due

    def _answered(self, answer: Mapping[str, Any]) -> None:
        window, alert = answer.get("window"), answer.get("alert")
        if type(window) is int and window > 0:
            self._window = window
        self._alerts.show(alert if isinstance(alert, dict) else None)


class Alerts:
    """Logs the daemon's alerts about the job of this rank: each cause once per AGAIN_SECONDS, and its resolution."""

    def __init__(self) -> None:
        self._logged: dict[tuple[str, ...], float] = {}  # cause to the time when it was logged
        self._open = ""  # the last alert, until it is resolved

    def show(self, alert: Mapping[str, Any] | None) -> None:
        """Logs an alert, unless its cause was logged recently.

        None means that no alert is active.
        """
        if alert is None:
            if self._open:
                log.info("resolved: %s", self._open)
            self._open = ""
            return
        facts = alert.get("facts")
        facts = facts if isinstance(facts, dict) else {}
        cause = (str(alert.get("reason")), *(str(facts.get(k)) for k in ("job", "rank", "state")))
        now = time.monotonic()
        if now - self._logged.get(cause, -math.inf) < AGAIN_SECONDS:
            return
        self._logged = {k: t for k, t in self._logged.items() if now - t < AGAIN_SECONDS} | {cause: now}
        self._open = str(alert.get("message"))
        log.warning("%s; %s (%s)", self._open, alert.get("do"), alert.get("reason"))
