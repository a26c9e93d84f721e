"""TRL: `pack_dataset`, as SFTTrainer calls it, on a streamed dataset (which it packs in batches of 1,000 documents) and
on all documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from documents import Documents
from packers import Packer, Ready, Rows


def prepare(documents: Documents, row: int, *, strategy: str, batch: int | None = 1000) -> Ready:
    import datasets
    import pyarrow as pa
    from trl import pack_dataset

    datasets.disable_progress_bars()
    lists = pa.ListArray.from_arrays(pa.array(documents.offsets, pa.int32()), pa.array(documents.tokens))
    whole = datasets.Dataset(pa.table({"input_ids": lists}))

    def pack(dataset: Any, together: int = 64) -> Iterator[Rows]:
        packed = pack_dataset(dataset, row, strategy, {"batch_size": batch or len(documents)})
        for table in packed.with_format("arrow").iter(batch_size=together):
            for chunk in table["input_ids"].chunks:
                yield chunk.flatten().to_numpy(), np.diff(chunk.offsets.to_numpy())

    def note(table: Any, indices: list[int]) -> Any:
        documents.arrived = indices[-1] + 1
        return table

    def offline() -> Iterator[Rows]:
        documents.arrived = len(documents)
        return pack(whole)

    def online() -> Iterator[Rows]:
        return pack(whole.to_iterable_dataset())

    def counted() -> Iterator[Rows]:
        stream = whole.to_iterable_dataset().with_format("arrow")
        return pack(stream.map(note, with_indices=True, batched=True, batch_size=8), together=1)

    return Ready(online, counted=counted) if batch else Ready(offline)


BATCHES = "in batches"
PACKERS = [
    Packer("TRL `bfd` (default)", "trl", BATCHES, partial(prepare, strategy="bfd")),
    Packer("TRL `bfd_split`", "trl", BATCHES, partial(prepare, strategy="bfd_split")),
    Packer("TRL `bfd_split`, batches of 4,096", "trl", BATCHES, partial(prepare, strategy="bfd_split", batch=4096)),
    Packer("TRL `bfd_split`, all at once", "trl", "no", partial(prepare, strategy="bfd_split", batch=None)),
    Packer("TRL `wrapped`", "trl", BATCHES, partial(prepare, strategy="wrapped")),
    Packer("TRL `wrapped`, all at once", "trl", "no", partial(prepare, strategy="wrapped", batch=None)),
]
