"""The runs that read the published documents: their ends, what each accepts, has read and has skipped.

stream/retention/readers.go and stream/retention/intake.go write these records.
"""

from __future__ import annotations

import asyncio
import calendar
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loaderd.producer._nats_session import NatsConnectionError, NatsRequestError, Session

BUCKET = "loaderd_readers"
ASK_SECONDS = 2.0
"""Timeout of the request. A producer without the permission to read the bucket gets no answer."""


UNDECODABLE = "undecodable"
"""The reason of skipped documents that became dead letters."""


@dataclass(frozen=True, slots=True)
class RunIntake:
    """What a run read of the document stream during a publish: documents of all producers."""

    run: str
    """The run's name."""
    read: int
    """Documents, used or not."""
    skipped: Mapping[str, int]
    """Of these, by reason; reasons without a document are omitted. "undecodable": dead letters."""
    unread: int = 0
    """Documents up to the last one published that the run has not read yet."""

    def line(self) -> str:
        """Returns the skipped documents as a sentence; "" without any."""
        if not self.skipped:
            return ""
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.skipped.items())
        line = (
            f"run {self.run} read {self.read:,} documents (of all producers) during this publish and skipped "
            f"{sum(self.skipped.values()):,}: {reasons}"
        )
        if UNDECODABLE in self.skipped:
            line += " (see loaderd dlq list)"
        return line if not self.unread else f"{line}; not read yet: {self.unread:,}"


@dataclass(frozen=True)
class Intake:
    """The report of a run to producers."""

    tokenizer: str
    fingerprint: str
    text: bool
    """Whether the run accepts texts."""
    read: int
    """Sequence of the last planned document."""
    full: bool
    """Whether the run reads no further until ranks request steps."""
    documents: int
    """Planned, used or not."""
    skipped: Mapping[str, int]

    def accepts(self, fingerprint: str) -> bool:
        """Reports whether the run accepts token ids of a tokenizer, or texts if the fingerprint is empty."""
        return self.fingerprint == fingerprint if fingerprint else self.text

    def since(self, before: Intake | None, run: str, last: int) -> RunIntake:
        """Returns what was read since an earlier report, or since the start of another run of this name."""
        documents, skipped = (
            (before.documents, before.skipped) if before and before.documents <= self.documents else (0, {})
        )
        counts = {reason: n - skipped.get(reason, 0) for reason, n in self.skipped.items()}
        return RunIntake(
            run, self.documents - documents, {r: n for r, n in counts.items() if n > 0}, max(0, last - self.read)
        )


@dataclass(frozen=True)
class StreamReaders:
    """The runs that read a stream."""

    sealed: tuple[tuple[str, int], ...] = ()
    """Names, and the last sequence that each reads."""
    reads: tuple[str, ...] = ()
    intakes: Mapping[str, Intake] = field(default_factory=dict)
    """Of the runs that have reported."""

    def behind(self, last: int) -> StreamReaders:
        """Returns the readers of documents up to a sequence.

        Runs sealed before it stay sealed, later ones count as reading.
        """
        sealed = tuple(r for r in self.sealed if r[1] < last)
        return StreamReaders(sealed, self.reads + tuple(run for run, end in self.sealed if end >= last), self.intakes)

    def rejects(self, fingerprint: str) -> tuple[str, bool]:
        """Returns why runs would reject documents, and whether every run would.

        Args:
            fingerprint: The fingerprint of the documents' tokenizer; empty for texts.

        Returns:
            The reason, "" if no run would, and whether every run would.
        """
        runs = [run for run in self.reads if run in self.intakes and not self.intakes[run].accepts(fingerprint)]
        if not runs:
            return "", False
        text = (
            f"the documents are token ids of the tokenizer {fingerprint}" if fingerprint else "the documents are texts"
        )
        for run in runs:
            intake = self.intakes[run]
            if fingerprint:
                text += f", and run {run} has tokenizer {intake.tokenizer} ({intake.fingerprint})"
            else:
                text += (
                    f", and run {run} accepts only token ids (tokenizer.name: {intake.tokenizer}, fingerprint "
                    f"{intake.fingerprint})"
                )
        return f"{text}: every document would become a dead letter", len(runs) == len(self.reads)

    def reads_on(self, last: int) -> tuple[bool, int]:
        """Reports whether a run still reads towards a document, and the sum of the runs' read sequences."""
        known = [self.intakes[run] for run in self.reads if run in self.intakes]
        return len(known) < len(self.reads) or any(i.read < last and not i.full for i in known), sum(
            i.read for i in known
        )

    def warning(self) -> str:
        """Returns which runs do not read new documents, and what to do; empty if all read them."""
        if not self.sealed:
            return ""
        ends = ", ".join(f"run {run} is sealed behind document {end:,}" for run, end in self.sealed)
        text = f"{ends}: documents published later are not part of it"
        if self.reads:
            return f"{text}; read by {', '.join(self.reads)}"
        return (
            f"{text}, and no other run reads this stream. A new run (loaderd serve --run NAME) reads it from its first "
            "document,"
            " or from the document that the start of its source names"
        )


async def find_stream_readers(session: Session, stream: str) -> StreamReaders | None:
    """Returns the runs that read a stream; None when that cannot be determined."""
    try:
        return await asyncio.wait_for(_find(session, stream), ASK_SECONDS)
    except (asyncio.TimeoutError, NatsConnectionError, NatsRequestError, KeyError, ValueError):
        return None


async def _find(session: Session, stream: str) -> StreamReaders:
    made = _created(await session.stream(stream))
    key = f"$KV.{BUCKET}.{stream}/{_nanoseconds(made)}"
    try:
        value, _ = await session.value(f"KV_{BUCKET}", key)
    except (KeyError, NatsRequestError):  # no record: no run has ever read the stream
        return StreamReaders()
    runs: dict[str, Any] = json.loads(value)["value"]["runs"]
    sealed = sorted((run, int(r["end"])) for run, r in runs.items() if r["sealed"])
    intakes = await asyncio.gather(*(_intake(session, f"{key}/{run}") for run in runs))
    reported = {run: intake for run, intake in zip(runs, intakes, strict=True) if intake is not None}
    return StreamReaders(tuple(sealed), tuple(sorted(run for run, r in runs.items() if not r["sealed"])), reported)


async def _intake(session: Session, subject: str) -> Intake | None:
    """Returns the report of a run, or None."""
    try:
        value, _ = await session.value(f"KV_{BUCKET}", subject)
    except (KeyError, NatsRequestError):
        return None
    report: dict[str, Any] = json.loads(value)["value"]
    return Intake(**{name: report[name] for name in Intake.__dataclass_fields__})


def _nanoseconds(moment: str) -> int:
    """Returns the nanoseconds from 1970 to a time of the server, in UTC with up to nine fractional digits."""
    seconds, _, digits = moment.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(digits.ljust(9, "0"))


def _created(info: dict[str, Any]) -> str:
    """Returns when a stream was created; for a copy from other servers, when its original was."""
    return str((info["config"].get("metadata") or {}).get("loaderd.created") or info["created"])
