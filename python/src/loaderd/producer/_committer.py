"""Commits batches of documents, in order, each document once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from loaderd.errors import UnreachableError
from loaderd.producer._duplicates import Duplicate
from loaderd.producer._errors import PublishError
from loaderd.producer._message import MESSAGE_ID, Message
from loaderd.producer._nats_session import BUSY, NatsConnectionError, NatsRequestError, Session
from loaderd.producer._open_batch import LAST_SUBJECT_SEQUENCE, Ahead, OpenBatch

# The server's error numbers.
INSUFFICIENT, NO_STORAGE, ACCOUNT_FULL, STORE_FAILED = 10023, 10047, 10002, 10077
MESSAGE_TOO_LARGE = 10054
WRONG_LAST, WRONG_LAST_CONSTANT = 10071, 10164
ATOMIC_DISABLED, BATCH_INCOMPLETE, BATCH_TOO_LARGE, BATCH_DUPLICATE, TOO_MANY_INFLIGHT = (
    10174,
    10176,
    10199,
    10201,
    10210,
)
DUPLICATE_IN_FLIGHT = 10158

MOST_MESSAGES = 1000
"""Messages of an atomic batch: the server's limit."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 2.0
# Batches refused as incomplete, without a cause from the server, until messages are sent singly, which returns the
# cause.
BROKEN_BATCHES = 3
ORIGIN_SECONDS = 2.0
"""Timeout of the request for the document that the stream has in place of a duplicate."""
# Attempts lost to other producers of the subject until that is reported.
LOST_RACES = 5


@dataclass
class Tally:
    """The counts of a committer."""

    documents: int = 0
    bytes: int = 0
    duplicates: int = 0
    last_sequence: int = 0
    position: int = 0
    """All documents before this position of the input are done."""
    waited: float = 0.0
    repeat: Duplicate | None = None
    """The first of the duplicates."""


