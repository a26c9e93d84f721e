"""Groups of the arguments of a StepLoader, each for the class that uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from loaderd._connection import TLS
from loaderd._daemons import URLs
from loaderd.torch._ranks import RankInfo, find_rank

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The connection to the daemons of a run, as in `loaderd.Client`.

    `url` is empty for a loader that starts a private daemon.
    """

    url: URLs
    run: str | None
    job: str
    token: str | None
    tls: TLS | None
    timeout: float
    connect_timeout: float


@dataclass(frozen=True, slots=True)
class RankOptions:
    """What determines the data-parallel rank of this process, as in `find_rank`."""

    rank: int | None
    world_size: int | None
    mesh: DeviceMesh | None
    mesh_dims: Sequence[str | int] | str | int | None

    def check(self) -> None:
        """Checks the arguments, if any is given.

        Raises:
            ValueError: If the arguments are incomplete or contradict each other.
            TypeError: If the mesh is not a DeviceMesh.
        """
        if any(x is not None for x in (self.rank, self.world_size, self.mesh, self.mesh_dims)):
            self.find()

    def find(self) -> RankInfo:
        """Returns the current rank of this process, which torch.distributed determines without arguments."""
        return find_rank(self.rank, self.world_size, self.mesh, self.mesh_dims)


@dataclass(frozen=True, slots=True)
class PrefetchOptions:
    """How many batches are read ahead, and where their tensors are placed."""

    prefetch_factor: int
    device: torch.device | None
    pin_memory: bool | None

    def check(self) -> None:
        """Checks the number of batches.

        Raises:
            ValueError: If it is below 1.
        """
        if self.prefetch_factor < 1:
            raise ValueError(f"prefetch_factor {self.prefetch_factor}: want at least 1 batch")
