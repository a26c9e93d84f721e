"""StepLoader and a CUDA device: copies during computation, attention kernels, graphs, the example. Without a device
all of it is skipped."""

import re

import pytest
import torch
from torch.nn import functional as F

from jobs import losses, run
from loaderd import Client
from loaderd.torch import StepLoader, _device
from loaderd.torch._device import to_device
from loaderd.torch.masks import block_mask, dense_mask, document_mask_mod, varlen
from synthetic import assert_same
from test_masks import attend_dense
from test_masks import attend_varlen as segment_by_segment
from tokenized import SETTINGS, documents, publish_tokens

flex = pytest.importorskip("torch.nn.attention.flex_attention")
kernels = pytest.importorskip("torch.nn.attention.varlen")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LATE = 4_000_000  # cycles that a stream is kept busy: about 2 ms
HEADS, SIZE = 4, 64


@pytest.fixture(scope="module")
def sealed(module_daemon):
    """A sealed run of about 100 steps, with rows that no block of an attention kernel divides and rows of whole
    blocks."""
    d = module_daemon({**SETTINGS, "packing.buckets": "192,512", "steps.rows": 8})
    publish_tokens(d.nats_url, documents(6000))
    with Client(d.flight_url) as client:
        client.seal()
    return d


@pytest.fixture(scope="module")
def on_host(sealed):
    with StepLoader(sealed.flight_url, pin_memory=False) as loader:
        return list(loader)


def to_host(batch):
    return to_device(batch, torch.device("cpu"))


def copied(batch):
    """Returns a copy of the batch in separate memory, as the results of a model are."""
    return {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in batch.items()}


def test_batches_on_the_device_are_those_on_the_host(sealed, on_host):
    with StepLoader(sealed.flight_url, device="cuda") as loader:
        for got, want in zip(loader, on_host, strict=True):
            assert {v.device for v in got.values() if isinstance(v, torch.Tensor)} == {torch.device("cuda", 0)}
            assert_same(to_host(got), want)


def test_a_device_that_is_behind_sees_every_batch_whole(sealed, on_host):
    """The loader continues while the device still computes with older batches, whose memory is not reused until
    then."""
    seen = []
    with StepLoader(sealed.flight_url, device="cuda") as loader:
        for batch in loader:
            torch.cuda._sleep(LATE)
            seen.append(copied(batch))
            del batch
    for got, want in zip(seen, on_host, strict=True):
        assert_same(to_host(got), want)


def test_copies_that_are_late_are_waited_for(sealed, on_host, monkeypatch):
    """Only the device waits for late copies, and the host's memory is not reused before they are done."""
    move = _device.to_device

    def late(*args, **options):
        torch.cuda._sleep(LATE)
        return move(*args, **options)

    monkeypatch.setattr(_device, "to_device", late)
    with StepLoader(sealed.flight_url, device="cuda") as loader:
        seen = [copied(batch) for batch in loader]
    for got, want in zip(seen, on_host, strict=True):
        assert_same(to_host(got), want)


def test_nothing_waits_for_the_device(sealed, on_host):
    """Neither a batch nor its masks synchronize: an operation that would is an error."""
    torch.ones(1, device="cuda")  # initializes the device
    with StepLoader(sealed.flight_url, device="cuda") as loader:
        next(loader)
        torch.cuda.set_sync_debug_mode("error")
        try:
            for batch in loader:
                block_mask(batch["segment_ids"])
                dense_mask(batch["segment_ids"])
                varlen(batch)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert loader.step == len(on_host)


def test_host_memory_is_pinned(sealed, on_host):
    """By default, if a device is available: copies from pinned memory are asynchronous."""
    for options, pinned in (
        ({}, True),
        ({"pin_memory": True}, True),
        ({"pin_memory": False}, False),
        ({"device": "cpu"}, False),
    ):
        with StepLoader(sealed.flight_url, **options) as loader:
            batch = next(loader)
            assert {v.is_pinned() for v in batch.values() if isinstance(v, torch.Tensor)} == {pinned}
            assert_same(batch, on_host[0])


