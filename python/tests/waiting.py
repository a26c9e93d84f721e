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
