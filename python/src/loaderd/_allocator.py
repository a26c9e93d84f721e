"""Reuses the memory of freed steps for later ones."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt
_LARGEST = 32 << 20
"""Bytes. Every version of the C library accepts this as the size from which memory is allocated from the system and
returned to it."""


def keep_memory(unused: int = 256 << 20) -> bool:
    """Makes this process keep freed memory for later steps.

    Freed memory is not returned to the system, so that a step costs no page faults for new memory. It is a process-wide
    setting of the C library's allocator, and therefore the program's choice: this package never calls it. Call it once,
    before the first step is read.

    Args:
        unused: Approximate limit of the kept memory in bytes per thread.

    Returns:
        Whether the setting took effect, which requires glibc (Linux).

    Raises:
        ValueError: If the C library does not accept the number.
    """
    if not 0 <= unused < 1 << 31:
        raise ValueError(f"unused {unused}: want bytes, 0 to {(1 << 31) - 1}")
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return False
    return bool(libc.mallopt(_MMAP_THRESHOLD, _LARGEST) and libc.mallopt(_TRIM_THRESHOLD, unused))
