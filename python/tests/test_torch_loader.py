"""StepLoader in one process, against the real daemon."""

import contextlib
import copy
import dataclasses
import gc
import json
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
import tracemalloc
import warnings

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import DataLoader

from loaderd import (
    Client,
    ClosedClientError,
    ForkedClientError,
    PlanMismatchError,
    RankBehindError,
    RunMismatchError,
    RunReplacedError,
    SourceDryError,
    UnavailableError,
    UnreachableError,
    WorldMismatchError,
)
from loaderd._loader_state import LoaderState, check_state
from loaderd.torch import StepLoader
from loaderd.torch._batch import FIELDS, BatchFormat, make_batch
from loaderd.torch._buffers import Buffers
from rank_processes import row_digests
from synthetic import assert_same, obvious_batch, random_rows, step_of_rows
from tokenized import SETTINGS, VOCABULARY, documents, publish_tokens
from waiting import client_threads, no_thread_is_left, wait_for

END = VOCABULARY - 1
TOKENS = documents(900)
BIG = {
    **SETTINGS,
    "packing.buckets": "8192",
    "packing.max_age": 128,
    "shuffle.window": 8,
    "steps.rows": 16,
    "serve.ahead": 4,
    "tokenizer.vocab_size": 100_000,
    "tokenizer.end": "none",
}


@pytest.fixture(scope="module")
def sealed(module_daemon):
    """A sealed run of about 100 steps."""
    d = module_daemon({**SETTINGS, "run": "sealed"})
    publish_tokens(d.nats_url, TOKENS)
    with Client(d.flight_url) as client:
        client.seal()
    return d


@pytest.fixture(scope="module")
def batches(sealed):
    """All its batches as a world of one reads them."""
    with StepLoader(sealed.flight_url) as loader:
        return list(loader)


@pytest.fixture
def live(daemon):
    """A run that still gets documents, with none at first."""
    return daemon({**SETTINGS, "serve.stall_timeout": "500ms"})


@pytest.fixture(autouse=True)
def threads_end():
    yield
    no_thread_is_left()


# What batches hold


def test_batches_hold_the_documents(sealed, batches):
    """Compared row by row with the published documents and the daemon's record of the rows' origin."""
    with Client(sealed.flight_url, documents=True) as client:
        steps = list(client)
    assert len(steps) == len(batches) > 90
    seen: dict[int, int] = {}
    for step, batch in zip(steps, batches, strict=True):
        s = step.sources
        rows = []
        for i in range(step.rows):
            row = []
            for k in range(s.offsets[i], s.offsets[i + 1]):
                document = [*TOKENS[int(s.sequence[k]) - 1].tolist(), END]
                row.append(document[s.start[k] : s.start[k] + s.length[k]])
                seen[int(s.sequence[k])] = seen.get(int(s.sequence[k]), 0) + int(s.length[k])
            rows.append(row)
        assert_same(batch, obvious_batch(rows, step.bucket, dtype=torch.int64, shifted=False))
    assert seen == {i: len(t) + 1 for i, t in enumerate(TOKENS, 1)}


def test_forms(sealed, batches):
    """dtype, labels, fields, capacity and device as requested, over the wire."""
    fields = ["segment_ids", "labels", "cu_seqlens", "input_ids"]
    options = {"dtype": torch.int32, "labels": "shifted", "fields": fields, "cu_seqlens_capacity": 600}
    with StepLoader(sealed.flight_url, **options) as loader:
        assert isinstance(loader, torch.utils.data.IterableDataset)
        for want, got in zip(batches, loader, strict=True):
            assert list(got) == [f for f in FIELDS if f in fields]
            assert got["input_ids"].dtype == got["labels"].dtype == torch.int32
            assert all(torch.equal(got[k], want[k]) for k in ("input_ids", "segment_ids"))
            assert torch.equal(got["labels"][:, :-1], want["labels"][:, 1:])
            assert bool((got["labels"][:, -1] == -100).all())
            cu = want["cu_seqlens"]
            assert len(got["cu_seqlens"]) == 600 and torch.equal(got["cu_seqlens"][: len(cu)], cu)


def test_a_capacity_that_is_too_small(sealed):
    with StepLoader(sealed.flight_url, cu_seqlens_capacity=9) as loader:
        with pytest.raises(ValueError, match=r"step \d+ has .* cu_seqlens_capacity is 9"):
            list(loader)


