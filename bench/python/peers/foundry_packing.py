"""LLM Foundry: `BinPackCollator` around a collator that pads, on the batches of a data loader.

Its `packing_ratio` determines how many documents make a batch of rows. It is the largest one that drops no documents,
either of the twenty that its `auto` tries, or of all tenths. It accepts no document longer than a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

import single
from documents import Documents
from packers import Packer, Ready, Rows, rectangle

BATCH = 64  # rows


def batches(pieces: Iterable[Any], count: int) -> Iterator[list[Any]]:
    """Yields `count` of the pieces at a time."""
    rest = iter(pieces)
    while batch := list(islice(rest, count)):
        yield batch


def prepare(documents: Documents, row: int, *, fine: bool) -> Ready:
    import torch

    packing = single.load(
        "llm-foundry",
        "llmfoundry/data/packing.py",
        {
            "composer.utils": {"dist": None},
            "llmfoundry.utils.consts": {"CROSS_ENTROPY_IGNORE_INDEX": -100},
        },
    )
    sizes = np.diff(documents.pieces(row)).tolist()

    def pad(examples: list[np.ndarray]) -> dict[str, Any]:
        ids = np.zeros((len(examples), row), dtype=np.int32)
        mask = np.zeros((len(examples), row), dtype=np.int8)
        for i, example in enumerate(examples):
            ids[i, : len(example)], mask[i, : len(example)] = example, 1
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}

    def collator(profiling: bool) -> Any:
        return packing.BinPackCollator(pad, BATCH, row, 0, "right", is_profiling=profiling)

    def profile(ratio: float, pieces: list[int]) -> Any:
        packer = collator(profiling=True)
        for batch in batches(pieces, int(BATCH * ratio)):
            if len(batch) >= BATCH:  # as its own profiling does
                packer._pack_trimmed_examples([{}] * len(batch), batch)
        return packer

    def largest(ratios: np.ndarray) -> float:
        fits = [r for r in ratios if r <= row / np.mean(sizes)]
        return next(r for r in reversed(fits) if profile(r, sizes[:100_000]).waste == 0)

    ratio = largest(np.arange(10, 300) / 10 if fine else np.round(np.linspace(1, row / 100, 20), 1))

    def rows() -> Iterator[Rows]:
        packer = collator(profiling=False)
        for batch in batches(documents.arrive(row), int(BATCH * ratio)):
            yield rectangle(packer(batch)["input_ids"].numpy())

    return Ready(rows, alone=lambda: profile(ratio, sizes), note=f"{ratio:.1f}")


PACKERS = [
    Packer("LLM Foundry, ratio `auto`", "llm-foundry", "yes", partial(prepare, fine=False)),
    Packer("LLM Foundry, ratio tuned", "llm-foundry", "yes", partial(prepare, fine=True)),
]
