"""Determines which rows of a step a process reads: its data-parallel rank and their number.

Processes that hold parts of one model replica (tensor, pipeline, context or expert parallel peers) need the same rows,
so they share a rank.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch.distributed as dist

from loaderd._skips import Skips

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

# Names of data-parallel mesh dimensions in PyTorch, torchtitan, Lightning, Accelerate and Megatron.
DATA_PARALLEL = frozenset(
    "dp ddp fsdp hsdp data data_parallel dp_replicate dp_shard ddp_replicate fsdp_shard replicate shard batch".split()
)
# Names of dimensions whose processes read the same rows.
MODEL_PARALLEL = frozenset(
    "tp pp cp sp ep etp model tensor pipeline context sequence expert model_parallel tensor_parallel pipeline_parallel "
    "context_parallel sequence_parallel expert_parallel".split()
)


class RankInfo(NamedTuple):
    """The rows that this process reads: [rank*R/world_size, (rank+1)*R/world_size) of a step of R rows.

    Attributes:
        rank: The data-parallel rank.
        world_size: The number of ranks.
        source: Where both were found.
        peer: Distinguishes the processes of a rank: the process's global rank if more processes than ranks exist, else
            0.
    """

    rank: int
    world_size: int
    source: str
    peer: int = 0


_agreements = itertools.count()
_agreement_prefix = "loaderd/skip/"


def check_agreement(skips: Skips) -> None:
    """Checks that all ranks of torch.distributed skip the same steps; does not wait for them.

    Every rank calls it equally often. The first one stores its skips in the store of the process group.

    Raises:
        ValueError: If another rank has stored other skips for this call.
    """
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return
    mine = json.dumps(skips.ranges)
    store = dist.distributed_c10d._get_default_store()
    first = store.compare_set(f"{_agreement_prefix}{next(_agreements)}", "", mine).decode()
    if first not in ("", mine):
        raise ValueError(
            f"rank {dist.get_rank()} skips the steps {mine}, another rank {first}: skip the same steps on every rank, "
            "at the same step"
        )


def restart_agreements(step: int, world_size: int) -> None:
    """Counts the calls of `check_agreement` anew, as joined ranks do, after a change of the world size at a step."""
    global _agreements, _agreement_prefix
    _agreements, _agreement_prefix = itertools.count(), f"loaderd/skip/{step}/{world_size}/"


def find_rank(
    rank: int | None = None,
    world_size: int | None = None,
    mesh: DeviceMesh | None = None,
    mesh_dims: Sequence[str | int] | str | int | None = None,
    environ: Mapping[str, str] = os.environ,
) -> RankInfo:
    """Returns the rank from the first available of several places.

    They are `rank` and `world_size`, the mesh, torch.distributed, and RANK and WORLD_SIZE. Otherwise it is the only
    rank.

    Args:
        rank: The data-parallel rank.
        world_size: The number of ranks.
        mesh: A device mesh.
        mesh_dims: The mesh's data-parallel dimensions by name or number; by default they are found by their names.
        environ: The environment.

    Raises:
        ValueError: If the first available place is incomplete.
        TypeError: If the mesh is not a DeviceMesh.
    """
    if mesh is None and mesh_dims is not None:
        raise ValueError("mesh_dims names dimensions of a mesh, but there is no mesh: give mesh= too")
    if rank is not None or world_size is not None:
        if mesh is not None:
            raise ValueError("give either rank and world_size, or a mesh")
        if rank is None or world_size is None:
            raise ValueError(f"rank and world_size go together, got rank={rank}, world_size={world_size}")
        return _among(_checked(rank, world_size, "rank= and world_size="), environ)
    if mesh is not None:
        return _among(_of_mesh(mesh, mesh_dims), environ)
    if dist.is_available() and dist.is_initialized():
        return _checked(dist.get_rank(), dist.get_world_size(), "torch.distributed")
    return _of_environment(environ)


def _among(place: RankInfo, environ: Mapping[str, str]) -> RankInfo:
    """Returns the place with this process's global rank as peer, from torch.distributed or the environment."""
    if dist.is_available() and dist.is_initialized():
        number, processes = dist.get_rank(), dist.get_world_size()
    else:
        try:
            number, processes = _of_environment(environ)[:2]
        except ValueError:
            return place
    return place._replace(peer=number) if processes > place.world_size else place


def _of_environment(environ: Mapping[str, str]) -> RankInfo:
    texts = {name: environ[name] for name in ("RANK", "WORLD_SIZE") if environ.get(name)}
    if not texts:
        return RankInfo(0, 1, "default")
    if len(texts) == 1:
        (name,) = texts
        raise ValueError(f"{name} is set in the environment without the other of RANK and WORLD_SIZE: set both")
    try:
        rank, world_size = int(texts["RANK"]), int(texts["WORLD_SIZE"])
    except ValueError:
        raise ValueError(f"RANK and WORLD_SIZE of the environment are not numbers: {texts}") from None
    return _checked(rank, world_size, "RANK and WORLD_SIZE")


def _of_mesh(mesh: DeviceMesh, chosen: Sequence[str | int] | str | int | None) -> RankInfo:
    """Returns the row-major place in the data-parallel dimensions, in the mesh's order."""
    if not all(hasattr(mesh, part) for part in ("mesh", "mesh_dim_names", "get_coordinate")):
        raise TypeError(
            f"mesh={mesh!r:.100} is of type {type(mesh).__name__}: want a torch.distributed.device_mesh.DeviceMesh, "
            "such as "
            'init_device_mesh("cuda", (8, 4), mesh_dim_names=("dp", "tp")); give numbers as rank= and world_size='
        )
    names = mesh.mesh_dim_names or ()
    shape = tuple(mesh.mesh.shape)
    dims = _chosen(names, len(shape), chosen) if chosen is not None else _data_parallel(names, shape)
    at = mesh.get_coordinate()
    if at is None:
        raise ValueError(f"this process is not part of the mesh {_described(names, shape)}")
    rank = 0
    for d in dims:
        rank = rank * shape[d] + at[d]
    return _checked(rank, math.prod(shape[d] for d in dims), f"mesh {_described(names, shape)}")


def _data_parallel(names: tuple[str, ...], shape: tuple[int, ...]) -> list[int]:
    unknown = [n for n in names if n not in DATA_PARALLEL | MODEL_PARALLEL]
    if not names or unknown:
        raise ValueError(
            f"cannot determine the data-parallel dimensions of the mesh {_described(names, shape)} from their names: "
            'list them in mesh_dims=, as in mesh_dims=["dp"]; an empty list means that all processes read the same rows'
        )
    return [d for d, n in enumerate(names) if n in DATA_PARALLEL]


def _chosen(names: tuple[str, ...], n: int, chosen: Sequence[str | int] | str | int) -> list[int]:
    if isinstance(chosen, (str, int)):
        chosen = [chosen]
    dims = set()
    for c in chosen:
        if isinstance(c, int) and 0 <= c < n:
            dims.add(c)
        elif isinstance(c, str) and c in names:
            dims.add(names.index(c))
        else:
            raise ValueError(f"mesh_dims has {c!r}, the mesh has the dimensions {list(names) or list(range(n))}")
    return sorted(dims)


def _described(names: tuple[str, ...], shape: tuple[int, ...]) -> str:
    sizes = [f"{n}={s}" for n, s in zip(names, shape, strict=True)] if names else [str(s) for s in shape]
    return f"({', '.join(sizes)})"


def _checked(rank: int, world_size: int, source: str) -> RankInfo:
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size} (from {source}): want 0 <= rank < world_size")
    return RankInfo(rank, world_size, source)