def test_several_parts(daemon):
    """A step received in many record batches is one batch."""
    d = daemon({**SETTINGS, "steps.rows": 1024})
    publish_tokens(d.nats_url, documents(2500))
    made = []
    with Client(d.flight_url) as client:
        client.seal()
    for size in ("2MiB", "64KiB"):
        d.stop()
        d.settings["flight.batch_bytes"] = size
        d.start()
        with StepLoader(d.flight_url) as loader, Client(d.flight_url) as client:
            assert any(len(step.parts) > 1 for step in client) == (size == "64KiB")
            made.append(list(loader))
    assert len(made[0]) == len(made[1]) > 1
    for a, b in zip(*made, strict=True):
        assert_same(a, b)


def test_row_attention(daemon):
    d = daemon({**SETTINGS, "attention": "row"})
    publish_tokens(d.nats_url, TOKENS[:100])
    with StepLoader(d.flight_url) as loader, Client(d.flight_url) as client:
        client.seal()
        for batch in loader:
            rows, length = batch["input_ids"].shape
            whole = (batch["segment_ids"] == 1).all(1)
            assert batch["segment_ids"].max() == 1
            assert torch.equal(batch["position_ids"][whole], torch.arange(length).expand(int(whole.sum()), -1))
            assert bool((batch["labels"][:, 0] == -100).all())
            assert batch["num_loss_tokens"] == int((batch["labels"] != -100).sum())
            assert len(batch["cu_seqlens"]) == 1 + rows + int((~whole & (batch["segment_ids"][:, 0] == 1)).sum())


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    "options", [{}, {"dtype": torch.int32, "cu_seqlens_capacity": 600}, {"fields": ["labels", "max_seqlen"]}]
)
def test_mock_batches(sealed, device, options):
    """The mock batch by which a trainer plans its memory equals the real ones in form."""
    with StepLoader(sealed.flight_url, rank=1, world_size=2, device=device, **options) as loader:
        assert (loader.buckets, loader.rows(64), loader.rows(128), loader.step) == ((64, 128), 4, 4, 0)
        mock = {b: loader.get_mock_batch(b) for b in loader.buckets}
        largest = loader.get_mock_batch()
        assert {k: str(v) for k, v in largest.items()} == {k: str(v) for k, v in mock[128].items()}
        assert loader.step == 0
        no_thread_is_left()
        met = set()
        for real in loader:
            bucket = real["labels"].shape[1]
            assert list(real) == list(mock[bucket])
            for key, value in mock[bucket].items():
                assert type(real[key]) is type(value)
                if isinstance(value, torch.Tensor):
                    assert (real[key].dtype, real[key].device.type) == (value.dtype, device)
                    if key != "cu_seqlens" or "cu_seqlens_capacity" in options:
                        assert real[key].shape == value.shape
            assert real["max_seqlen"] <= mock[bucket]["max_seqlen"] == bucket
            met.add(bucket)
        assert met == {64, 128}
    if device == "cpu" and "input_ids" in largest:
        assert largest["input_ids"].unique().numel() > 500 and int(largest["input_ids"].max()) < VOCABULARY
        assert largest["num_loss_tokens"] == int((largest["labels"] != -100).sum())
        assert largest["num_loss_tokens_global"] == 2 * largest["num_loss_tokens"]


def test_questions_before_the_first_batch(sealed):
    with StepLoader(sealed.flight_url, rank=0, world_size=3) as loader:
        assert (loader.run, loader.rank, loader.world_size) == ("sealed", 0, 3)
        assert loader.fingerprint.startswith("sha256:")
        with pytest.raises(ValueError, match=r"no bucket 100: want one of \[64, 128\]"):
            loader.rows(100)
        with pytest.raises(WorldMismatchError, match=r"cannot divide the 8 rows .* among 3 ranks"):
            loader.get_mock_batch()
        with pytest.raises(WorldMismatchError):
            next(loader)


# Memory


def test_held_batches_stay_and_released_ones_are_used_again(sealed, batches):
    """A trainer holds some batches, or only views of them, and drops others."""
    rng = np.random.default_rng(7)
    held = {}
    addresses = set()
    with StepLoader(sealed.flight_url) as loader:
        for i, batch in enumerate(loader):
            addresses.add(batch["input_ids"].untyped_storage().data_ptr())
            if rng.random() < 0.15:
                held[i] = batch
            elif rng.random() < 0.15:
                held[i] = {"labels": batch["labels"][1], "input_ids": batch["input_ids"].numpy()[2:4]}
            if held and rng.random() < 0.1:
                held.pop(rng.choice(list(held)))
            del batch
    assert len(held) > 5
    for i, kept in held.items():
        if len(kept) == 2:
            assert torch.equal(kept["labels"], batches[i]["labels"][1])
            assert np.array_equal(kept["input_ids"], batches[i]["input_ids"].numpy()[2:4])
        else:
            assert_same(kept, batches[i])
    assert len(addresses) < len(batches) * 0.8


