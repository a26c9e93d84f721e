"""Reading ahead in a thread."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar, cast

from loaderd.errors import ClosedClient, ForkedClient, Unavailable, Unreachable
from loaderd.waits import Waits

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Cancellable(Protocol[T_co]):
    """An iterator whose `__next__` may wait, and whose `cancel` makes it return or raise, from another thread."""

    def __next__(self) -> T_co: ...

    def cancel(self) -> None: ...


class Prefetcher(Iterator[T]):
    """Runs an iterator in a daemon thread, at most `depth` finished items ahead of the consumer.

    `next()` gives the items in order, what the iterator raised at its place, and StopIteration at the end; a wait in it
    sees Ctrl-C. With a `transform` the thread applies it to every item first. `close()` cancels the iterator and waits
    until the thread is gone; so does leaving a `with` block, the garbage collector, and the end of the interpreter. The
    thread starts with the first `next()`. `waits` is told when somebody waits: those of a StepStream, which says why."""

    def __init__(
        self,
        iterator: Cancellable[object],
        depth: int = 2,
        transform: Callable[..., T] | None = None,
        waits: Waits | None = None,
    ) -> None:
        if depth < 1:
            raise ValueError(f"prefetch depth {depth}: 1 or more")
        self._shared: _Shared[T] = _Shared(iterator, depth, transform, waits or Waits())
        self._close = weakref.finalize(self, _Shared.close, self._shared)

    def __next__(self) -> T:
        return self._shared.take()

    @property
    def stale(self) -> bool:
        """Whether what `next()` raised last is a wait that ended while nobody waited for an item: it may be over."""
        return self._shared.stale

    def __enter__(self) -> Prefetcher[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops reading and waits for the thread. What was read ahead is dropped; a `next()` in another thread raises
        ClosedClient."""
        self._close()


class _Shared(Generic[T]):
    """What consumer and thread share. The thread holds no reference to the Prefetcher, so that one left behind is
    collected."""

    def __init__(
        self, iterator: Cancellable[object], depth: int, transform: Callable[..., T] | None, waits: Waits
    ) -> None:
        self.iterator, self.depth, self.transform, self.waits = iterator, depth, transform, waits
        waits.ahead = True
        self.items: deque[T] = deque()
        self.raised: BaseException | None = None
        self.ended = self.closed = self.stale = False
        self.changed = threading.Condition()
        self.pid = os.getpid()
        self.thread: threading.Thread | None = None

    def take(self) -> T:
        if os.getpid() != self.pid:
            raise ForkedClient("this reader was made before the process was forked; make it in the child")
        with self.changed:
            if self.thread is None and not self.closed:
                self.thread = threading.Thread(target=self.run, name="loaderd-prefetch", daemon=True)
                self.thread.start()
            if waited := not self.ready():
                with self.waits:
                    while not self.ready():
                        self.changed.wait()
            if self.closed:
                raise ClosedClient("the reader is closed")
            if self.items:
                self.changed.notify_all()
                return self.items.popleft()
            raised, self.raised = self.raised, None
            self.stale = not waited and isinstance(raised, (Unavailable, Unreachable))
        if raised is not None:
            raise raised
        raise StopIteration

    def ready(self) -> bool:
        return bool(self.items or self.ended or self.closed)

    def run(self) -> None:
        raised: BaseException | None = None
        try:
            while self.room():
                item = next(self.iterator)
                self.put(cast(T, item) if self.transform is None else self.transform(item))
                del item
        except StopIteration:
            pass
        except BaseException as error:  # to the consumer, whatever it is
            raised = error
        with self.changed:
            self.raised, self.ended = raised, True
            self.changed.notify_all()

    def room(self) -> bool:
        """Waits until an item more may be made; False when there is no need of it."""
        with self.changed:
            while len(self.items) >= self.depth and not self.closed:
                self.changed.wait()
            return not self.closed

    def put(self, item: T) -> None:
        with self.changed:
            if not self.closed:
                self.items.append(item)
            self.changed.notify_all()

    def close(self) -> None:
        if os.getpid() != self.pid:
            return  # the thread and the connection are the parent's
        with self.changed:
            self.closed = True
            self.items.clear()
            self.changed.notify_all()
        self.iterator.cancel()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()
