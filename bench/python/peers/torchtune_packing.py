"""torchtune: `PackedDataset`, next fit. It accepts no document longer than a row unless it may split any document."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import single
from documents import Documents
from packers import Packer, Ready, Rows, rectangle


def prepare(documents: Documents, row: int, *, split: bool) -> Ready:
    constants = single.load("torchtune", "torchtune/data/_common.py", {})
    packed = single.load(
        "torchtune",
        "torchtune/datasets/_packed.py",
        {
            "torchtune.data._common": {
                name: getattr(constants, name) for name in ("CROSS_ENTROPY_IGNORE_IDX", "PACK_TYPE")
            },
        },
    )
    longest = int(documents.lengths.max()) if split else row
    count = len(documents.pieces(longest)) - 1

    class Source:
        def __len__(self) -> int:
            return count

        def __iter__(self) -> Iterator[dict[str, list[int]]]:
            for piece in documents.arrive(longest):
                tokens = piece.tolist()
                yield {"tokens": tokens, "labels": tokens}

    def rows() -> Iterator[Rows]:
        whole: Any = packed.PackedDataset(Source(), max_seq_len=row, padding_idx=0, split_across_pack=split)
        return (rectangle(whole[i]["tokens"].numpy()[np.newaxis]) for i in range(len(whole)))

    return Ready(rows)


PACKERS = [
    Packer("torchtune", "torchtune", "no", partial(prepare, split=False), limit=10_000),
    Packer("torchtune, `split_across_pack`", "torchtune", "no", partial(prepare, split=True), limit=10_000),
]