def test_memory_of_a_loop_that_holds_nothing(sealed):
    """Allocated are only the buffers in use at once: prefetched, under construction, and in the loop, which is
    slower than reading."""
    with StepLoader(sealed.flight_url, prefetch_factor=2) as loader:
        ahead = loader._prefetcher.open(loader._state)._shared
        made = ahead.transform.buffers
        for batch in loader:
            assert batch["input_ids"].numel()
            del batch
            wait_for(lambda: ahead.items.qsize() == 2 or ahead.ended)
    sizes = [8 * length * width for length in (64, 128) for width in (8, 8, 8, 4)]
    assert made.allocated <= sum(sizes) * (2 + 2)


def test_one_copy():
    """Filling the tensors allocates their own memory and little else."""
    rng = np.random.default_rng(1)
    step = step_of_rows(random_rows(rng, 64, 2048, row_attention=True), 2048, dtype=np.uint16)
    buffers, form = Buffers(), BatchFormat.checked(["input_ids", "labels"], torch.int64, "unshifted", None)
    make_batch(step, form, buffers)
    size = 2 * 64 * 2048 * 8
    assert buffers.allocated == size
    peaks = []
    tracemalloc.start()
    try:
        for _ in range(3):
            tracemalloc.reset_peak()
            make_batch(step, form, buffers)
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert min(peaks) < size / 50, peaks  # threads of other tests may allocate meanwhile, but not in every batch
    assert buffers.allocated == size


# Position and state


def digest(batch):
    return batch["input_ids"].shape, row_digests(batch)


def test_restored_at_every_position(sealed, batches):
    """From each state: the same batches up to the end, or the next three, through a file or JSON."""
    want = [digest(b) for b in batches]
    states = []
    with StepLoader(sealed.flight_url) as loader:
        states.append(loader.state_dict())
        for i, _ in enumerate(loader, 1):
            states.append(loader.state_dict())
            assert loader.step == states[i]["step"] == i
    with StepLoader(sealed.flight_url) as loader:
        for i in np.random.default_rng(2).permutation(len(states)):
            state = states[i]
            restored = pickle.loads(pickle.dumps(state)) if i % 2 else json.loads(json.dumps(state))
            loader.load_state_dict(restored)
            assert loader.state_dict() == state
            if i % 10 == 0:
                assert [digest(b) for b in loader] == want[i:]
                assert loader.step == len(want)
            else:
                got = [digest(b) for b, _ in zip(loader, range(3), strict=False)]
                assert got[:3] == want[i : i + 3]


def test_state_is_small_and_of_what_was_yielded(sealed):
    loaders = [StepLoader(sealed.flight_url, rank=r, world_size=4, prefetch_factor=8) for r in range(4)]
    for loader in loaders:
        for _ in range(5):
            next(loader)
        wait_for(lambda loader=loader: loader._prefetcher._reader._shared.items.qsize() == 8)
    states = [loader.state_dict() for loader in loaders]
    known = {
        "version": 1,
        "run": "sealed",
        "fingerprint": loaders[0].fingerprint,
        "step": 5,
        "skip": [],
        "tokens": states[0]["tokens"],
        "run_id": loaders[0].info.run_id,
    }
    assert states == [known] * 4 and len(known["run_id"]) == 32
    assert len(pickle.dumps(states[0])) < 220
    for loader in loaders:
        loader.close()


