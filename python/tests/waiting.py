"""Waiting for what happens outside a test's own thread."""

import threading
from collections.abc import Callable


def wait_for(condition: Callable[[], object], seconds: float = 90) -> None:
    """Waits until a condition holds: asks 50 times a second, and fails after so many seconds."""
    ticks = threading.Event()
    for _ in range(int(seconds * 50)):
        if condition():
            return
        ticks.wait(0.02)
    raise AssertionError(f"{condition} is not so after {seconds} s")


def client_threads() -> list[str]:
    """The threads of clients and loaders."""
    return [t.name for t in threading.enumerate() if t.name.startswith("loaderd-")]


def no_thread_is_left() -> None:
    """Fails unless clients and loaders have ended their threads: the one that reads ahead is waited for by `close()`, those that
    opened a stream or made a call leave by themselves soon after.
    """
    assert "loaderd-prefetch" not in client_threads()
    wait_for(lambda: not client_threads(), seconds=10)
