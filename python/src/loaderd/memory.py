"""Memory of steps that are gone, for the next ones."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt
_LARGEST = 32 << 20
"""Bytes: every version of the C library takes this for the size from which on memory comes from the system and goes back to it."""


def keep_memory(unused: int = 256 << 20) -> bool:
    """Has this process keep memory that it has freed, up to about `unused` bytes a thread, and does not give it back to the system: a step then does not
    cost page faults for memory that is new. Returns whether it does, which takes glibc (Linux).

    It is a setting of the C library's allocator for everything in the process, and so the program's choice: nothing here calls it. Call it once, before
    the first step is read. Raises ValueError for a number that the library does not take."""
    if not 0 <= unused < 1 << 31:
        raise ValueError(f"unused {unused}: want bytes, 0 to {(1 << 31) - 1}")
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return False
    return bool(libc.mallopt(_MMAP_THRESHOLD, _LARGEST) and libc.mallopt(_TRIM_THRESHOLD, unused))