def test_Skip(sealed, batches):
    """From the current step, and by ranges of a state, before and after a resume."""
    end = len(batches)

    def read(loader, state=None, **arguments):
        if state:
            loader.load_state_dict(state, **arguments)
        return [int(b["input_ids"][0, 0]) for b in loader]

    first = [int(b["input_ids"][0, 0]) for b in batches]
    with StepLoader(sealed.flight_url, job="skipping") as loader:
        for _ in range(10):
            next(loader)
        early = loader.state_dict()
        loader.skip(5)
        loader.skip(7)
        loader.skip(0)
        state = loader.state_dict()
        assert (loader.step, loader.skipped_steps, state["step"], state["skip"]) == (22, 12, 10, [[10, 22]])
        assert read(loader) == first[22:]
        assert loader.state_dict()["step"] == end and loader.skipped_steps == 12
        assert read(loader, state) == first[22:], "rewound"
        ranges = [[15, 20], [18, 25], [40, end]]
        assert read(loader, early, skip=ranges) == first[10:15] + first[25:40]
        assert loader.state_dict()["skip"] == [[15, 25], [40, end]]
        assert read(loader, early | {"skip": ranges[:1]}) == first[10:15] + first[20:]
        with pytest.raises(ValueError, match=f"steps 10 to {end} of run sealed: it ends at step {end}; skip fewer"):
            loader.load_state_dict(early, skip=[(10, end + 1)])
        with pytest.raises(ValueError, match="steps 5 to 11: the state is at step 10; skip from there"):
            loader.load_state_dict(early, skip=[(5, 12)])
        for wrong in ([(5, 5)], [(-1, 5)], [(1.5, 2)], [3], [(1, 2, 3)]):
            with pytest.raises(ValueError, match="want ranges"):
                loader.load_state_dict(early | {"skip": wrong})
        loader.load_state_dict(early)
        for steps, message in ((-3, "-3 steps from step 10: want 0 or more"), (end, "it ends at"), (1.0, "want 0")):
            with pytest.raises(ValueError, match=message):
                loader.skip(steps)
        assert loader.step == 10 and read(loader) == first[10:]


def test_Skip_StepsThatAreNotPlanned(live):
    """The plan is only some steps ahead of its readers; the run ends within the second range."""
    with StepLoader(live.flight_url, world_size=1, rank=0) as loader, Client(live.flight_url) as client:
        publish_tokens(live.nats_url, TOKENS)
        next(loader)
        loader.skip(50)
        ids = next(loader)["input_ids"]
        state = loader.state_dict()
        assert loader.step == 52 and client.info().planned > 50
        loader.skip(1000)
        client.seal()
        with pytest.raises(ValueError, match=r"steps 52 to 1051 of run default: it ends at step .*; skip fewer"):
            next(loader)
        loader.load_state_dict(state | {"step": 51, "skip": []})
        assert torch.equal(next(loader)["input_ids"], ids)


def test_a_state_of_a_run_before_its_plan_was_repaired(sealed):
    with StepLoader(sealed.flight_url) as loader:
        repaired = dataclasses.replace(loader.info, name="copy", was=("sealed",))
    state = LoaderState(step=7).save(dataclasses.replace(repaired, name="sealed", was=()), None)
    assert check_state(state, repaired) == 7
    with pytest.raises(RunMismatchError):
        check_state(state, dataclasses.replace(repaired, was=()))


def test_wrong_states(sealed):
    with StepLoader(sealed.flight_url) as loader:
        next(loader)
        fine = loader.state_dict()
        for change, error, says in [
            ({"run": "other"}, RunMismatchError, "checkpoint belongs to the run other, the daemon serves sealed"),
            ({"fingerprint": "sha256:00"}, PlanMismatchError, f"sha256:00, the daemon's is {fine['fingerprint']}"),
            ({"run_id": "00" * 16}, RunReplacedError, f"deleted and created again: it has the id {fine['run_id']}"),
            ({"run_id": 7}, ValueError, r"\['run_id'\]"),
            ({"version": 2, "more": 1}, ValueError, "version 2, this loaderd reads up to 1"),
            ({"version": 0}, ValueError, "not a state"),
            ({"version": "1"}, ValueError, r"\['version'\]"),
            ({"step": -1}, ValueError, "not a state"),
            ({"step": 3.0}, ValueError, r"\['step'\]"),
            ({"step": True}, ValueError, r"\['step'\]"),
            ({"run": None}, ValueError, r"\['run'\]"),
        ]:
            with pytest.raises(error, match=says):
                loader.load_state_dict({**fine, **change})
        for missing in fine.keys() - {"run_id"}:
            with pytest.raises(ValueError, match=missing):
                loader.load_state_dict({k: v for k, v in fine.items() if k != missing})
        with pytest.raises(ValueError):
            loader.load_state_dict({})
        assert loader.step == 1 and digest(next(loader))  # none of them had an effect
        loader.load_state_dict({k: v for k, v in fine.items() if k != "run_id"})  # saved before the run had begun
        assert loader.step == 1 and digest(next(loader)) and loader.state_dict()["run_id"] == fine["run_id"]
    with StepLoader(sealed.flight_url, run="other") as loader:
        for use in (loader.state_dict, lambda: next(loader), loader.get_mock_batch):
            with pytest.raises(RunMismatchError):
                use()


