"""Host memory of batches, used again when nobody can see the old batch any more."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_NUMPY: dict[torch.dtype, np.dtype[Any]] = {
    torch.int64: np.dtype(np.int64), torch.int32: np.dtype(np.int32), torch.int16: np.dtype(np.int16), torch.int8: np.dtype(np.int8),
    torch.float32: np.dtype(np.float32), torch.float16: np.dtype(np.float16), torch.bool: np.dtype(np.bool_),
}  # fmt: skip
KINDS = {numpy: torch for torch, numpy in _NUMPY.items()}
"""Of numpy's types that tensors are given out of."""


class Buffers:
    """Gives out tensors of shape [rows, L] whose memory comes back by itself.

    Every tensor that shares memory with the one given out (views, slices, `detach()`, `numpy()`, what autograd saved)
    holds its storage, and the storage holds the numpy array it was made from. When that array dies, nothing can read
    the memory any more, and it is given out again; not before. What reads memory behind torch's back, by `data_ptr()`
    alone, has to keep a tensor.

    Pinned memory comes from torch's caching host allocator, which does the same and also waits for copies to a GPU that
    are under way.
    """

    def __init__(self, *, pinned: bool = False, keep: int = 4) -> None:
        """`keep`: how many unused buffers of a size stay allocated."""
        self.pinned = pinned
        self.allocated = 0  # bytes asked of the system so far; the pinned allocator counts its own
        self._keep = keep
        self._free: dict[int, deque[npt.NDArray[np.uint8]]] = {}

    def take(self, rows: int, length: int, dtype: torch.dtype) -> torch.Tensor:
        """A tensor [rows, length] of one of `KINDS`, with any contents."""
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
        # May run in any thread at any time: appending to a deque takes no lock. When `keep` are there, the oldest goes.
        weakref.finalize(owner, free.append, memory).atexit = False
        return torch.from_numpy(owner)

    def hold(self, values: npt.NDArray[Any]) -> torch.Tensor:
        """A small array as a tensor with memory of its own."""
        tensor = torch.from_numpy(values)
        return tensor.pin_memory() if self.pinned else tensor
