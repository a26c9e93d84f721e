"""The queue of messages to commit: callers fill it, the committer's thread flushes it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError

from loaderd.errors import ClosedClientError, ForkedClientError
from loaderd.producer._committer import MOST_MESSAGES
from loaderd.producer._message import Message
from loaderd.producer._open_batch import CHUNK_BYTES


class Outbox:
    """A bounded batch that fills while the one before is committed.

    The committer takes all available messages as soon as it is free. A single document is therefore sent immediately,
    and many are sent in large batches. While it commits a batch it may look at the next one, and send a part of it.
    Waits are futures, so that threads and coroutines can both wait. After `end` every method raises.
    """

    def __init__(self, batch_bytes: int, wake: Callable[[], None]) -> None:
        self._wake = wake  # wakes the committer's thread
        self._batch_bytes = batch_bytes
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._filling: list[Message] = []
        self._bytes = 0
        self._chunk = max(1, min(CHUNK_BYTES, batch_bytes // 8))
        self._seen = 0  # bytes that `ahead` has returned
        self._committing = False
        self._room: list[Future[None]] = []
        self._flushes: list[tuple[Message, Future[None]]] = []
        self._last: Message | None = None
        self._error: BaseException | None = None

    def offer(self, message: Message) -> Future[None] | None:
        """Accepts a message, or returns a future that is done when room may be available."""
        with self._lock:
            self._check()
            if self._filling and (
                len(self._filling) >= MOST_MESSAGES or self._bytes + message.size > self._batch_bytes
            ):
                room: Future[None] = Future()
                self._room.append(room)
                wake, result = self._committing and len(self._room) == 1, room
            else:
                before = self._bytes - self._seen
                self._filling.append(message)
                self._bytes += message.size
                self._last = message
                # The committer's thread is not woken for every message that it could send.
                due = before < self._chunk <= before + message.size
                wake, result = due if self._committing else len(self._filling) == 1, None
        if wake:
            self._wake()
        return result

    def flushed(self) -> Future[None]:
        """Returns a future that is done when everything accepted so far is committed."""
        done: Future[None] = Future()
        with self._lock:
            self._check()
            if self._last is None:
                done.set_result(None)
            else:
                self._flushes.append((self._last, done))
        return done

    def take(self) -> list[Message]:
        """Returns all buffered messages, for the committer; empty without any."""
        with self._lock:
            batch, self._filling, self._bytes, self._seen = self._filling, [], 0, 0
            self._committing = bool(batch)
            room, self._room = self._room, []
        for waiter in room:
            resolve(waiter)
        return batch

    def ahead(self, count: int) -> list[Message]:
        """Returns the messages after the first `count` of the next batch, which keeps them.

        Returns:
            The messages; empty if they are few and more may follow. Then the committer's thread is woken later.
        """
        with self._lock:
            if self._bytes - self._seen < self._chunk and not self._room:
                return []
            self._seen = self._bytes
            return self._filling[count:]

    def committed(self, last: Message) -> None:
        """Records that everything up to a message is committed."""
        with self._lock:
            if self._last is last:
                self._last = None
            due = [done for message, done in self._flushes if message.position <= last.position]
            self._flushes = [(message, done) for message, done in self._flushes if message.position > last.position]
        for done in due:
            resolve(done)

    def end(self, error: BaseException | None) -> None:
        """Ends all waits, with an error or because of a close.

        The first call counts.
        """
        with self._lock:
            if self._error is None:
                self._error = error or ClosedClientError("the publisher is closed")
            error = self._error
            waiters = self._room + [done for _, done in self._flushes]
            self._room, self._flushes, self._filling, self._bytes = [], [], [], 0
        for waiter in waiters:
            resolve(waiter, error)

    def _check(self) -> None:
        if self._process != os.getpid():
            raise ForkedClientError(
                "cannot use the publisher: it was created before the process was forked; create it in the child process"
            )
        if self._error is not None:
            raise self._error


def resolve(future: Future[None], error: BaseException | None = None) -> None:
    """Completes a future that its waiter may have cancelled."""
    try:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    except InvalidStateError:
        pass