def test_commit_is_of_states_alone(daemon):
    d = daemon({**SETTINGS, "serve.retention": "purge"})
    publish_tokens(d.nats_url, TOKENS[:300])
    with Client(d.flight_url) as client:
        client.seal()
        with StepLoader(d.flight_url, commit_as="other") as other:
            assert other.commit(2) == 2
        with StepLoader(d.flight_url) as loader:
            for _ in range(3):
                next(loader)
            with pytest.raises(ValueError, match="no state was taken"):
                loader.commit()
            state = loader.state_dict()
            next(loader)
            assert loader.commit() == 2  # the minimum of both committing jobs
            assert client.info().commits == {"other": 2, "trainer": 3}  # not 4: the last state is older
            loader.load_state_dict({**state, "step": 10})
            next(loader)
            assert client.leave("other") == 3
            assert loader.commit() == 10


def test_loops_go_on_where_they_stopped(sealed, batches):
    want = [digest(b) for b in batches]
    with StepLoader(sealed.flight_url) as loader:
        got = []
        while len(got) < len(want):
            for batch, _ in zip(loader, range(7), strict=False):
                got.append(digest(batch))
            if loader.step > len(got):  # zip took one more
                loader.load_state_dict({**loader.state_dict(), "step": len(got)})
        assert got == want
        assert list(loader) == [] and list(loader) == []
        assert loader.step == len(want)


def test_a_batch_lost_by_an_interrupt_comes_again(sealed, batches):
    """An interrupt may occur between the reader's queue and the caller."""
    with StepLoader(sealed.flight_url) as loader:
        next(loader)
        next(loader._prefetcher._reader)
        assert digest(next(loader)) == digest(batches[1])
        assert digest(next(loader)) == digest(batches[2])


def test_a_batch_that_does_not_get_to_its_device_comes_again(sealed, batches, monkeypatch):
    with StepLoader(sealed.flight_url) as loader:
        next(loader)
        with monkeypatch.context() as broken, pytest.raises(ZeroDivisionError):
            broken.setattr("loaderd.torch._device.Mover.receive", lambda *_: 1 // 0)
            next(loader)
        assert loader.step == 1
        assert digest(next(loader)) == digest(batches[1])


# Data that does not arrive


def test_patience_then_the_cause_then_on(live):
    with StepLoader(live.flight_url, timeout=1) as loader:
        for _ in range(2):
            with pytest.raises(SourceDryError, match="there is none yet"):
                next(loader)
            no_thread_is_left()
        publish_tokens(live.nats_url, TOKENS)
        batches = []
        while not batches:
            with contextlib.suppress(UnavailableError):  # of a daemon that is not that fast
                batches.append(next(loader))
        assert batches[0]["input_ids"].shape[0] == 8 and loader.step == 1
        live.kill()
        assert loader.state_dict()["step"] == 1  # a checkpoint does not need the daemon


def test_interrupted_while_it_waits(interrupts, live):
    """Ctrl-C ends the wait immediately, and the loader is unchanged."""
    with StepLoader(live.flight_url, timeout=30) as loader:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            next(loader)
        publish_tokens(live.nats_url, TOKENS)
        assert next(loader)["input_ids"].shape[0] == 8
    no_thread_is_left()


def test_a_rank_that_stops_reading(daemon):
    """The other ranks continue up to the plan-ahead limit and then get an error that names the rank."""
    d = daemon(BIG)
    rng = np.random.default_rng(1)
    publish_tokens(d.nats_url, [rng.integers(0, 100_000, 8192, dtype=np.int32) for _ in range(1600)])
    options = {"world_size": 2, "timeout": 3, "prefetch_factor": 1, "fields": ["input_ids", "num_loss_tokens"]}
    with StepLoader(d.flight_url, rank=0, **options) as loader, StepLoader(d.flight_url, rank=1, **options) as stops:
        next(stops)
        with pytest.raises(RankBehindError, match="rank 1 of 2") as caught:
            for _ in loader:
                pass
        assert caught.value.facts["rank"] == "1"
        # Beyond what the network buffers for the other rank, the plan is at its plan-ahead limit.
        assert loader.step <= int(caught.value.facts["rank_step"]) + 4 + 1 < 90
        while stops.step < loader.step:
            next(stops)
        next(loader)  # continues with it


def test_no_daemon():
    with StepLoader("grpc://127.0.0.1:1", connect_timeout=0.3) as loader:
        for use in (lambda: next(loader), loader.state_dict, lambda: loader.buckets, lambda: loader.commit(1)):
            with pytest.raises(UnreachableError, match=r"127.0.0.1:1"):
                use()


# Threads and processes


def test_closed(sealed):
    loader = StepLoader(sealed.flight_url)
    next(loader)
    loader.close()
    loader.close()
    for use in (lambda: next(loader), lambda: iter(loader), lambda: loader.commit(1)):
        with pytest.raises(ClosedClientError):
            use()


def test_left_behind(sealed):
    loader = StepLoader(sealed.flight_url)
    next(loader)
    assert client_threads()
    del loader
    wait_for(lambda: not client_threads())


def test_torch_dataloader(sealed, batches):
    with StepLoader(sealed.flight_url) as loader:
        for got, want in zip(DataLoader(loader, batch_size=None, num_workers=0), batches, strict=True):
            assert_same(got, want)
    with StepLoader(sealed.flight_url) as loader:
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="another process"):
                use(loader)


