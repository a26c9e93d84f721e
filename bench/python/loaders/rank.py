"""One rank of the benchmark: a process that opens loaders and reads from them on command, with one JSON object per
line.

    rank.py FOLDER RANK WORLD

`open` answers when the first batches are read, and `read` begins immediately, so that ranks start together.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from peers import PEERS

FIELDS = {"StepLoader, input_ids": ["input_ids"], "StepLoader, all fields": None}


class Rank:
    def __init__(self, folder: Path, rank: int, world: int) -> None:
        self.folder, self.rank, self.world = folder, rank, world
        self.batches: Iterator[torch.Tensor] = iter(())
        self.close = lambda: None

    def ready(self) -> dict[str, Any]:
        """Imports the modules of the first batch, so that no daemon plans ahead meanwhile."""
        import pandas  # noqa: F401 - pyarrow does, with the first array

        import loaderd.torch  # noqa: F401

        return {}

    def open(self, loader: str, url: str = "", warm: int = 0) -> dict[str, Any]:
        if loader in FIELDS:
            from loaderd.torch import StepLoader

            steps = StepLoader(url, rank=self.rank, world_size=self.world, fields=FIELDS[loader], timeout=60)
            self.batches = (batch["input_ids"] for batch in steps)
            self.close = steps.close
        else:
            self.batches = next(p for p in PEERS if p.name == loader).open(self.folder, self.rank, self.world)
            self.close = lambda: None
        for batch in islice(self.batches, warm):
            assert batch.dtype == torch.int64, batch.dtype
        return {}

    def read(self, steps: int) -> dict[str, Any]:
        tokens, began = 0, time.monotonic()
        for batch in islice(self.batches, steps):
            tokens += batch.numel()
        return {"tokens": tokens, "began": began, "ended": time.monotonic()}

    def check(self) -> dict[str, Any]:
        """Returns an order-independent checksum of all rows, to compare loaders."""
        weights = torch.arange(1, 2049, dtype=torch.int64)
        sums = np.sort(np.concatenate([(b * weights).sum(1).numpy() for b in self.batches]))
        return {"rows": len(sums), "sum": int(sums.sum() % (1 << 53)), "xor": int(np.bitwise_xor.reduce(sums))}

    def done(self) -> dict[str, Any]:
        self.batches = iter(())
        self.close()
        return {}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # redirects the output of libraries
    torch.set_num_threads(1)
    rank = Rank(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(rank, command.pop("do"))(**command)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
