"""Why a trainer waits, in its log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from loaderd.consumption import Consumption
from loaderd.errors import LoaderdError

log = logging.getLogger("loaderd")

TELL_SECONDS = 10.0
"""How long somebody waits before the log says why; also the least time between two questions to the daemon."""
AGAIN_SECONDS = 60.0
"""How long until the log names the same reason again, with other figures."""


class Waits:
    """`with waits:` around a wait of whoever takes what a reader makes. Other threads `tell` why, which is logged when the
    wait has lasted, once for every cause.

    `ahead` says that the reader works ahead in a thread: its own waits are nobody's. `consumption` is what was taken from the reader."""

    def __init__(self, taken: int = 0) -> None:
        self.ahead = False
        self.consumption = Consumption(taken)
        self._lock = threading.Lock()
        self._since: float | None = None
        self._asked = -AGAIN_SECONDS
        self._spoke = False  # of this wait
        self._last: tuple[str, Mapping[str, str]] | None = None
        self._told: dict[str, float] = {}  # when each reason was

    def __enter__(self) -> Waits:
        with self._lock:
            self._since, self._spoke = time.monotonic(), False
        self.consumption.wait()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            since, self._since = self._since, None
        if self._spoke and since is not None:
            log.info("waits no more, after %.0f s", time.monotonic() - since)

    def due(self) -> bool:
        """Whether it is time to ask why: somebody waits, for long, and no question was due just now."""
        now = time.monotonic()
        with self._lock:
            if self._since is None or now - max(self._since, self._asked) < TELL_SECONDS:
                return False
            self._asked = now
        return True

    def tell(self, what: str, error: LoaderdError) -> None:
        """Logs that `what` has been waited for, and the cause."""
        now = time.monotonic()
        last = error.reason, {k: v for k, v in error.facts.items() if k != "waited"}
        with self._lock:
            if self._since is None or now - self._since < TELL_SECONDS:
                return
            if last == self._last or now - self._told.get(error.reason, -AGAIN_SECONDS) < AGAIN_SECONDS:
                return
            self._last, self._told[error.reason], self._spoke = last, now, True
            waited = now - self._since
        log.warning("%s has not come for %.0f s: %s (%s)", what, waited, str(error).removeprefix(f"{error.reason}: "), error.reason)
