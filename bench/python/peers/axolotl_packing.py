"""Axolotl: `MultipackBatchSampler` on the lengths, with its defaults.

It returns indices; the rows are joined as its collator joins them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

import single
from documents import Documents
from packers import Packer, Ready, Rows


def prepare(documents: Documents, row: int) -> Ready:
    from torch.utils.data import SequentialSampler

    multipack = single.load(
        "axolotl",
        "axolotl/utils/samplers/multipack.py",
        {
            "axolotl.utils.distributed": {"reduce_and_broadcast": None},
            "axolotl.utils.logging": {"get_logger": logging.getLogger},
        },
    )
    offsets = documents.pieces(row)

    def sampler(sizes: np.ndarray) -> Any:
        return multipack.MultipackBatchSampler(
            SequentialSampler(range(len(sizes))),
            batch_size=1,
            batch_max_len=row,
            lengths=sizes,
            bin_size=200,
            drop_last=False,
        )

    def pack() -> Any:
        return sampler(np.diff(offsets)).generate_batches()

    def rows() -> Iterator[Rows]:
        documents.arrived = len(documents)
        bounds = offsets.tolist()
        for batch in pack():
            for indices in batch:
                joined = np.concatenate([documents.tokens[bounds[i] : bounds[i + 1]] for i in indices])
                yield joined, np.array([len(joined)])

    sampler(np.array([row, 1, 1])).generate_batches()  # compiled once
    return Ready(rows, alone=pack)


PACKERS = [Packer("Axolotl multipack", "axolotl", "no", prepare)]