class Committer:
    """Stores messages of one subject, a batch at a time.

    A batch is one atomic batch of the server if the stream permits them: one write to its disk, all or nothing. The
    outcome of a batch can be uncertain: after a missing answer, a lost connection, or at the start, where a predecessor
    may have crashed in the middle. Then the committer reads back which ids the stream has. It sends the rest with the
    last sequence that it saw on the subject as the expected one. If a delayed batch arrives in between, the server
    rejects the new one, and the committer reads back again. So no document is stored twice, regardless of the delay and
    of the server's deduplication window.

    While the acknowledgement of a batch is pending, the next batch is sent, all but its last message. That message
    commits it. It is sent only after the acknowledgement; after any other outcome the next batch is abandoned.
    """

    def __init__(
        self,
        session: Session,
        subject: str,
        timeout: float | None,
        on_wait: Callable[[str], None],
        on_commit: Callable[[], None],
    ) -> None:
        self.tally = Tally()
        self._session = session
        self._stream = ""
        self._subject = subject
        self._timeout = timeout
        self._on_wait = on_wait
        self._on_commit = on_commit
        self._atomic = True
        self._size = MOST_MESSAGES  # of the next attempt; smaller while the stream is nearly full
        self._single = 0  # messages to send one by one, because the server has some of them
        self._began = 0  # the stream's last sequence before anything was sent
        self._last = 0  # everything of this publisher up to here is accounted for, or in _known
        self._known: set[str] = set()  # read back and not matched yet
        self._unsure = True
        self._open: OpenBatch | None = None  # the next batch, of which a part is sent
        self._steady = True  # the last attempt was accepted: the next batch will probably be sent as it is
        self._broken = 0
        self._raced = 0
        self._waiting = ""
        self._since = 0.0
        self._pause = FIRST_PAUSE

    def begin(self, stream: str, atomic: bool, last: int, read: int) -> None:
        """Sets what the committer needs to know of the stream before the first batch.

        Later messages than `read` are read back before the first batch.

        Args:
            stream: The name of the stream.
            atomic: Whether the stream permits atomic batches.
            last: The stream's last sequence.
            read: The sequence up to which the subject was searched for documents of this input.
        """
        self._stream, self._atomic, self._began, self._last = stream, atomic, last, read

    async def commit(self, batch: Sequence[Message], ahead: Ahead | None = None) -> None:
        """Returns when every message is stored, or already in the stream.

        Args:
            batch: The messages. After a call with `ahead`, those that it returned are the first ones.
            ahead: Returns messages of the next batch, to be sent meanwhile. It is cancelled.

        Raises:
            PublishError: If the server returns a permanent error, or a wait exceeds the timeout.
            UnreachableError: If a wait for a connection exceeds the timeout.
        """
        pending: list[Message] = []
        ids: set[str] = set()
        for message in batch:  # the server would reject a whole batch with a repeated id
            if message.id in ids:
                self.tally.duplicates += message.documents
                if self._earlier(message):
                    self.tally.repeat = Duplicate(message)
            else:
                ids.add(message.id)
                pending.append(message)
        while pending:
            before = len(pending)
            try:
                await self._attempt(pending, ahead)
            except NatsConnectionError as error:
                self._unsure, self._steady = True, False
                await self.wait(f"no answer from NATS at {self._session.access.shown}: {error}")
            if pending and len(pending) < before:
                self.tally.position = pending[0].first
                self._on_commit()
        self.resume()
        self.tally.position = batch[-1].position + 1
        self._on_commit()

    async def _attempt(self, pending: list[Message], ahead: Ahead | None) -> None:
        """Makes one request to the server.

        Messages that are accounted for are removed from pending, also when this raises.
        """
        if not self._session.connected:
            self._unsure = True
            await self._session.reconnect()
        fence = None
        if self._unsure:
            try:
                fence = await self._read_back()
            except NatsRequestError as error:
                if error.code in BUSY:
                    raise NatsConnectionError(str(error)) from error
                raise PublishError(f"cannot read back the messages of {self._subject}: {error}") from error
        if self._known:
            self._drop(pending)
        if not pending:
            return
        count = 1 if self._single or not self._atomic else min(self._size, len(pending))
        try:
            follows = self._steady and self._atomic and not self._single and count == len(pending)
            answer = await self._send(pending[:count], fence, ahead if follows else None)
        except NatsRequestError as error:
            self._steady = False
            await self._settle(error, pending, count)
            return
        sent = pending[:count]
        del pending[:count]
        if self._accept(sent, int(answer["seq"]), bool(answer.get("duplicate"))) and self._earlier(sent[0]):
            self.tally.repeat = await self._repeat(sent[0], int(answer["seq"]))

    async def _read_back(self) -> int:
        """Reads the ids of the subject's messages after the last one accounted for.

        Returns:
            The sequence of the subject's last message.
        """
        newest, _ = await self._session.last(self._stream, self._subject)
        if newest > self._last:
            await self._session.headers(self._stream, self._subject, self._last + 1, newest, self._found)
            self._last = newest  # the last ones may have been released meanwhile
        return newest

    def _found(self, sequence: int, headers: dict[str, str]) -> None:
        if found := headers.get(MESSAGE_ID):
            self._known.add(found)
        self._last = sequence  # not read again after another loss
        self._pause = FIRST_PAUSE

    def _drop(self, pending: list[Message]) -> None:
        """Removes messages that the stream already has, and accounts for them."""
        there = {m.id for m in pending} & self._known
        if there:
            self._known -= there
            self._count([m for m in pending if m.id in there], self._last)
            pending[:] = [m for m in pending if m.id not in there]

    async def _send(self, messages: Sequence[Message], fence: int | None, ahead: Ahead | None) -> dict[str, Any]:
        """Sends messages, and those of the next batch while it waits for the acknowledgement, which it returns."""
        batch, self._open = self._open, None
        if batch is not None and (fence is not None or not batch.continues(messages)):
            await batch.abandon()
            batch = None
        if batch is None:
            batch = OpenBatch(self._session, self._subject, fence)
        await batch.send(messages[len(batch.sent) : -1])
        if ahead is None:
            return await self._ask(batch, messages[-1], fence)
        following = OpenBatch(self._session, self._subject)
        filling = asyncio.ensure_future(following.fill(ahead))
        try:
            answer = await self._ask(batch, messages[-1], fence)
        except (NatsConnectionError, NatsRequestError):
            await _ended(following, filling)
            await following.abandon()
            raise
        finally:
            following.stop()
            filling.cancel()
        if await _ended(following, filling) and following.sent:
            self._open = following
        return answer

    async def _ask(self, batch: OpenBatch, last: Message, fence: int | None) -> dict[str, Any]:
        if batch.sent:
            return await batch.commit(last)
        headers = last.headers if fence is None else last.headers | {LAST_SUBJECT_SEQUENCE: str(fence)}
        answer = await self._session.ask(self._subject, last.payload, headers)
        if not answer.get("seq"):
            raise NatsConnectionError(f"acknowledgement {answer} is not that of a message")
        return answer

    def _accept(self, sent: Sequence[Message], sequence: int, duplicate: bool) -> bool:
        """Accounts for acknowledged messages, and returns whether the stream already had them from another source."""
        self._unsure, self._steady, self._broken, self._raced = False, True, 0, 0
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
        """Reports whether a repeated message is before the first one recorded.

        Repeats within a batch are found before those in the stream.
        """
        return self.tally.repeat is None or message.position < self.tally.repeat.message.position

    async def _repeat(self, message: Message, sequence: int) -> Duplicate:
        """Returns what the stream has in place of a message.

        The producer may lack the permission to request it.
        """
        headers = None
        with contextlib.suppress(asyncio.TimeoutError, NatsConnectionError, NatsRequestError):
            headers = await asyncio.wait_for(self._session.origin(self._stream, sequence), ORIGIN_SECONDS)
        return Duplicate(message, sequence, headers, meanwhile=sequence > self._began)

    def _count(self, sent: Sequence[Message], sequence: int) -> None:
        self.tally.documents += sum(m.documents for m in sent)
        self.tally.bytes += sum(len(m.payload) for m in sent)
        self.tally.last_sequence = max(self.tally.last_sequence, sequence)

    async def _settle(self, error: NatsRequestError, pending: Sequence[Message], count: int) -> None:
        """Decides how an error of the server changes the next attempt."""
        number = error.number
        if number == BATCH_DUPLICATE or (
            number == MESSAGE_TOO_LARGE and count > 1
        ):  # single messages identify the cause
            self._single = count
        elif number in (STORE_FAILED, ACCOUNT_FULL, NO_STORAGE, INSUFFICIENT):
            if number == STORE_FAILED and "maximum" not in error.description:
                raise PublishError(f"cannot store documents on {self._subject}: {error}") from error
            if count > 1:  # fill the remaining room
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
            busy = f"other producers of {self._subject} always publish first: give this input a separate source"
            await self.wait(busy if self._raced > LOST_RACES else "")
        elif number in (BATCH_INCOMPLETE, TOO_MANY_INFLIGHT):
            self._broken += 1
            if self._broken >= BROKEN_BATCHES:
                self._broken, self._single = 0, count
            self._unsure = True
            await self.wait("")
        elif error.code in BUSY:
            self._unsure = True
            await self.wait(f"NATS at {self._session.access.shown} returned: {error}")
        else:
            raise PublishError(f"cannot store document {pending[0].label} on {self._subject}: {error}") from error

    async def _full(self, error: NatsRequestError) -> str:
        if error.number != STORE_FAILED:
            return f"stream {self._stream}: the server has no space left: {error}"
        try:
            info = await self._session.stream(self._stream)
            state, limit = info["state"], info["config"]["max_bytes"]
        except (NatsConnectionError, NatsRequestError, KeyError):
            return f"stream {self._stream} is full: {error}"
        return (
            f"stream {self._stream} is full: it has {state['messages']:,} documents, {state['bytes']:,} of {limit:,} "
            "bytes;"
            " release documents, or raise stream.max_bytes in the daemon's configuration"
        )

    async def wait(self, reason: str) -> None:
        """Waits for the next attempt.

        An empty reason is not reported. Raises when the timeout expires.
        """
        now = time.monotonic()
        if reason and not self._waiting:
            self._since = now
        if reason and self._timeout is not None and now + self._pause - self._since > self._timeout:
            kind = PublishError if self._session.connected else UnreachableError
            raise kind(f"cannot publish to {self._subject}: waited {now - self._since:.0f} s: {reason}")
        if reason and reason != self._waiting:
            self._waiting = reason
            self._on_wait(reason)
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def resume(self) -> None:
        """Ends a wait, and reports it."""
        self._pause = FIRST_PAUSE
        if self._waiting:
            self.tally.waited += time.monotonic() - self._since
            self._waiting = ""
            self._on_wait("")


async def _ended(batch: OpenBatch, filling: asyncio.Task[None]) -> bool:
    """Ends the task that fills a batch, and reports whether it had no error."""
    batch.stop()
    filling.cancel()
    [error] = await asyncio.gather(filling, return_exceptions=True)
    return error is None or isinstance(error, asyncio.CancelledError)
