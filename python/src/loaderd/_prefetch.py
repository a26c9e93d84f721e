"""Prefetching in a thread."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar, cast

from loaderd._stall_log import StallLog
from loaderd.errors import ClosedClientError, ForkedClientError, UnavailableError, UnreachableError

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
_END = object()


class Cancellable(Protocol[T_co]):
    """An iterator whose `__next__` may wait.

    `cancel`, called from another thread, makes it return or raise.
    """

    def __next__(self) -> T_co: ...

    def cancel(self) -> None: ...


class Prefetcher(Iterator[T]):
    """Runs an iterator in a daemon thread, ahead of the consumer.

    `next()` returns the items in order, raises an exception of the iterator in its place, and StopIteration at the end.
    Ctrl-C interrupts its wait. The thread starts with the first `next()`. It ends with `close()`, at the end of a
    `with` block, when the prefetcher is garbage collected, and when the interpreter exits. A StepStream logs what
    `next()` waits for, and reports which steps were returned.
    """

    def __init__(
        self,
        iterator: Cancellable[object],
        depth: int = 2,
        transform: Callable[..., T] | None = None,
    ) -> None:
        """Creates a prefetcher.

        Args:
            iterator: The iterator. Its `cancel`, called from another thread, makes its `__next__` return or raise.
            depth: The number of finished items that are kept ready, 1 or more.
            transform: What the thread applies to every item.

        Raises:
            ValueError: If `depth` is below 1.
        """
        if depth < 1:
            raise ValueError(f"prefetch depth {depth}: want at least 1")
        self._shared: _Shared[T] = _Shared(iterator, depth, transform)
        self._close = weakref.finalize(self, _Shared.close, self._shared)

    def __next__(self) -> T:
        return self._shared.take()

    @property
    def stale(self) -> bool:
        """Whether the last exception of `next()` is a timeout that expired while the consumer was not waiting.

        The cause may have passed.
        """
        return self._shared.stale

    def __enter__(self) -> Prefetcher[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops reading and waits for the thread.

        Prefetched items are dropped; a `next()` in another thread raises ClosedClientError.
        """
        self._close()


class _Shared(Generic[T]):
    """The state shared by consumer and thread.

    The thread holds no reference to the Prefetcher, so that an abandoned one is collected.

    Both wait in queues implemented in C, which need neither Python code nor a lock that blocks the other side. `items`
    has finished items, and `room` an entry for every item that may be produced. An error or a close puts `_END` into
    them permanently.
    """

    def __init__(self, iterator: Cancellable[object], depth: int, transform: Callable[..., T] | None) -> None:
        self.iterator, self.transform = iterator, transform
        self.stall_log: StallLog = getattr(iterator, "stall_log", None) or StallLog()  # a StepStream has one
        self.stall_log.ahead = True
        self.items: SimpleQueue[Any] = SimpleQueue()
        self.room: SimpleQueue[object] = SimpleQueue()
        for _ in range(depth):
            self.room.put(None)
        self.raised: BaseException | None = None
        self.ended = self.closed = self.stale = False
        self.starting = threading.Lock()
        self.pid = os.getpid()
        self.thread: threading.Thread | None = None

    def take(self) -> T:
        if os.getpid() != self.pid:
            raise ForkedClientError(
                "cannot use the reader: it was created before the process was forked; create it in the child process"
            )
        if self.thread is None:
            self.start()
        if waited := self.items.empty():
            with self.stall_log:
                item = self.items.get()
        else:
            item = self.items.get()
        if item is not _END and not self.closed:
            self.room.put(None)
            self.stall_log.consumption.take()
            return cast(T, item)
        self.items.put(_END)
        if self.closed:
            raise ClosedClientError("the reader is closed")
        raised, self.raised = self.raised, None
        self.stale = not waited and isinstance(raised, (UnavailableError, UnreachableError))
        if raised is None:
            self.stall_log.consumption.end()
            raise StopIteration
        raise raised

    def start(self) -> None:
        with self.starting:
            if self.thread is None and not self.closed:
                self.thread = threading.Thread(target=self.run, name="loaderd-prefetch", daemon=True)
                self.thread.start()

    def run(self) -> None:
        try:
            while self.room.get() is not _END:
                item = next(self.iterator)
                self.items.put(item if self.transform is None else self.transform(item))
                del item
        except StopIteration:
            pass
        except BaseException as error:  # passed on to the consumer
            self.raised = error
        self.ended = True
        self.items.put(_END)

    def close(self) -> None:
        if os.getpid() != self.pid:
            return  # the thread and the connection belong to the parent
        with self.starting:
            self.closed = True
        self.items.put(_END)
        self.room.put(_END)
        self.iterator.cancel()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()
        with suppress(Empty):
            while True:
                self.items.get_nowait()
        self.items.put(_END)
