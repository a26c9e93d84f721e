"""An atomic batch of the server, sent before it may be committed."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from loaderd.producer._message import Message, header_lines
from loaderd.producer._nats_session import NatsConnectionError, Session

Ahead = Callable[[int], Awaitable[Sequence[Message]]]
"""Waits for documents of the next batch after its first n, and returns them."""

CHUNK_BYTES = 256 << 10
"""Bytes of payload that are sent at once."""
LAST_SUBJECT_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"


class OpenBatch:
    """Messages of one subject that the server stages.

    It stores them, all or none, when it receives the last one with the commit. Without a commit it drops them after a
    timeout.
    """

    def __init__(self, session: Session, subject: str, fence: int | None = None) -> None:
        """Opens a batch; nothing is sent yet.

        Args:
            session: The connection.
            subject: The subject of all messages.
            fence: The sequence that must be the last of the subject when the batch is stored; None for any.
        """
        self.sent: list[Message] = []
        self._session = session
        self._subject = subject
        self._id = secrets.token_hex(11).encode()
        self._fence = fence
        self._seen = 0  # messages of the next batch that are sent, repeated or held
        self._ids: set[str] = set()
        self._stopped = False
        self._held: list[Message] = []  # none, or the last one, which may have to be sent with the commit

    async def send(self, messages: Sequence[Message]) -> None:
        """Sends messages without the commit.

        A cancelled call has sent all messages that are in `sent`.

        Raises:
            NatsConnectionError: If the connection is lost.
        """
        parts: list[bytes] = []
        size = 0
        for message in messages:
            self.sent.append(message)
            lines = message.lines or header_lines(message.headers)
            parts.append(b"%bNats-Batch-Id: %b\r\nNats-Batch-Sequence: %d\r\n" % (lines, self._id, len(self.sent)))
            if len(self.sent) == 1 and self._fence is not None:
                parts[-1] += header_lines({LAST_SUBJECT_SEQUENCE: str(self._fence)})
            parts.append(message.payload)
            size += message.size
            if size >= CHUNK_BYTES:
                due, parts, size = parts, [], 0
                await self._session.send(self._subject, due)
        if parts:
            await self._session.send(self._subject, parts)

    async def fill(self, ahead: Ahead) -> None:
        """Sends messages of the next batch as they become available, all but the last one, until it is cancelled.

        A message whose id is repeated in the batch is omitted. It also ends after `stop`, because a library may lose a
        cancellation.

        Raises:
            NatsConnectionError: If the connection is lost.
        """
        await asyncio.sleep(0)  # the commit of the batch before is sent first
        while not self._stopped:
            more = await ahead(self._seen)
            self._seen += len(more)
            for message in more:
                if message.id not in self._ids:
                    self._ids.add(message.id)
                    self._held.append(message)
            due, self._held = self._held[:-1], self._held[-1:]
            await self.send(due)

    def stop(self) -> None:
        """Ends `fill`, once its current wait has ended."""
        self._stopped = True

    def continues(self, messages: Sequence[Message]) -> bool:
        """Reports whether the sent messages are the first ones of `messages`, and not all of them."""
        return len(messages) > len(self.sent) and all(map(operator.is_, self.sent, messages))

    async def commit(self, message: Message) -> dict[str, Any]:
        """Sends the last message, and returns the server's acknowledgement of the batch.

        Raises:
            NatsConnectionError: If no valid acknowledgement arrives.
            NatsRequestError: If the server rejects the batch.
        """
        count = len(self.sent) + 1
        place = {"Nats-Batch-Id": self._id.decode(), "Nats-Batch-Sequence": str(count), "Nats-Batch-Commit": "1"}
        answer = await self._session.ask(self._subject, message.payload, message.headers | place)
        if not answer.get("seq") or (answer.get("batch"), answer.get("count")) != (self._id.decode(), count):
            raise NatsConnectionError(f"acknowledgement {answer} is not that of {count} messages")
        return answer

    async def abandon(self) -> None:
        """Makes the server drop the messages immediately: a gap in a batch ends it.

        A lost connection is ignored.
        """
        if not self.sent or not self._session.connected:
            return
        lines = b"Nats-Batch-Id: %b\r\nNats-Batch-Sequence: %d\r\n" % (self._id, len(self.sent) + 2)
        with contextlib.suppress(NatsConnectionError):
            await self._session.enqueue(self._subject, [lines, b""])
