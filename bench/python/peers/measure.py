"""CPU time and memory of this process. Linux only."""

from __future__ import annotations

import resource
import time
from pathlib import Path


def cpu() -> float:
    """Returns the CPU seconds of this process with all its threads, and of its worker processes that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Memory:
    """The resident size of this process when this is created, and the maximum since then of it or a worker process."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        self.before = status("VmRSS")

    def peak(self) -> int:
        workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
        return max(status("VmHWM"), workers)


def status(field: str) -> int:
    """Returns a field of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) << 10
    raise KeyError(f"/proc/self/status has no {field}")
