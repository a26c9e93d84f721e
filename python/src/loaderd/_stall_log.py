"""Logs why a trainer waits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from loaderd._consumption import Consumption
from loaderd.errors import LoaderdError

log = logging.getLogger("loaderd")

REPORT_AFTER_SECONDS = 10.0
"""Seconds of a wait until the log states the cause; also the minimum interval between two requests to the daemon."""
AGAIN_SECONDS = 60.0
"""Seconds until the log repeats the same reason with other figures."""


class StallLog:
    """`with stall_log:` surrounds a wait of the consumer of a reader.

    Other threads report the cause by `report`. It is logged once per cause when the wait has lasted
    REPORT_AFTER_SECONDS.

    `ahead`: whether the reader prefetches in a thread, so that its own waits delay no consumer. `consumption` is what
    was taken from the reader.
    """

    def __init__(self, taken: int = 0) -> None:
        self.ahead = False
        self.consumption = Consumption(taken)
        self._lock = threading.Lock()
        self._since: float | None = None
        self._asked = -AGAIN_SECONDS
        self._logged = False  # a cause of this wait was logged
        self._last: tuple[str, Mapping[str, str]] | None = None
        self._reported: dict[str, float] = {}  # when each reason was logged

    def __enter__(self) -> StallLog:
        with self._lock:
            self._since, self._logged = time.monotonic(), False
        self.consumption.wait()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            since, self._since = self._since, None
        if self._logged and since is not None:
            log.info("stall resolved after %.0f s", time.monotonic() - since)

    def due(self) -> bool:
        """Reports whether to request the cause: the consumer has waited for long, and no recent request was made."""
        now = time.monotonic()
        with self._lock:
            if self._since is None or now - max(self._since, self._asked) < REPORT_AFTER_SECONDS:
                return False
            self._asked = now
        return True

    def report(self, what: str, error: LoaderdError) -> None:
        """Logs that `what` is awaited, and the cause."""
        now = time.monotonic()
        last = error.reason, {k: v for k, v in error.facts.items() if k != "waited"}
        with self._lock:
            if self._since is None or now - self._since < REPORT_AFTER_SECONDS:
                return
            if last == self._last or now - self._reported.get(error.reason, -AGAIN_SECONDS) < AGAIN_SECONDS:
                return
            self._last, self._reported[error.reason], self._logged = last, now, True
            waited = now - self._since
        log.warning(
            "%s not received after %.0f s: %s (%s)",
            what,
            waited,
            str(error).removeprefix(f"{error.reason}: "),
            error.reason,
        )
