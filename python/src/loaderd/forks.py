"""What a fork leaves of the parent's clients: nothing that a child may use, and nothing that it may free.

A child that is forked once gRPC has run lacks its threads and may have its locks taken. Calls there hang or crash,
whether or not the parent's clients are closed by then. So does the end of a client: its destructor waits for a thread
that the child does not have, whenever the garbage collector comes by.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, TypeVar

T = TypeVar("T")

_transports: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.RLock()  # of the set, and held over a fork
_kept: list[list[Any]] = []  # what a child must not free, for as long as it lives
_used = _child = False


def transport(made: T) -> T:
    """Notes a client or a stream of gRPC, which no forked child will free; returns it."""
    global _used
    with _lock:
        _transports.add(made)
        _used = True
    return made


def after_use() -> bool:
    """Whether this process was forked from one that had used gRPC."""
    return _child


def _before() -> None:
    _lock.acquire()
    _kept.append(list(_transports))


def _in_parent() -> None:
    _kept.pop()
    _lock.release()


def _in_child() -> None:
    global _child
    _child = _used
    _lock.release()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
