"""Arrow's memory as numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def viewed(values: pa.Array, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """An Arrow array of numbers as a numpy view, or a copy where it lies at an address that its type does not allow. That
    happens to messages of a few KiB, which lie where they came to in what was read from the network; larger ones get memory
    of their own. Arrow's own `to_numpy` imports pandas where that is installed, for half a second."""
    memory = values.buffers()[1]
    if memory is None or not len(values):
        return np.empty(0, kind)
    array = np.frombuffer(memory, kind, len(values), values.offset * kind.itemsize)
    return array if array.flags.aligned else array.copy()
