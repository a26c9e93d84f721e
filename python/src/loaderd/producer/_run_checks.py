"""Logs for a producer which runs do not read its documents or skip them, and which documents were not stored again."""

from __future__ import annotations

import asyncio
import logging
import time

from loaderd.producer._committer import Tally
from loaderd.producer._duplicates import describe_duplicates
from loaderd.producer._errors import NotAcceptedError
from loaderd.producer._nats_session import Session
from loaderd.producer._stream_readers import UNDECODABLE, RunIntake, StreamReaders, find_stream_readers

log = logging.getLogger("loaderd")

POLL_SECONDS = 0.2
QUIET_SECONDS = 2.0
"""Seconds without progress after which a run is no longer waited for."""


class RunChecks:
    """Starts to request the runs' reports when it is created, in the event loop of the session."""

    def __init__(self, session: Session, stream: str, report: float) -> None:
        self._session, self._stream, self._report = session, stream, report
        self._before = asyncio.create_task(self._ask())

    async def _ask(self) -> StreamReaders | None:
        readers = await find_stream_readers(self._session, self._stream)
        if readers is not None and (warning := readers.warning()):
            log.warning("publishing to stream %s: %s", self._stream, warning)
        return readers

    async def admit(self, fingerprint: str) -> None:
        """Checks whether runs accept documents of a tokenizer's fingerprint, or texts if it is empty.

        Raises:
            NotAcceptedError: If every run would reject them.
        """
        before = await self._before
        problem, everywhere = ("", False) if before is None else before.rejects(fingerprint)
        if everywhere:
            raise NotAcceptedError(
                f"{problem}. Publish texts or ids that the run accepts (tokenizer=), or start a run with the other "
                "tokenizer (loaderd serve --run NAME)"
            )
        if problem:
            log.warning("publishing to stream %s: %s", self._stream, problem)

    async def conclude(self, tally: Tally) -> tuple[RunIntake, ...]:
        """Logs what happened to the published documents, and returns what the runs have read of them."""
        if tally.repeat is not None:
            level, text = describe_duplicates(tally.duplicates, tally.documents, tally.repeat)
            log.log(level, "publishing to stream %s: %s", self._stream, text)
        before = await self._before
        if before is None or not tally.documents:
            return ()
        after = await find_stream_readers(self._session, self._stream)
        if after is None:
            return ()
        sealed = after.behind(tally.last_sequence)
        if set(sealed.sealed) - set(before.sealed):  # since publishing began
            log.warning("publishing to stream %s: %s", self._stream, sealed.warning())
        runs = await self._intakes(before, sealed, tally.last_sequence)
        for run in runs:
            if line := run.line():
                log.log(
                    logging.WARNING if UNDECODABLE in run.skipped else logging.INFO,
                    "publishing to stream %s: %s",
                    self._stream,
                    line,
                )
        return runs

    async def _intakes(self, before: StreamReaders, now: StreamReaders, last: int) -> tuple[RunIntake, ...]:
        """Returns what each run has read since `before`.

        It returns once all have read the documents up to a sequence, no run progresses, or the time limit has passed.
        """
        began = moved = time.monotonic()
        progress = 0
        while self._report > 0:
            waits, read = now.reads_on(last)
            if read > progress:
                progress, moved = read, time.monotonic()
            if not waits or time.monotonic() > min(moved + QUIET_SECONDS, began + self._report):
                return tuple(
                    now.intakes[run].since(before.intakes.get(run), run, last)
                    for run in sorted(now.reads)
                    if run in now.intakes
                )
            await asyncio.sleep(POLL_SECONDS)
            later = await find_stream_readers(self._session, self._stream)
            now = now if later is None else later.behind(last)
        return ()
