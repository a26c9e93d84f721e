"""Buffers: referenced ones are never overwritten, released ones are reused."""

import gc
import pickle
import random
import threading

import numpy as np
import pytest
import torch

from loaderd.torch._buffers import Buffers
from scale import share

SHAPE = (4, 64, torch.int64)
BYTES = 4 * 64 * 8


def address(tensor):
    return tensor.untyped_storage().data_ptr()


def test_released_memory_is_used_again():
    buffers = Buffers(keep=4)
    tensor = buffers.take(*SHAPE)
    first = address(tensor)
    del tensor
    for _ in range(100):
        tensor = buffers.take(*SHAPE)
        assert address(tensor) == first
        del tensor
    assert buffers.allocated == BYTES


def saved_by_autograd(tensor):
    weight = torch.ones(64, requires_grad=True)
    table = torch.ones(5, 1, requires_grad=True)
    return (tensor.float() * weight).sum() + torch.nn.functional.embedding(tensor, table).sum()


@pytest.mark.parametrize(
    "hold",
    [
        lambda t: t,
        lambda t: t[1],
        lambda t: t[:, 3:4].t(),
        lambda t: t.view(-1).detach(),
        lambda t: t.numpy(),
        lambda t: t.numpy()[2:3],
        lambda t: memoryview(t.numpy()),
        lambda t: t.untyped_storage(),
        lambda t: torch.from_dlpack(t),
        lambda t: np.from_dlpack(t),
        lambda t: torch.utils.data.default_convert({"a": [t]}),
        lambda t: t.unbind(0)[3],
        lambda t: t.view(torch.uint8),
        saved_by_autograd,
    ],
)
def test_whatever_holds_the_memory_keeps_it(hold):
    buffers = Buffers()
    tensor = buffers.take(*SHAPE)
    tensor.fill_(3)
    first = address(tensor)
    held = hold(tensor)
    del tensor
    gc.collect()
    others = [buffers.take(*SHAPE) for _ in range(3)]
    assert first not in {address(o) for o in others}
    del others, held
    gc.collect()
    assert first in {address(t) for t in [buffers.take(*SHAPE) for _ in range(4)]}


def test_copies_do_not():
    buffers = Buffers()
    tensor = buffers.take(*SHAPE)
    first = address(tensor)
    kept = [tensor.clone(), pickle.loads(pickle.dumps(tensor)), tensor.to(torch.int32), tensor + 0, tensor.tolist()]
    del tensor
    assert address(buffers.take(*SHAPE)) == first and kept


def test_no_more_than_keep_stay():
    buffers = Buffers(keep=2)
    many = [buffers.take(*SHAPE) for _ in range(9)]
    assert buffers.allocated == 9 * BYTES
    del many
    many = [buffers.take(*SHAPE) for _ in range(9)]
    assert buffers.allocated == 16 * BYTES
    assert len({address(t) for t in many}) == 9


def test_every_size_for_itself():
    buffers = Buffers()
    shapes = [(2, 32, torch.int64), (4, 32, torch.int64), (2, 32, torch.int32)]
    first = [address(buffers.take(*s)) for s in shapes]
    assert [address(buffers.take(*s)) for s in shapes] == first
    assert address(buffers.take(4, 32, torch.int32)) == first[0]  # the same size in bytes
    assert buffers.allocated == (64 + 128) * 8 + 64 * 4
    tensor = buffers.take(4, 16, torch.int32)
    assert (tensor.shape, tensor.dtype, tensor.is_contiguous()) == ((4, 16), torch.int32, True)


def test_buffers_may_go_before_their_tensors():
    buffers = Buffers()
    tensor = buffers.take(*SHAPE).fill_(5)
    del buffers
    gc.collect()
    assert bool((tensor == 5).all())


def test_random_holders_in_threads():
    """Tensors and views are held and dropped at random in four threads: what a holder wrote is unchanged until it is
    dropped."""
    buffers = Buffers(keep=3)
    failures = []

    def work(seed):
        rng = random.Random(seed)
        held = []
        for i in range(share(3000, 4)):
            tensor = buffers.take(2, 8, torch.int64).fill_(seed * 10_000 + i)
            held.append((tensor[rng.randrange(2)], seed * 10_000 + i))
            del tensor
            while len(held) > rng.randrange(6):
                view, value = held.pop(rng.randrange(len(held)))
                if not bool((view == value).all()):
                    failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert buffers.allocated < 3000 * 2 * 8 * 8  # most of the 12,000 were reused


def test_hold():
    values = np.arange(5, dtype=np.int32)
    tensor = Buffers().hold(values)
    assert tensor.tolist() == [0, 1, 2, 3, 4] and tensor.dtype == torch.int32
