"""What a producer should know of what it publishes, in the log: who does not read it, and what was not stored again."""

from __future__ import annotations

import asyncio
import logging

from loaderd.producer.audience import Audience, find_audience
from loaderd.producer.committer import Tally
from loaderd.producer.repeats import tell
from loaderd.producer.session import Session

log = logging.getLogger("loaderd")


class Advice:
    """Begins to ask when it is made, in the loop that the session is of; publishing does not wait for it."""

    def __init__(self, session: Session, stream: str) -> None:
        self._session, self._stream = session, stream
        self._before = asyncio.create_task(self._ask())

    async def _ask(self) -> Audience | None:
        audience = await find_audience(self._session, self._stream)
        if audience is not None and (warning := audience.warning()):
            log.warning("publishing to stream %s: %s", self._stream, warning)
        return audience

    async def conclude(self, tally: Tally) -> None:
        """Says what became of what was published."""
        if tally.repeat is not None:
            level, text = tell(tally.duplicates, tally.documents, tally.repeat)
            log.log(level, "publishing to stream %s: %s", self._stream, text)
        before = await self._before
        if before is None or not tally.documents:
            return
        after = await find_audience(self._session, self._stream)
        if after is None:
            return
        sealed = after.behind(tally.last_sequence)
        if set(sealed.sealed) - set(before.sealed):  # since it began
            log.warning("publishing to stream %s: %s", self._stream, sealed.warning())
