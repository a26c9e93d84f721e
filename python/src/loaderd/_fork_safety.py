"""Protects a forked child from the gRPC clients of its parent: the child can neither use nor free them.

A child that is forked after gRPC was used lacks gRPC's threads and may inherit locked locks. Calls there hang or crash,
even if the parent's clients are closed by then. So does the destructor of a client: it waits for a thread that the
child does not have, whenever the garbage collector runs it.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, TypeVar

T = TypeVar("T")

_transports: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.RLock()  # of the set, and held during a fork
_kept: list[list[Any]] = []  # references that prevent a child from freeing its parent's transports
_used = _child = False


def register_transport(made: T) -> T:
    """Registers a client or a stream of gRPC, which no forked child will free; returns it."""
    global _used
    with _lock:
        _transports.add(made)
        _used = True
    return made


def forked_after_use() -> bool:
    """Reports whether this process was forked from one that had used gRPC."""
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
