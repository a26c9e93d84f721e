"""The documents of every packer: their lengths, their tokens, and how many of them have arrived."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np


class Documents:
    """Documents whose tokens are numbered from 1 through the whole input, as the ledger requires."""

    def __init__(self, lengths: np.ndarray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.offsets = np.concatenate(([0], np.cumsum(self.lengths)))
        if self.offsets[-1] >= 1 << 31:
            raise ValueError(f"{self.offsets[-1]} tokens cannot be numbered in 32 bits: use fewer documents")
        self.tokens = np.arange(1, self.offsets[-1] + 1, dtype=np.int32)
        self.arrived = 0

    @classmethod
    def read(cls, path: Path, limit: int | None = None) -> Documents:
        """Returns the documents of a file with one length per line, or the first `limit` of them."""
        return cls(np.loadtxt(path, dtype=np.int64, ndmin=1, max_rows=limit))

    def __len__(self) -> int:
        return len(self.lengths)

    def arrive(self, longest: int) -> Iterator[np.ndarray]:
        """Yields the documents in order.

        Those longer than `longest` are split into several pieces, for packers with that limit.
        """
        bounds = self.offsets.tolist()
        for self.arrived in range(1, len(bounds)):
            start, end = bounds[self.arrived - 1], bounds[self.arrived]
            for at in range(start, end, longest):
                yield self.tokens[at : min(at + longest, end)]

    def pieces(self, longest: int) -> np.ndarray:
        """Returns the offsets of the pieces of `arrive`, and the end of the last one."""
        count = -(-self.lengths // longest)
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return np.append(np.repeat(self.offsets[:-1], count) + within * longest, self.offsets[-1])
