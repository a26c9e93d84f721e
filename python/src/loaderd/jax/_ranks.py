"""Which rows of a step each process reads for the devices of a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from jax.sharding import NamedSharding

from loaderd.errors import WorldMismatchError


@dataclass(frozen=True, slots=True)
class Rank:
    """Adjacent rows that a process reads: part `rank` of `world_size` equal parts of every step's rows.

    Attributes:
        rank: The number of the part.
        world_size: The number of parts, the same in all processes.
        peer: The number of this process among those that read the part.
    """

    rank: int
    world_size: int
    peer: int


def shards_of(sharding: NamedSharding) -> tuple[int, int]:
    """Returns the number of shards of the rows and of the tokens of a row.

    Raises:
        ValueError: If the PartitionSpec is not for two dimensions.
    """
    if len(sharding.spec) > 2:
        raise ValueError(f"{sharding.spec}: want a PartitionSpec for [rows, L]")
    names = [() if a is None else (a,) if isinstance(a, str) else a for a in (*sharding.spec, None, None)]
    rows, tokens = (prod(sharding.mesh.shape[axis] for axis in axes) for axes in names[:2])
    return rows, tokens


def ranks_of(sharding: NamedSharding, process: int) -> list[Rank]:
    """Returns the ranks that a process reads as, ascending: one if the rows of its devices are adjacent.

    A rank has as many row shards as possible, so that the devices of each process use whole ranks.

    Args:
        sharding: The sharding of [rows, L].
        process: The index of the process.

    Raises:
        ValueError: If no device of the mesh is in the process.
    """
    shards, tokens = shards_of(sharding)
    used: dict[int, set[int]] = {}  # row shards by process
    for device, (rows, _) in sharding.devices_indices_map((shards, tokens)).items():
        used.setdefault(device.process_index, set()).add(rows.start or 0)
    if process not in used:
        raise ValueError(f"no device of the mesh {sharding.mesh} is in process {process}, which therefore has no rows")
    each = next(
        n
        for n in range(shards, 0, -1)
        if shards % n == 0 and all(len(rows) == n * len({row // n for row in rows}) for rows in used.values())
    )
    return [
        Rank(rank, shards // each, sum(rank * each in rows for other, rows in used.items() if other < process))
        for rank in sorted({row // each for row in used[process]})
    ]


def check_rows(rows: int, bucket: int, shards: int) -> None:
    """Checks that the row shards have equal numbers of rows.

    Raises:
        WorldMismatchError: If they have not.
    """
    if rows % shards:
        raise WorldMismatchError(
            f"cannot divide the {rows} rows of a step of bucket {bucket} among {shards} shards of the mesh"
        )