@pytest.mark.parametrize("began", [False, True])
@pytest.mark.parametrize(("start", "error"), [("fork", RuntimeError), ("spawn", TypeError), ("forkserver", TypeError)])
def test_torch_dataloader_with_workers(sealed, start, error, began):
    """An error every time. Forked workers free nothing of the transport, which would wait for threads of the parent."""
    with StepLoader(sealed.flight_url) as loader:
        if began:
            next(loader)
        workers = {"num_workers": 2, "multiprocessing_context": start, "worker_init_fn": collect}
        gc.collect()
        gc.disable()  # from here on only workers collect garbage
        try:
            left_behind = [Client(sealed.flight_url)]
            left_behind[0].info()
            left_behind.append(left_behind)
            del left_behind
            with warnings.catch_warnings(action="ignore"), pytest.raises(error, match="num_workers=0") as caught:
                next(iter(DataLoader(loader, None, timeout=30, **workers)))
            traceback.clear_frames(caught.tb)  # they hold the iterator: as garbage it waits long for its workers
        finally:
            gc.enable()


def collect(worker):
    gc.collect()


def in_child(function):
    """Returns what a function prints or raises in a forked child."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run():
        try:
            theirs.send(function())
        except Exception as error:
            theirs.send(type(error).__name__)

    child = context.Process(target=run)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    return ours.recv()


def test_forks(sealed, batches):
    with StepLoader(sealed.flight_url) as loader:
        next(loader)
        assert in_child(lambda: next(loader)) == ForkedClientError.__name__
        assert in_child(lambda: loader.commit(1)) == ForkedClientError.__name__
        assert in_child(loader.state_dict) == loader.state_dict()
        assert in_child(loader.close) is None
        assert digest(next(loader)) == digest(batches[1])


def test_the_only_rank_until_there_are_more(sealed):
    """A job must not read every row on every rank because the loader was used too early."""
    with StepLoader(sealed.flight_url) as loader:
        assert (loader.rank, loader.world_size) == (0, 1)
        dist.init_process_group("fake", rank=1, world_size=2, store=FakeStore())
        try:
            assert (loader.rank, loader.world_size) == (1, 2)
        finally:
            dist.destroy_process_group()
        next(loader)
        dist.init_process_group("fake", rank=1, world_size=2, store=FakeStore())
        try:
            with pytest.raises(RuntimeError, match="start after init_process_group"):
                next(loader)
        finally:
            dist.destroy_process_group()


def test_wrong_arguments():
    for options, says in [
        ({"prefetch_factor": 0}, "prefetch_factor 0"),
        ({"rank": 1}, "go together"),
        ({"labels": "none"}, "labels 'none'"),
        ({"fields": ["ids"]}, "unknown fields"),
        ({"dtype": torch.float16}, "dtype"),
        ({"cu_seqlens_capacity": 0}, "cu_seqlens_capacity 0"),
    ]:
        with pytest.raises(ValueError, match=says):
            StepLoader("grpc://127.0.0.1:1", **options)


def test_pinned_memory(sealed, batches):
    """On request: pinned batches, or without CUDA an error. By default: whichever is possible on the machine."""
    with StepLoader(sealed.flight_url) as loader:
        assert next(loader)["labels"].is_pinned() == torch.cuda.is_available()
    with StepLoader(sealed.flight_url, pin_memory=True) as loader:
        if torch.cuda.is_available():
            assert_same(next(loader), batches[0])
        else:
            with pytest.raises(ValueError, match="requires CUDA"):
                next(loader)
