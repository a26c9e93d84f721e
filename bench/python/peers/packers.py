"""The interface of a packer in the comparison.

Each other module of this folder implements it for one library, in its PACKERS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from documents import Documents

# Concatenated rows, and the number of tokens in each.
Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Ready:
    """A packer with its library loaded and the documents in its input format: only packing remains."""

    rows: Callable[[], Iterator[Rows]]  # packs, moves the tokens, yields rows as they are emitted
    alone: Callable[[], object] | None = None  # packs lengths and moves nothing, if the library can
    counted: Callable[[], Iterator[Rows]] | None = None  # rows, with documents.arrived updated, which costs time
    note: str = ""  # its automatic choice


@dataclass(frozen=True)
class Packer:
    name: str
    package: str  # its name on PyPI
    online: str  # whether it packs documents as they arrive
    prepare: Callable[[Documents, int], Ready]  # of the documents and the row length
    limit: int | None = None  # how many of the documents a slow packer gets


def rectangle(rows: np.ndarray) -> Rows:
    """Returns the rows of a 2D array as Rows."""
    return rows.reshape(-1), np.full(len(rows), rows.shape[1])
