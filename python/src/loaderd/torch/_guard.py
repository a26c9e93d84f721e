"""Errors of a loader that is used where it cannot be used."""

from __future__ import annotations

import sys

import torch.distributed as dist
from torch.utils.data import get_worker_info

from loaderd.errors import ClosedClientError
from loaderd.torch._ranks import RankInfo


class ProcessGuard:
    """Checks before each use that the loader is open, and that this process may read.

    Attributes:
        closed: Whether the loader was closed.
        rank_info: The rank whose rows are being read; None while nothing is read.
    """

    def __init__(self) -> None:
        self.closed = False
        self.rank_info: RankInfo | None = None

    def check(self) -> None:
        """Checks the process.

        Raises:
            ClosedClientError: If the loader was closed.
            RuntimeError: In a worker of a DataLoader, and if torch.distributed was initialized after the loader had
                started to read as the only rank.
        """
        if self.closed:
            raise ClosedClientError("the loader is closed")
        if get_worker_info() is not None:
            raise RuntimeError(
                "a StepLoader in a DataLoader worker would read every step once per worker: it already prefetches in a "
                "thread, so give the DataLoader num_workers=0"
            )
        alone = self.rank_info is not None and self.rank_info.source == "default"
        if alone and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            raise RuntimeError(
                "the loader started reading as the only rank, before torch.distributed was initialised: start after "
                "init_process_group, or give rank= and world_size="
            )

    def check_caller(self) -> None:
        """Checks that the caller's caller, which requests an iterator, is not a DataLoader that makes batches itself.

        Raises:
            TypeError: If it is.
        """
        caller = sys._getframe(2).f_locals.get("self")
        if getattr(caller, "auto_collation", False) is True:  # torch's _IterableDatasetFetcher
            raise TypeError(
                "a DataLoader with a batch_size would make batches of batches: a StepLoader already yields batches, "
                "whose rows the run's setting steps.rows determines. Give the DataLoader batch_size=None, or iterate "
                "over the StepLoader itself"
            )
