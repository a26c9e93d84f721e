"""Logs a pass over the steps that yields nothing.

A loop over such a pass ends immediately and looks as if it had trained.
"""

from __future__ import annotations

import logging

log = logging.getLogger("loaderd")


class EmptyPassLog:
    """Follows the passes of one reader: `started` (a loop was entered), `yielded`, `ended`."""

    def __init__(self) -> None:
        self._empty = True

    def started(self) -> None:
        self._empty = True

    def yielded(self) -> None:
        self._empty = False

    def ended(self, run: str | None, step: int, last: int | None = None) -> None:
        """Logs an empty pass that ended at a step: after the requested `last`, else at the end of the run."""
        if not self._empty:
            return
        self._empty = False  # another `next()` is not a new pass
        if last is not None and step >= last:
            log.warning(
                "no steps left to read: all requested steps, those before %d, were read; create another reader to "
                "read steps again",
                last,
            )
            return
        log.warning(
            "no steps left to read: run %s ended at step %d, and reading starts there. To train on its documents "
            "again, use a new run (loaderd serve"
            " --run NAME). To train on documents published later, start the source of a new run at the first of them "
            "(docs/how-to/mixtures.md#select-documents)",
            run,
            step,
        )
