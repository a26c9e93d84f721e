"""Who reads what is published: the runs over the document stream, and where those end that are sealed (stream/runs.go says the same)."""

from __future__ import annotations

import asyncio
import calendar
import json
import time
from dataclasses import dataclass
from typing import Any

from loaderd.producer.session import Lost, Refused, Session

BUCKET = "loaderd_floors"
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
    prefix = f"$KV.{BUCKET}.{stream}."
    try:
        info = await session.ask(f"$JS.API.STREAM.INFO.KV_{BUCKET}", json.dumps({"subjects_filter": f"{prefix}>"}).encode())
    except Refused as error:
        if error.code == 404:  # no run has ever been there
            return Audience()
        raise
    keys = [key.removeprefix(prefix) for key in info["state"].get("subjects") or {}]
    began = await _plans(session)
    made = _created(await session.stream(stream))
    sealed: dict[str, int] = {}
    reads: set[str] = set()
    cell = f"$KV.{BUCKET}.{stream}/{_nanoseconds(made)}"
    runs = await _cell(session, cell)
    for run, floor in runs.items():
        if run not in began or _nanoseconds(began[run]) != floor["plan"]:  # of a plan that is gone
            continue
        if floor["sealed"]:
            sealed[run] = int(floor["end"])
        else:
            reads.add(run)
    keys = [key for key in keys if key.partition(".")[0] not in sealed.keys() | reads]  # of older daemons
    for key in keys:
        run, dot, end = key.partition(".")
        if end != "end" or run not in began:
            continue
        value, written = await session.value(f"KV_{BUCKET}", prefix + key)
        # What was written before the stream or the plan was made is of an earlier one of that name.
        if _moment(written) >= max(made, began[run]):
            sealed[run] = int(value)
    reads |= {key for key in keys if key in began and key not in sealed}
    return Audience(tuple(sorted(sealed.items())), tuple(sorted(reads)))


async def _cell(session: Session, key: str) -> dict[str, Any]:
    """What the runs over a stream need and read, by their names."""
    try:
        value, _ = await session.value(f"KV_{BUCKET}", key)
    except KeyError:  # the answer is that there is none
        return {}
    runs: dict[str, Any] = json.loads(value)["value"]["runs"]
    return runs


async def _plans(session: Session) -> dict[str, tuple[str, str]]:
    """When the plan of each run was made."""
    began: dict[str, tuple[str, str]] = {}
    while True:
        page: dict[str, Any] = await session.ask("$JS.API.STREAM.LIST", json.dumps({"subject": "plan.*", "offset": len(began)}).encode())
        some = page.get("streams") or []
        began |= {s["config"]["name"].removeprefix("PLAN_"): _created(s) for s in some}
        if not some or len(began) >= int(page["total"]):
            return began


def _nanoseconds(moment: tuple[str, str]) -> int:
    """The nanoseconds from 1970 to a moment."""
    seconds, digits = moment
    return calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(digits)


def _created(info: dict[str, Any]) -> tuple[str, str]:
    """When a stream was made; of a copy from other servers, when its original was."""
    return _moment((info["config"].get("metadata") or {}).get("loaderd.created") or info["created"])


def _moment(text: str) -> tuple[str, str]:
    """A time of the server's, in UTC with up to nine digits behind the second, as something that can be compared."""
    seconds, _, digits = text.rstrip("Z").partition(".")
    return seconds, digits.ljust(9, "0")
