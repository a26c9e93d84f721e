"""What the comparison asks of a packer. Each module beside this one fills it in for one library, in its PACKERS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from documents import Documents

# Rows one behind the other, and how many tokens each has.
Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Ready:
    """A packer with its library loaded and the documents in the form that it takes: what is left is packing."""

    rows: Callable[[], Iterator[Rows]]  # packs, moves the tokens, yields rows as they come out
    alone: Callable[[], object] | None = None  # packs lengths and moves nothing, where the library can do that
    counted: Callable[[], Iterator[Rows]] | None = None  # rows, keeping documents.arrived up to date at a cost in time
    note: str = ""  # what it chose by itself


@dataclass(frozen=True)
class Packer:
    name: str
    package: str  # its name on PyPI
    online: str  # whether it packs documents as they come
    prepare: Callable[[Documents, int], Ready]  # of the documents and the row length
    limit: int | None = None  # how many of the documents a slow one gets


def rectangle(rows: np.ndarray) -> Rows:
    """Rows of an array of rows."""
    return rows.reshape(-1), np.full(len(rows), rows.shape[1])
