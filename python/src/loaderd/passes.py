"""Logs a pass over the steps that yields nothing. A loop over such a pass ends immediately and looks as if it had
trained."""

from __future__ import annotations

import logging

log = logging.getLogger("loaderd")


class Passes:
    """Follows the passes of one reader: `begun` (a loop was entered), `yielded`, `ended`."""

    def __init__(self) -> None:
        self._empty = True

    def begun(self) -> None:
        self._empty = True

    def yielded(self) -> None:
        self._empty = False

    def ended(self, run: str | None, step: int, last: int | None = None) -> None:
        """Logs an empty pass that ended at a step: after the requested `last`, else at the end of the run."""
        if not self._empty:
            return
        self._empty = False  # another `next()` is not a new pass
        if last is not None and step >= last:
            log.warning("nothing is left to read: all steps before %d, which is as far as was asked for, were read; to read steps again make another reader", last)
            return
        log.warning(
            "nothing is left to read: run %s ended at step %d, and reading begins there. To train once more on its documents use a new run (loaderd serve"
            " --run NAME); for documents that were published later let the source of a new run start with them (docs/sources.md)",
            run, step,
        )  # fmt: skip
