"""Arrow's memory as numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def array_view(values: pa.Array, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns an Arrow array of numbers as a numpy view, or a copy if its address is misaligned for its type.

    Messages of a few KiB may be misaligned because they stay in the network read buffer; larger ones have their own
    memory. Arrow's own `to_numpy` imports pandas if installed, which takes half a second.
    """
    memory = values.buffers()[1]
    if memory is None or not len(values):
        return np.empty(0, kind)
    array = np.frombuffer(memory, kind, len(values), values.offset * kind.itemsize)
    return array if array.flags.aligned else array.copy()
