"""Host memory of batches, which is reused once no reference to the old batch exists."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_NUMPY: dict[torch.dtype, np.dtype[Any]] = {
    torch.int64: np.dtype(np.int64),
    torch.int32: np.dtype(np.int32),
    torch.int16: np.dtype(np.int16),
    torch.int8: np.dtype(np.int8),
    torch.float32: np.dtype(np.float32),
    torch.float16: np.dtype(np.float16),
    torch.bool: np.dtype(np.bool_),
}
KINDS = {numpy: torch for torch, numpy in _NUMPY.items()}
"""The supported numpy types, with their torch types."""


class Buffers:
    """Allocates tensors of shape [rows, L] and reuses their memory automatically.

    Every tensor that shares memory with an allocated one (views, slices, `detach()`, `numpy()`, what autograd saved)
    references its storage, and the storage references the numpy array that it was created from. Only when that array is
    freed can no tensor read the memory, and it is reused. Code that accesses memory only by `data_ptr()` must keep a
    tensor.

    Pinned memory is allocated by torch's caching host allocator, which does the same and also waits for running copies
    to a GPU.
    """

    def __init__(self, *, pinned: bool = False, keep: int = 4) -> None:
        """Creates an empty pool.

        Args:
            pinned: Whether tensors are in pinned memory.
            keep: How many unused buffers of a size stay allocated.
        """
        self.pinned = pinned
        self.allocated = 0  # bytes allocated so far; the pinned allocator counts its own
        self._keep = keep
        self._free: dict[int, deque[npt.NDArray[np.uint8]]] = {}

    def take(self, rows: int, length: int, dtype: torch.dtype) -> torch.Tensor:
        """Returns an uninitialized tensor [rows, length].

        Args:
            rows: The number of rows.
            length: The row length.
            dtype: One of the types in `KINDS`.
        """
        if self.pinned:
            return torch.empty((rows, length), dtype=dtype, pin_memory=True)
        kind = _NUMPY[dtype]
        size = rows * length * kind.itemsize
        free = self._free.setdefault(size, deque(maxlen=self._keep))
        try:
            memory = free.pop()
        except IndexError:
            memory = np.empty(size, np.uint8)
            self.allocated += size
        owner = memory.view(kind).reshape(rows, length)
        # May run in any thread at any time: appending to a deque takes no lock. Beyond `keep` buffers the oldest is
        # dropped.
        weakref.finalize(owner, free.append, memory).atexit = False
        return torch.from_numpy(owner)

    def hold(self, values: npt.NDArray[Any]) -> torch.Tensor:
        """Returns a small array as a tensor that is not pooled."""
        tensor = torch.from_numpy(values)
        return tensor.pin_memory() if self.pinned else tensor
