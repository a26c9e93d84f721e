"""Commits batches of documents, in order, each document once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from loaderd.errors import Unreachable
from loaderd.producer.errors import PublishError
from loaderd.producer.message import MESSAGE_ID, Message
from loaderd.producer.repeats import Repeat
from loaderd.producer.session import BUSY, Lost, Refused, Session

# The server's error numbers.
INSUFFICIENT, NO_STORAGE, ACCOUNT_FULL, STORE_FAILED = 10023, 10047, 10002, 10077
MESSAGE_TOO_LARGE = 10054
WRONG_LAST, WRONG_LAST_CONSTANT = 10071, 10164
ATOMIC_DISABLED, BATCH_INCOMPLETE, BATCH_TOO_LARGE, BATCH_DUPLICATE, TOO_MANY_INFLIGHT = 10174, 10176, 10199, 10201, 10210
DUPLICATE_IN_FLIGHT = 10158

MOST_MESSAGES = 1000
"""Messages of an atomic batch: the server's own limit."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 2.0
# Batches refused as incomplete, whose cause the server does not tell, before messages are sent singly, which tells.
BROKEN_BATCHES = 3
ORIGIN_SECONDS = 2.0
"""How long it is waited for what the stream has instead of a document."""
# Attempts that other producers of the subject were ahead of, before that is said.
LOST_RACES = 5


@dataclass
class Tally:
    """What a committer did."""

    documents: int = 0
    bytes: int = 0
    duplicates: int = 0
    last_sequence: int = 0
    position: int = 0
    """All documents before this place of the input are done."""
    waited: float = 0.0
    repeat: Repeat | None = None
    """The first of the duplicates."""


