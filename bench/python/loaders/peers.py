"""Widely used loaders of prepacked rows. Each reads the same rows from its own format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Subset

from data import LENGTH, ROWS

Batches = Iterator[torch.Tensor]


def rows_of(folder: Path) -> np.memmap:
    return np.memmap(folder / "rows.bin", np.uint16, "r").reshape(-1, LENGTH)


@dataclass(frozen=True)
class Peer:
    name: str
    prepare: Callable[[Path], None]
    open: Callable[[Path, int, int], Batches]
    """Batches of int64 [ROWS / world, LENGTH] of a rank."""


# ---- A memory-mapped file.


class Mapped(Dataset[torch.Tensor]):
    """One row of the file, as int64."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: np.ndarray | None = None
        self.count = path.stat().st_size // (2 * LENGTH)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rows is None:
            self.rows = np.memmap(self.path, np.uint16, "r").reshape(-1, LENGTH)
        return torch.from_numpy(self.rows[index].astype(np.int64))


def part(rank: int, world: int, rows: int) -> list[int]:
    """Returns the rows of a rank, step by step."""
    each = ROWS // world
    return [step + i for step in range(0, rows, ROWS) for i in range(rank * each, (rank + 1) * each)]


def mapped(workers: int) -> Callable[[Path, int, int], Batches]:
    def open_it(folder: Path, rank: int, world: int) -> Batches:
        whole = Mapped(folder / "rows.bin")
        return iter(
            DataLoader(Subset(whole, part(rank, world, len(whole))), batch_size=ROWS // world, num_workers=workers)
        )

    return open_it


# ---- Hugging Face datasets.


def write_arrow(folder: Path) -> None:
    import datasets
    import pyarrow as pa

    datasets.disable_progress_bars()
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows_of(folder).reshape(-1)), LENGTH)
    datasets.Dataset(pa.table({"input_ids": column})).save_to_disk(str(folder / "arrow"))


def arrow(workers: int) -> Callable[[Path, int, int], Batches]:
    def open_it(folder: Path, rank: int, world: int) -> Batches:
        import datasets

        whole = datasets.load_from_disk(str(folder / "arrow")).with_format("torch")
        mine = whole if world == 1 else Subset(whole, part(rank, world, len(whole)))
        return (batch["input_ids"] for batch in DataLoader(mine, batch_size=ROWS // world, num_workers=workers))

    return open_it


# ---- MosaicML Streaming.


def write_shards(folder: Path) -> None:
    import streaming

    with streaming.MDSWriter(
        out=str(folder / "mds"), columns={"input_ids": f"ndarray:uint16:{LENGTH}"}, size_limit=64 << 20
    ) as out:
        for row in rows_of(folder):
            out.write({"input_ids": np.ascontiguousarray(row)})


def mosaic(workers: int) -> Callable[[Path, int, int], Batches]:
    def open_it(folder: Path, rank: int, world: int) -> Batches:
        import streaming

        streaming.base.util.clean_stale_shared_memory()
        shards = streaming.StreamingDataset(
            local=str(folder / "mds"), shuffle=False, batch_size=ROWS // world, num_canonical_nodes=1
        )
        loader = streaming.StreamingDataLoader(shards, batch_size=ROWS // world, num_workers=workers)
        return (batch["input_ids"].to(torch.int64) for batch in loader)

    return open_it


# ---- LitData.


def write_chunks(folder: Path) -> None:
    from litdata import TokensLoader
    from litdata.streaming import Cache

    cache = Cache(str(folder / "litdata"), chunk_bytes=64 << 20, item_loader=TokensLoader(block_size=LENGTH))
    for index, row in enumerate(rows_of(folder)):
        cache[index] = torch.from_numpy(row.astype(np.int32))
    cache.done()
    cache.merge()


def litdata(workers: int) -> Callable[[Path, int, int], Batches]:
    def open_it(folder: Path, rank: int, world: int) -> Batches:
        from litdata import StreamingDataLoader, StreamingDataset, TokensLoader

        chunks = StreamingDataset(str(folder / "litdata"), item_loader=TokensLoader(block_size=LENGTH), shuffle=False)
        loader = StreamingDataLoader(chunks, batch_size=ROWS // world, num_workers=workers)
        return (batch.to(torch.int64) for batch in loader)

    return open_it


def nothing(folder: Path) -> None:
    """Does nothing: the file exists already."""


PEERS = (
    Peer("DataLoader, memory-mapped file, 2 workers", nothing, mapped(2)),
    Peer("DataLoader, memory-mapped file, 0 workers", nothing, mapped(0)),
    Peer("Hugging Face datasets, torch format, 2 workers", write_arrow, arrow(2)),
    Peer("MosaicML StreamingDataset, 2 workers", write_shards, mosaic(2)),
    Peer("LitData StreamingDataset, 2 workers", write_chunks, litdata(2)),
)
BASELINE = PEERS[0].name


def environment(rank: int, world: int, port: int) -> dict[str, str]:
    """Returns the variables from which the loaders determine their rank."""
    return os.environ | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
