"""A timeout for a wait that has none."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable


class Watchdog:
    """`with watchdog:` surrounds a wait.

    When the wait exceeds `seconds`, a thread calls `late`, and `expired` is True. The thread calls `alive` every
    `interval` seconds of a wait, and `late` if it returns False.

    One watchdog serves many consecutive waits, at the cost of a lock each: its thread sleeps and checks periodically.
    It holds the two bound methods weakly. `close` ends the thread.
    """

    def __init__(self, seconds: float, late: Callable[[], None], interval: float, alive: Callable[[], bool]) -> None:
        self.seconds, self.interval = min(seconds, threading.TIMEOUT_MAX), min(seconds, interval)
        self.expired = False
        self._late, self._alive = weakref.WeakMethod(late), weakref.WeakMethod(alive)
        self._since: float | None = None
        self._lock = threading.RLock()  # reentrant because `late` may call `close`
        self._stop = threading.Event()
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watchdog:
        with self._lock:
            self._since, self.expired = time.monotonic(), False
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="loaderd-watch", daemon=True)
                self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._since = None

    def close(self) -> None:
        """Ends the thread."""
        if os.getpid() != self._pid:
            return  # forked: the thread is the parent's, and may have held the lock
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=1)  # it may be in a call to a hanging peer, and ends after that

    def _run(self) -> None:
        pause = self.interval
        while not self._stop.wait(pause):
            pause = self._look()

    def _look(self) -> float:
        """Checks the wait and returns the seconds until the next check.

        A wait that begins meanwhile is not due before that.
        """
        with self._lock:
            since = self._since
            if since is None:
                return self.interval
            waited = time.monotonic() - since
            if waited >= self.seconds:
                self.expired = True
                self._call_late()
                return self.interval
        if waited >= self.interval:
            alive = self._alive()
            if alive is not None and not alive():
                with self._lock:
                    if self._since == since:  # still the same wait
                        self._call_late()
            return max(0.0, min(self.interval, since + self.seconds - time.monotonic()))
        return min(self.interval, self.seconds) - waited

    def _call_late(self) -> None:
        if late := self._late():
            late()
