"""The rank and the world size that a process reads as."""

import itertools

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from loaderd._skips import Skips
from loaderd.torch import StepLoader
from loaderd.torch._ranks import check_agreement, find_rank, restart_agreements


@pytest.fixture
def group():
    """Simulates torch.distributed as process `rank` of `world`, without the other processes."""

    def init(rank: int, world: int) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())

    yield init
    if dist.is_initialized():
        dist.destroy_process_group()


def test_precedence(group):
    environ = {"RANK": "3", "WORLD_SIZE": "4"}
    assert find_rank(environ={})[:2] == (0, 1)
    assert find_rank(environ=environ)[:2] == (3, 4)
    group(5, 8)
    assert find_rank(environ=environ)[:2] == (5, 8)
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    assert find_rank(mesh=mesh, environ=environ)[:2] == (1, 2)
    assert find_rank(1, 16, environ=environ)[:2] == (1, 16)


@pytest.mark.parametrize(
    ("shape", "names", "dims", "data"),
    [
        ((8,), ("dp",), None, [0]),
        ((2, 4), ("dp", "tp"), None, [0]),
        ((2, 4), ("pp", "dp"), None, [1]),
        ((2, 4), ("dp_replicate", "dp_shard"), None, [0, 1]),
        ((2, 2, 2), ("dp_replicate", "dp_shard", "tp"), None, [0, 1]),
        ((2, 2, 2), ("pp", "dp_shard", "cp"), None, [1]),
        ((2, 2, 2), ("data", "tp", "fsdp"), None, [0, 2]),
        ((2, 4), ("data_parallel", "tensor_parallel"), None, [0]),
        ((4, 2), ("tp", "pp"), None, []),
        ((2, 4), ("rows", "heads"), ["rows"], [0]),
        ((2, 4), ("rows", "heads"), "heads", [1]),
        ((2, 4), None, [0], [0]),
        ((2, 4), None, [1, 0], [0, 1]),
        ((2, 4), ("dp", "tp"), [], []),
    ],
)
def test_mesh(group, shape, names, dims, data):
    """Processes that differ in a data-parallel coordinate have different ranks, all others share one."""
    places, readers = {}, set()
    for rank, at in enumerate(itertools.product(*map(range, shape))):
        group(rank, 8)
        place = find_rank(mesh=init_device_mesh("cpu", shape, mesh_dim_names=names), mesh_dims=dims)
        key = tuple(at[d] for d in data)
        assert places.setdefault(key, place.rank) == place.rank
        readers.add((place.rank, place.peer))
        assert place.world_size == len(set(itertools.product(*(range(shape[d]) for d in data))))
    assert list(places.values()) == list(range(len(places)))  # row-major, as torch numbers the ranks of a mesh
    assert len(readers) == 8, "processes of a rank are told apart"


def test_submesh(group):
    group(5, 8)
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    assert find_rank(mesh=mesh["dp"])[:2] == (1, 2)


def test_Place_PeerTellsProcessesOfARankApart(group):
    """With more processes than ranks the peer is the global rank, by torch.distributed or else the environment."""
    for environ, peer in (
        ({}, 0),
        ({"RANK": "5", "WORLD_SIZE": "8"}, 5),
        ({"RANK": "1", "WORLD_SIZE": "2"}, 0),
        ({"RANK": "five"}, 0),
    ):
        assert find_rank(1, 2, environ=environ).peer == peer
    group(3, 4)
    assert find_rank(environ={}).peer == 0
    assert find_rank(3, 4, environ={}).peer == 0
    assert find_rank(1, 2, environ={"RANK": "5", "WORLD_SIZE": "8"}).peer == 3
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert find_rank(mesh=mesh).peer == find_rank(mesh=mesh["dp"]).peer == 3
    assert find_rank(mesh=mesh, mesh_dims=["dp", "tp"]).peer == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"rank": 1}, "go together"),
        ({"world_size": 2}, "go together"),
        ({"rank": 2, "world_size": 2}, "0 <= rank < world"),
        ({"rank": -1, "world_size": 2}, "0 <= rank < world"),
        ({"mesh_dims": ["dp"]}, "no mesh"),
        ({"environ": {"RANK": "1"}}, "RANK is set"),
        ({"environ": {"WORLD_SIZE": "2"}}, "WORLD_SIZE is set"),
        ({"environ": {"RANK": "one", "WORLD_SIZE": "2"}}, "not numbers"),
        ({"environ": {"RANK": "2", "WORLD_SIZE": "2"}}, "RANK and WORLD_SIZE"),
    ],
)
def test_incomplete(arguments, says):
    with pytest.raises(ValueError, match=says):
        find_rank(**{"environ": {}, **arguments})


def test_mesh_that_does_not_say(group):
    group(5, 8)
    with pytest.raises(ValueError, match=r"mesh \(4, 2\).*mesh_dims="):
        find_rank(mesh=init_device_mesh("cpu", (4, 2)))
    named = init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "other"))
    with pytest.raises(ValueError, match=r"mesh \(dp=4, other=2\).*mesh_dims="):
        find_rank(mesh=named)
    for wrong in ("heads", 2, -1, ["dp", "tp"]):
        with pytest.raises(ValueError, match=r"mesh_dims has .*\['dp', 'other'\]"):
            find_rank(mesh=named, mesh_dims=wrong)
    with pytest.raises(ValueError, match="either"):
        find_rank(0, 1, mesh=named)
    with pytest.raises(ValueError, match=r"not part of the mesh \(dp=2\)"):
        find_rank(mesh=DeviceMesh("cpu", [0, 1], mesh_dim_names=("dp",)))


@pytest.mark.parametrize("mesh", [3, "dp", (2, 4), {"dp": 2}, torch.arange(8), FakeStore()])
def test_no_mesh(mesh):
    with pytest.raises(
        TypeError, match=rf"mesh=.* is of type {type(mesh).__name__}: want a .*DeviceMesh.*rank= and world_size="
    ):
        StepLoader("grpc://127.0.0.1:1", mesh=mesh)


def test_Agreement_RestartsWithTheWorldSize(monkeypatch):
    """Ranks that stay and ranks that join compare the same skips, independent of earlier comparisons."""
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    try:
        first, second = Skips.checked([(1, 2)]), Skips.checked([(1, 3)])
        restart_agreements(0, 4)
        check_agreement(first)
        check_agreement(first)
        restart_agreements(5, 2)
        check_agreement(second)
        restart_agreements(5, 2)  # as another rank, which has joined
        with pytest.raises(ValueError, match=r"skips the steps \[\[1, 2\]\], another rank \[\[1, 3\]\]"):
            check_agreement(first)
    finally:
        dist.destroy_process_group()
