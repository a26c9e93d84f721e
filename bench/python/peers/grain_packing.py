"""Grain: its packing transformations of a streamed dataset.

First fit and best fit accept no document longer than a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from documents import Documents
from packers import Packer, Ready, Rows


def prepare(documents: Documents, row: int, *, name: str, bins: int | None = None) -> Ready:
    import grain
    from grain import experimental

    longest = row if bins else int(documents.lengths.max())

    class Arriving(grain.DatasetIterator):
        def __init__(self) -> None:
            super().__init__()
            self.documents = documents.arrive(longest)

        def __next__(self) -> dict[str, np.ndarray]:
            return {"input_ids": next(self.documents)}

        def get_state(self) -> dict[str, Any]:
            return {}

        def set_state(self, state: dict[str, Any]) -> None:
            raise NotImplementedError("the comparison restores nothing")

    class Source(grain.IterDataset):
        def __iter__(self) -> Arriving:
            return Arriving()

    def rows() -> Iterator[Rows]:
        settings = {"num_packing_bins": bins} if bins else {}
        packed = getattr(experimental, name)(Source(), length_struct={"input_ids": row}, **settings)
        size = np.array([row])
        return ((element["input_ids"], size) for element in packed)

    return Ready(rows)


PACKERS = [
    Packer("Grain first fit, 64 bins", "grain", "yes", partial(prepare, name="FirstFitPackIterDataset", bins=64)),
    Packer("Grain best fit, 64 bins", "grain", "yes", partial(prepare, name="BestFitPackIterDataset", bins=64)),
    Packer("Grain best fit, 1,024 bins", "grain", "yes", partial(prepare, name="BestFitPackIterDataset", bins=1024)),
    Packer("Grain concat then split", "grain", "yes", partial(prepare, name="ConcatThenSplitIterDataset")),
]
