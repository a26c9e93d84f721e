"""Waits for events outside a test's own thread."""

import sys
import threading
import traceback
from collections.abc import Callable


def wait_for(condition: Callable[[], object], seconds: float = 90) -> None:
    """Waits until a condition holds: checks it 50 times per second, and fails after `seconds`."""
    ticks = threading.Event()
    for _ in range(int(seconds * 50)):
        if condition():
            return
        ticks.wait(0.02)
    raise AssertionError(f"{condition} is not so after {seconds} s")


def client_threads() -> list[str]:
    """Returns the threads of clients and loaders."""
    return [t.name for t in threading.enumerate() if t.name.startswith("loaderd-")]


def no_thread_is_left() -> None:
    """Fails unless clients and loaders have ended their threads. `close()` waits for the prefetching thread; threads
    that opened a stream or made a call end soon after.
    """
    assert "loaderd-prefetch" not in client_threads()
    try:
        wait_for(lambda: not client_threads(), seconds=10)
    except AssertionError:
        frames = sys._current_frames()
        left = [t for t in threading.enumerate() if t.name in client_threads() and t.ident in frames]
        stacks = "".join(f"{t.name}:\n" + "".join(traceback.format_stack(frames[t.ident or 0])) for t in left)
        raise AssertionError(f"threads are left:\n{stacks}") from None
