"""The runs that read what is published: where those end that are sealed, what each accepts, and what it has read and skipped.

stream/retention/readers.go and stream/retention/intake.go write it.
"""

from __future__ import annotations

import asyncio
import calendar
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loaderd.producer.session import Lost, Refused, Session

BUCKET = "loaderd_readers"
ASK_SECONDS = 2.0
"""How long to wait for the answer. A producer without the permission to ask gets none."""


UNDECODABLE = "undecodable"
"""The reason of skipped documents that became dead letters."""


@dataclass(frozen=True, slots=True)
class RunIntake:
    """What a run read of the document stream during a publish, documents of all producers."""

    run: str
    read: int
    """Documents, used or not."""
    skipped: Mapping[str, int]
    """Of these, by reason; reasons without a document are left out. "undecodable": dead letters."""
    unread: int = 0
    """Documents up to the last one published that the run has not read yet."""

    def line(self) -> str:
        """What was skipped, as a sentence; "" where nothing was."""
        if not self.skipped:
            return ""
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.skipped.items())
        line = f"run {self.run} read {self.read:,} documents (of all producers) during this publish and skipped {sum(self.skipped.values()):,}: {reasons}"
        if UNDECODABLE in self.skipped:
            line += " (see loaderd dead list)"
        return line if not self.unread else f"{line}; not read yet: {self.unread:,}"


@dataclass(frozen=True)
class Intake:
    """What a run reports to producers."""

    tokenizer: str
    fingerprint: str
    text: bool
    """Whether it accepts texts."""
    read: int
    """Sequence of the last document that is planned."""
    full: bool
    """Whether it reads no further until ranks request steps."""
    documents: int
    """Planned, used or not."""
    skipped: Mapping[str, int]

    def accepts(self, fingerprint: str) -> bool:
        """Whether it accepts token ids of a tokenizer, or texts where the fingerprint is empty."""
        return self.fingerprint == fingerprint if fingerprint else self.text

    def since(self, before: Intake | None, run: str, last: int) -> RunIntake:
        """What was read since an earlier report, or since the beginning of another run of this name."""
        documents, skipped = (before.documents, before.skipped) if before and before.documents <= self.documents else (0, {})
        counts = {reason: n - skipped.get(reason, 0) for reason, n in self.skipped.items()}
        return RunIntake(run, self.documents - documents, {r: n for r, n in counts.items() if n > 0}, max(0, last - self.read))


@dataclass(frozen=True)
class Audience:
    """The runs over a stream."""

    sealed: tuple[tuple[str, int], ...] = ()
    """Names, and the sequence behind which each reads no document."""
    reads: tuple[str, ...] = ()
    intakes: Mapping[str, Intake] = field(default_factory=dict)
    """Of the runs that have reported."""

    def behind(self, last: int) -> Audience:
        """The same for documents up to a sequence."""
        sealed = tuple(r for r in self.sealed if r[1] < last)
        return Audience(sealed, self.reads + tuple(run for run, end in self.sealed if end >= last), self.intakes)

    def rejects(self, fingerprint: str) -> tuple[str, bool]:
        """Why runs would reject documents of a tokenizer's fingerprint, or texts where it is empty, and whether every run would; "" where none would."""
        runs = [run for run in self.reads if run in self.intakes and not self.intakes[run].accepts(fingerprint)]
        if not runs:
            return "", False
        text = f"the documents are token ids of the tokenizer {fingerprint}" if fingerprint else "the documents are texts"
        for run in runs:
            intake = self.intakes[run]
            if fingerprint:
                text += f", and run {run} has tokenizer {intake.tokenizer} ({intake.fingerprint})"
            else:
                text += f", and run {run} takes token ids alone (tokenizer.name: {intake.tokenizer}, fingerprint {intake.fingerprint})"
        return f"{text}: every document would become a dead letter", len(runs) == len(self.reads)

    def reads_on(self, last: int) -> tuple[bool, int]:
        """Whether a run reads on towards a document, and how far all have read together."""
        known = [self.intakes[run] for run in self.reads if run in self.intakes]
        return len(known) < len(self.reads) or any(i.read < last and not i.full for i in known), sum(i.read for i in known)

    def warning(self) -> str:
        """Who does not read what comes now, and what to do; empty when everybody does."""
        if not self.sealed:
            return ""
        ends = ", ".join(f"run {run} is sealed behind document {end:,}" for run, end in self.sealed)
        text = f"{ends}: documents published later are not part of it"
        if self.reads:
            return f"{text}; read by {', '.join(self.reads)}"
        return (
            f"{text}, and no other run reads this stream. A new run (loaderd serve --run NAME) reads it from its first document on,"
            " or from the one that the start of its source names"
        )


async def find_audience(session: Session, stream: str) -> Audience | None:
    """The runs that read a stream; None when it cannot be known."""
    try:
        return await asyncio.wait_for(_find(session, stream), ASK_SECONDS)
    except (asyncio.TimeoutError, Lost, Refused, KeyError, ValueError):
        return None


async def _find(session: Session, stream: str) -> Audience:
    made = _created(await session.stream(stream))
    key = f"$KV.{BUCKET}.{stream}/{_nanoseconds(made)}"
    try:
        value, _ = await session.value(f"KV_{BUCKET}", key)
    except (KeyError, Refused):  # the answer is that there is none: no run has ever been there
        return Audience()
    runs: dict[str, Any] = json.loads(value)["value"]["runs"]
    sealed = sorted((run, int(r["end"])) for run, r in runs.items() if r["sealed"])
    intakes = await asyncio.gather(*(_intake(session, f"{key}/{run}") for run in runs))
    reported = {run: intake for run, intake in zip(runs, intakes, strict=True) if intake is not None}
    return Audience(tuple(sealed), tuple(sorted(run for run, r in runs.items() if not r["sealed"])), reported)


async def _intake(session: Session, subject: str) -> Intake | None:
    """The report of a run; None without one."""
    try:
        value, _ = await session.value(f"KV_{BUCKET}", subject)
    except (KeyError, Refused):
        return None
    report: dict[str, Any] = json.loads(value)["value"]
    return Intake(**{name: report[name] for name in Intake.__dataclass_fields__})


def _nanoseconds(moment: str) -> int:
    """The nanoseconds from 1970 to a time of the server's, in UTC with up to nine digits behind the second."""
    seconds, _, digits = moment.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(digits.ljust(9, "0"))


def _created(info: dict[str, Any]) -> str:
    """When a stream was made; of a copy from other servers, when its original was."""
    return str((info["config"].get("metadata") or {}).get("loaderd.created") or info["created"])