def attend_flex(batch):
    mask, compiled = block_mask(batch["segment_ids"]), torch.compile(flex.flex_attention, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def attend_varlen(batch):
    arguments = varlen(batch, names="torch")

    def attend(q, k, v):
        rows, heads, length, size = q.shape
        flat = [t.transpose(1, 2).reshape(rows * length, heads, size) for t in (q, k, v)]
        return kernels.varlen_attn(*flat, **arguments).unflatten(0, (rows, length)).transpose(1, 2)

    return attend


@pytest.mark.parametrize(
    ("attention", "kind", "error"),
    [
        (attend_dense, torch.float32, 1e-4),
        (attend_flex, torch.float32, 5e-3),
        (attend_flex, torch.bfloat16, 3e-2),
        (attend_varlen, torch.bfloat16, 3e-2),
    ],
)
def test_kernels_stay_within_documents(sealed, on_host, attention, kind, error):
    """Outputs and gradients are those of every document alone, in 64 bits."""
    by_length = {b["input_ids"].shape[1]: b for b in on_host}
    assert set(by_length) == {192, 512}
    for batch in by_length.values():
        batch = to_device(batch, torch.device("cuda"))
        rows, length = batch["input_ids"].shape
        torch.manual_seed(0)
        exact = [torch.randn(rows, HEADS, length, SIZE, device="cuda", dtype=torch.float64) for _ in range(3)]
        inputs = [[t.to(dtype, copy=True).requires_grad_() for t in exact] for dtype in (torch.float64, kind)]
        weights = torch.randn(rows, HEADS, length, SIZE, device="cuda", dtype=torch.float64)
        want, got = segment_by_segment(batch)(*inputs[0]), attention(batch)(*inputs[1])
        for out in (want, got):
            (out * weights.to(out.dtype)).sum().backward()
        for a, b in [(got, want), *((x.grad, y.grad) for x, y in zip(inputs[1], inputs[0], strict=True))]:
            assert (a.double() - b).norm() / b.norm() < error


def test_block_masks_are_those_of_torch(on_host):
    for batch in on_host[:20]:
        segments = batch["segment_ids"].cuda()
        rows, length = segments.shape
        got = block_mask(segments)
        want = flex.create_block_mask(document_mask_mod(segments), rows, None, length, length, device="cuda")
        assert torch.equal(got.to_dense(), want.to_dense())


def test_a_graph_is_captured_while_the_loader_reads(sealed, on_host):
    """The loader's thread pins memory and copies meanwhile, which a capture restricted to this thread permits."""
    weight = torch.randn(SETTINGS["tokenizer.vocab_size"], 32, device="cuda")

    def model(ids):
        return F.embedding(ids, weight).relu().sum(-1)

    graphs, static = {}, {}
    with StepLoader(sealed.flight_url, device="cuda", prefetch_factor=8) as loader:
        for batch, want in zip(loader, on_host, strict=True):
            ids = batch["input_ids"]
            if ids.shape not in graphs:
                static[ids.shape] = ids.clone()
                model(static[ids.shape])
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    out = model(static[ids.shape])
                graphs[ids.shape] = graph, out
            graph, out = graphs[ids.shape]
            static[ids.shape].copy_(ids)
            graph.replay()
            assert torch.equal(out, model(want["input_ids"].cuda()))
    assert len(graphs) == 2


@pytest.mark.parametrize("compiled", [(), ("--compile",)], ids=["", "compiled"])
def test_the_example_resumes(sealed, tmp_path, compiled):
    """A stopped and restarted example continues as without an interruption, except for the kernels' order of
    additions."""
    args = ("train.py", "--url", sealed.flight_url, "--width", 64, "--layers", 1, "--heads", 2, *compiled)
    undisturbed = losses(run(*args, "--steps", 30))
    saving = (*args, "--checkpoint", tmp_path / "run.pt", "--save-every", 10)
    run(*saving, "--steps", 13)
    lines = run(*saving, "--steps", 30)
    begin = int(re.match(r"resumed at step (\d+)\n", lines)[1])
    got = losses(lines)
    assert list(got) == list(range(begin + 1, 31))
    assert got == pytest.approx({step: undisturbed[step] for step in got}, rel=1e-3)
