"""Who reads what is published: the runs over the document stream, and where those end that are sealed (stream/planlog/readers.go writes it)."""

from __future__ import annotations

import asyncio
import calendar
import json
import time
from dataclasses import dataclass
from typing import Any

from loaderd.producer.session import Lost, Refused, Session

BUCKET = "loaderd_readers"
ASK_SECONDS = 2.0
"""How long the answer is waited for: a producer need not be permitted to ask, and then nobody answers."""


@dataclass(frozen=True)
class Audience:
    """The runs over a stream."""

    sealed: tuple[tuple[str, int], ...] = ()
    """Names, and the sequence behind which each reads no document."""
    reads: tuple[str, ...] = ()

    def behind(self, last: int) -> Audience:
        """The same for documents up to a sequence."""
        sealed = tuple(r for r in self.sealed if r[1] < last)
        return Audience(sealed, self.reads + tuple(run for run, end in self.sealed if end >= last))

    def warning(self) -> str:
        """Who does not read what comes now, and what to do; empty when everybody does."""
        if not self.sealed:
            return ""
        ends = ", ".join(f"run {run} is sealed behind document {end:,}" for run, end in self.sealed)
        text = f"{ends}: documents published later are not part of it"
        if self.reads:
            return f"{text}; read by {', '.join(self.reads)}"
        return (
            f"{text}, and no other run reads this stream. A new run (loaderd serve --run NAME) reads it from its first document on;"
            " loaderd fork goes on behind a sealed run's last step"
        )


async def find_audience(session: Session, stream: str) -> Audience | None:
    """The runs that read a stream; None when it cannot be known."""
    try:
        return await asyncio.wait_for(_find(session, stream), ASK_SECONDS)
    except (asyncio.TimeoutError, Lost, Refused, KeyError, ValueError):
        return None


async def _find(session: Session, stream: str) -> Audience:
    made = _created(await session.stream(stream))
    try:
        value, _ = await session.value(f"KV_{BUCKET}", f"$KV.{BUCKET}.{stream}/{_nanoseconds(made)}")
    except (KeyError, Refused):  # the answer is that there is none: no run has ever been there
        return Audience()
    runs: dict[str, Any] = json.loads(value)["value"]["runs"]
    sealed = sorted((run, int(r["end"])) for run, r in runs.items() if r["sealed"])
    return Audience(tuple(sealed), tuple(sorted(run for run, r in runs.items() if not r["sealed"])))


def _nanoseconds(moment: str) -> int:
    """The nanoseconds from 1970 to a time of the server's, in UTC with up to nine digits behind the second."""
    seconds, _, digits = moment.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(digits.ljust(9, "0"))


def _created(info: dict[str, Any]) -> str:
    """When a stream was made; of a copy from other servers, when its original was."""
    return str((info["config"].get("metadata") or {}).get("loaderd.created") or info["created"])