class Committer:
    """Stores messages of one subject, a batch at a time.

    A batch is one atomic batch of the server where the stream takes them: one write to its disk, all or nothing. After any doubt (an answer
    that does not come, a lost connection, the start, where a predecessor may have died in the middle) it reads back which ids the
    stream has and sends the rest with the sequence that it saw last on the subject as the expected one. A batch that was on its way all the
    while and lands in between makes the server refuse, and the committer reads back again. So no document is stored twice, however
    long the doubt lasts, and whatever the server's window for ids is.
    """

    def __init__(self, session: Session, subject: str, patience: float | None, on_wait: Callable[[str], None], on_commit: Callable[[], None]) -> None:
        self.tally = Tally()
        self._session = session
        self._stream = ""
        self._subject = subject
        self._patience = patience
        self._on_wait = on_wait
        self._on_commit = on_commit
        self._atomic = True
        self._size = MOST_MESSAGES  # of the next attempt: shrinks while the stream is nearly full
        self._single = 0  # messages to send one by one, because the server knows some of them
        self._began = 0  # the stream's last sequence before anything was sent
        self._last = 0  # everything of this publisher at or below is accounted for, or in _known
        self._known: set[str] = set()  # read back and not asked for yet
        self._unsure = True
        self._broken = 0
        self._raced = 0
        self._waiting = ""
        self._since = 0.0
        self._pause = FIRST_PAUSE

    def begin(self, stream: str, atomic: bool, last: int, read: int) -> None:
        """Names the stream, and says whether it takes atomic batches, what its last sequence was before anything was sent, and up to where the
        subject's messages were looked at for documents of this input: what lies behind is read back before the first batch."""
        self._stream, self._atomic, self._began, self._last = stream, atomic, last, read

    async def commit(self, batch: Sequence[Message]) -> None:
        """Returns when every message is stored, or known to the server. Raises PublishError or Unreachable."""
        pending: list[Message] = []
        ids: set[str] = set()
        for message in batch:  # the server would refuse a whole batch in which an id comes twice
            if message.id in ids:
                self.tally.duplicates += message.documents
                if self._earlier(message):
                    self.tally.repeat = Repeat(message)
            else:
                ids.add(message.id)
                pending.append(message)
        while pending:
            before = len(pending)
            try:
                await self._attempt(pending)
            except Lost as error:
                self._unsure = True
                await self.wait(f"no answer from NATS at {self._session.access.shown}: {error}")
            if pending and len(pending) < before:
                self.tally.position = pending[0].first
                self._on_commit()
        self.resume()
        self.tally.position = batch[-1].position + 1
        self._on_commit()

    async def _attempt(self, pending: list[Message]) -> None:
        """One request to the server. What is accounted for leaves pending, also when this raises."""
        if not self._session.connected:
            self._unsure = True
            await self._session.reconnect()
        fence = None
        if self._unsure:
            try:
                fence = await self._read_back()
            except Refused as error:
                if error.code in BUSY:
                    raise Lost(str(error)) from error
                raise PublishError(f"read back what {self._subject} holds: {error}") from error
        if self._known:
            self._drop(pending)
        if not pending:
            return
        count = 1 if self._single or not self._atomic else min(self._size, len(pending))
        try:
            answer = await self._send(pending[:count], fence)
        except Refused as error:
            await self._settle(error, pending, count)
            return
        sent = pending[:count]
        del pending[:count]
        if self._accept(sent, int(answer["seq"]), bool(answer.get("duplicate"))) and self._earlier(sent[0]):
            self.tally.repeat = await self._repeat(sent[0], int(answer["seq"]))

    async def _read_back(self) -> int:
        """Learns the ids of the subject's messages behind the last one accounted for; returns the sequence of the subject's last."""
        newest, _ = await self._session.last(self._stream, self._subject)
        if newest > self._last:
            await self._session.headers(self._stream, self._subject, self._last + 1, newest, self._found)
            self._last = newest  # the last ones may have been released meanwhile
        return newest

    def _found(self, sequence: int, headers: dict[str, str]) -> None:
        if found := headers.get(MESSAGE_ID):
            self._known.add(found)
        self._last = sequence  # what was read need not be read again after another loss
        self._pause = FIRST_PAUSE

    def _drop(self, pending: list[Message]) -> None:
        """Takes out what the read back found, and accounts for it."""
        there = {m.id for m in pending} & self._known
        if there:
            self._known -= there
            self._count([m for m in pending if m.id in there], self._last)
            pending[:] = [m for m in pending if m.id not in there]

    async def _send(self, messages: Sequence[Message], fence: int | None) -> dict[str, Any]:
        batch = secrets.token_hex(11) if len(messages) > 1 else ""
        for place, message in enumerate(messages, 1):
            headers = dict(message.headers)
            if fence is not None and place == 1:
                headers["Nats-Expected-Last-Subject-Sequence"] = str(fence)
            if batch:
                headers["Nats-Batch-Id"] = batch
                headers["Nats-Batch-Sequence"] = str(place)
            if place < len(messages):
                await self._session.send(self._subject, message.payload, headers)
                continue
            if batch:
                headers["Nats-Batch-Commit"] = "1"
            answer = await self._session.ask(self._subject, message.payload, headers)
            if not answer.get("seq") or batch and (answer.get("batch"), answer.get("count")) != (batch, len(messages)):
                raise Lost(f"acknowledgement {answer} is not that of {len(messages)} messages")
        return answer

    def _accept(self, sent: Sequence[Message], sequence: int, duplicate: bool) -> bool:
        """Accounts for what the server acknowledged, and says whether it was there before, of somebody else's."""
        self._unsure, self._broken, self._raced = False, 0, 0
        self._single = max(0, self._single - len(sent))
        self._size = min(2 * self._size, MOST_MESSAGES)
        repeated = duplicate and sequence <= self._last
        if repeated:
            self.tally.duplicates += sum(m.documents for m in sent)
        else:
            self._last = max(self._last, sequence)
            self._count(sent, sequence)
        self.resume()
        return repeated

    def _earlier(self, message: Message) -> bool:
        """Whether a repeated message is before the first one known: those of one batch are seen before those of the stream."""
        return self.tally.repeat is None or message.position < self.tally.repeat.message.position

    async def _repeat(self, message: Message, sequence: int) -> Repeat:
        """What the stream has instead of a message. A producer need not be permitted to ask."""
        headers = None
        with contextlib.suppress(asyncio.TimeoutError, Lost, Refused):
            headers = await asyncio.wait_for(self._session.origin(self._stream, sequence), ORIGIN_SECONDS)
        return Repeat(message, sequence, headers, meanwhile=sequence > self._began)

    def _count(self, sent: Sequence[Message], sequence: int) -> None:
        self.tally.documents += sum(m.documents for m in sent)
        self.tally.bytes += sum(len(m.payload) for m in sent)
        self.tally.last_sequence = max(self.tally.last_sequence, sequence)

    async def _settle(self, error: Refused, pending: Sequence[Message], count: int) -> None:
        """Decides what a refusal means for the next attempt."""
        number = error.number
        if number == BATCH_DUPLICATE or (number == MESSAGE_TOO_LARGE and count > 1):  # asked one by one the server says which
            self._single = count
        elif number in (STORE_FAILED, ACCOUNT_FULL, NO_STORAGE, INSUFFICIENT):
            if number == STORE_FAILED and "maximum" not in error.description:
                raise PublishError(f"store documents on {self._subject}: {error}") from error
            if count > 1:  # fill what room is left
                self._size = (count + 1) // 2
            else:
                await self.wait(await self._full(error))
        elif number == ATOMIC_DISABLED:
            self._atomic = False
        elif number == BATCH_TOO_LARGE:
            self._size = (count + 1) // 2
        elif number in (WRONG_LAST, WRONG_LAST_CONSTANT, DUPLICATE_IN_FLIGHT):
            self._unsure = True
            self._raced += 1
            busy = f"other producers of {self._subject} are always first: give this input a source of its own"
            await self.wait(busy if self._raced > LOST_RACES else "")
        elif number in (BATCH_INCOMPLETE, TOO_MANY_INFLIGHT):
            self._broken += 1
            if self._broken >= BROKEN_BATCHES:
                self._broken, self._single = 0, count
            self._unsure = True
            await self.wait("")
        elif error.code in BUSY:
            self._unsure = True
            await self.wait(f"NATS at {self._session.access.shown} answers: {error}")
        else:
            raise PublishError(f"store document {pending[0].label} on {self._subject}: {error}") from error

    async def _full(self, error: Refused) -> str:
        if error.number != STORE_FAILED:
            return f"stream {self._stream}: the server has no room left: {error}"
        try:
            info = await self._session.stream(self._stream)
            state, limit = info["state"], info["config"]["max_bytes"]
        except (Lost, Refused, KeyError):
            return f"stream {self._stream} is full: {error}"
        return (
            f"stream {self._stream} is full: it holds {state['messages']:,} documents, {state['bytes']:,} of {limit:,} bytes;"
            " room comes when documents are released or stream.max_bytes is raised (the daemon's configuration)"
        )

    async def wait(self, reason: str) -> None:
        """Waits for the next attempt. An empty reason is not worth a report. Raises when patience ends."""
        now = time.monotonic()
        if reason and not self._waiting:
            self._since = now
        if reason and self._patience is not None and now + self._pause - self._since > self._patience:
            kind = PublishError if self._session.connected else Unreachable
            raise kind(f"publish to {self._subject}: waited {now - self._since:.0f} s: {reason}")
        if reason and reason != self._waiting:
            self._waiting = reason
            self._on_wait(reason)
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def resume(self) -> None:
        """Ends a wait, and reports that."""
        self._pause = FIRST_PAUSE
        if self._waiting:
            self.tally.waited += time.monotonic() - self._since
            self._waiting = ""
            self._on_wait("")
