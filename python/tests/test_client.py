"""The client against a real daemon: steps, actions, errors and shutdown."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow.flight as flight
import pytest

import loaderd
from conftest import Daemon, free_ports
from loaderd import Client, Prefetcher, Step
from loaderd.torch import StepLoader
from proxy import Proxy
from tokenized import SETTINGS, documents, publish_tokens
from waiting import client_threads, no_thread_is_left, wait_for

PYTHON = Path(__file__).resolve().parents[1]
ENVIRON = {**os.environ, "PYTHONPATH": str(PYTHON / "src")}
Digest = list[tuple[int, int, int, bytes, bytes]]


def digest(steps: Iterator[Step] | list[Step]) -> Digest:
    """Returns what must be equal in two reads: every step with its shape, tokens and segments."""
    return [
        (s.index, s.bucket, s.rows, s.input_ids.astype(np.int32).tobytes(), s.segment_ids().tobytes()) for s in steps
    ]


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    yield
    gc.collect()
    no_thread_is_left()


@pytest.fixture(scope="module")
def sealed(module_daemon: Callable[..., Daemon]) -> Daemon:
    """A sealed run of two buckets, whose ids fit uint16."""
    d = module_daemon(SETTINGS)
    publish_tokens(d.nats_url, documents(400))
    with Client(d.flight_url) as c:
        assert c.seal() == 400
    return d


@pytest.fixture(scope="module")
def parts(module_daemon: Callable[..., Daemon]) -> Daemon:
    """The same with steps of two and of four parts."""
    d = module_daemon({**SETTINGS, "packing.buckets": "2048,4096", "steps.rows": 24, "flight.batch_bytes": 65_536})
    publish_tokens(d.nats_url, [np.resize(t, 20 * len(t)) for t in documents(400)])
    with Client(d.flight_url) as c:
        c.seal()
    return d


@pytest.fixture(scope="module")
def dry(module_daemon: Callable[..., Daemon]) -> Daemon:
    """A run that waits for documents, with a stall timeout of half a second."""
    return module_daemon({**SETTINGS, "serve.stall_timeout": "500ms"})


@pytest.fixture(scope="module")
def patient(module_daemon: Callable[..., Daemon]) -> Daemon:
    """A run that waits for documents, with a stall timeout of a minute."""
    # Calls through a proxy are not signed.
    return module_daemon({**SETTINGS, "serve.stall_timeout": "60s", "flight.insecure": "true"})


def test_a_named_job_commits_for_itself(module_daemon: Callable[..., Daemon]) -> None:
    """A job retains the documents that it has not committed, so its job has the name of the job."""
    d = module_daemon(SETTINGS)
    publish_tokens(d.nats_url, documents(400))
    with Client(d.flight_url) as trainer, Client(d.flight_url, job="eval") as other:
        for client, steps in ((trainer, 3), (other, 2)):
            for _ in range(steps):
                next(client)
            client.commit(steps)
        assert trainer.info().commits == {"trainer": 3, "eval": 2}
        other.leave()
        other.commit(2, job="another")
        assert trainer.info().commits.keys() == {"trainer", "another"}


@pytest.mark.parametrize(("kind", "rows", "buckets"), [("sealed", 8, {64, 128}), ("parts", 24, {2048, 4096})])
def test_steps_are_what_a_stock_client_reads(
    request: pytest.FixtureRequest, kind: str, rows: int, buckets: set[int]
) -> None:
    sealed: Daemon = request.getfixturevalue(kind)
    with Client(sealed.flight_url, documents=True) as client:
        info = client.info()
        steps = list(client)
        assert client.next_step == len(steps) >= 10
        assert list(client) == [], "the end stays the end"
    columns = ["input_ids", "segment_ids", "position_ids", "documents"]
    stock: dict[int, list[tuple[dict, dict]]] = {}
    for chunk in flight.connect(sealed.flight_url).do_get(
        flight.Ticket(json.dumps({"columns": columns})), sealed.with_token
    ):
        meta = json.loads(chunk.app_metadata.to_pybytes())
        stock.setdefault(meta["step"], []).append((meta, {c: chunk.data[c] for c in columns}))
    assert [s.index for s in steps] == list(stock)
    assert {s.bucket for s in steps} == set(info.buckets) == buckets
    for step in steps:
        metas, parts = zip(*stock[step.index], strict=True)
        assert step.rows == info.rows[step.bucket] == rows

        def whole(column: str, parts: tuple = parts, step: Step = step) -> np.ndarray:
            return np.concatenate([p[column].flatten().to_numpy() for p in parts]).reshape(step.rows, step.bucket)

        assert np.array_equal(step.input_ids, whole("input_ids"))
        assert np.array_equal(step.segment_ids(), whole("segment_ids"))
        assert np.array_equal(step.position_ids(), whole("position_ids"))
        for name in ("tokens", "loss_tokens", "documents"):
            assert getattr(step, name) == sum(m[name] for m in metas)
        assert step.max_seqlen == max(m["max_seqlen"] for m in metas)
        assert (step.step_tokens, step.step_segments) == (step.tokens, step.documents), "this rank has the whole step"
        pieces = [d for p in parts for row in p["documents"].to_pylist() for d in row]
        assert step.sources is not None
        assert list(zip(step.sources.sequence, step.sources.start, step.sources.length, strict=True)) == [
            tuple(d.values()) for d in pieces
        ]


def test_ids_come_narrow_aligned_and_uncopied(sealed: Daemon, parts: Daemon) -> None:
    steps: list[Step] = []
    for daemon in (sealed, parts):
        with Client(daemon.flight_url, documents=True) as client:
            steps += client
    assert {len(s.parts) for s in steps} >= {1, 2, 4}
    for part in (p for s in steps for p in s.parts):
        assert part.input_ids.dtype == np.uint16
        for array in (
            part.input_ids,
            part.ends,
            part.offsets,
            part.sources.sequence,
            part.sources.start,
            part.sources.length,
        ):
            assert array.flags.aligned and not array.flags.writeable
        if part.input_ids.nbytes > 16_384:
            assert part.input_ids.ctypes.data % 8 == 0 and not part.input_ids.flags.owndata


def test_wide_ids(module_daemon: Callable[..., Daemon]) -> None:
    d = module_daemon({**SETTINGS, "tokenizer.vocab_size": 70_000, "tokenizer.end": 69_999})
    publish_tokens(d.nats_url, documents(200))
    with Client(d.flight_url, steps=2) as client:
        client.seal()
        steps = list(client)
        assert [s.index for s in steps] == [0, 1]
        for part in (p for s in steps for p in s.parts):
            assert part.input_ids.dtype == np.int32 and part.input_ids.flags.aligned
        assert max(s.input_ids.max() for s in steps) == 69_999


def test_the_port_of_nats_is_told_from_a_daemon_that_is_down(sealed: Daemon) -> None:
    with Client(f"grpc://{sealed.nats}", connect_timeout=0.5) as client:
        with pytest.raises(loaderd.UnreachableError, match="the address of a NATS server"):
            next(client)


def test_a_pass_that_yields_nothing_is_told(sealed: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    def told(reader: Iterator[object]) -> list[str]:
        caplog.clear()
        assert list(reader) == [] and next(reader, None) is None
        return [r.getMessage() for r in caplog.records if r.name == "loaderd"]

    with Client(sealed.flight_url) as client:
        end = len(list(client))
        assert caplog.records == []
        run = client.info().name
        [text] = told(client)  # a second pass
        assert text.startswith(
            f"no steps left to read: run {run} ended at step {end}, and reading starts there. To train on its "
            "documents again"
        )
        assert f"run {run} ended at step {end}" in text and "docs/how-to/mixtures.md#select-documents" in text
    with Client(sealed.flight_url, step=end) as client:  # a trainer that restarts after the run's end
        assert told(client) == [text]
    with Client(sealed.flight_url, steps=2) as client:
        assert len(list(client)) == 2
        assert told(client)[0].startswith("no steps left to read: all requested steps, those before 2, were read")
    with StepLoader(sealed.flight_url) as loader:
        caplog.clear()
        assert len([b["input_ids"] for b in loader]) == end
        assert caplog.records == []
        assert told(loader) == [text]


def test_every_rank_reads_its_rows_and_the_same_end(sealed: Daemon) -> None:
    with Client(sealed.flight_url) as client:
        whole = list(client)
    for world in (2, 4, 8):
        clients = [Client(sealed.flight_url, rank=r, world_size=world) for r in range(world)]
        ranks = [list(c) for c in clients]
        for c in clients:
            c.close()
        for step, shares in zip(whole, zip(*ranks, strict=True), strict=True):
            assert {(s.index, s.bucket, s.step_tokens, s.step_segments) for s in shares} == {
                (step.index, step.bucket, step.tokens, step.documents)
            }
            assert np.array_equal(np.concatenate([s.input_ids for s in shares]), step.input_ids)
            assert np.array_equal(np.concatenate([s.segment_ids() for s in shares]), step.segment_ids())
            assert sum(s.tokens for s in shares) == step.tokens


def test_any_first_step_and_count(sealed: Daemon) -> None:
    with Client(sealed.flight_url) as client:
        whole = digest(client)
    n = len(whole)
    for step, steps in ((0, 0), (0, 3), (n - 2, None), (n - 2, 2), (n - 1, 5), (n, None), (n, 1), (7, 1)):
        with Client(sealed.flight_url, step=step, steps=steps) as client:
            assert client.next_step == step
            assert digest(client) == whole[step : None if steps is None else step + steps]
    with Client(sealed.flight_url, step=n + 1) as client, pytest.raises(loaderd.StepNotPlannedError):
        next(client)


def test_calls_of_a_trainer(sealed: Daemon) -> None:
    with Client(sealed.flight_url) as client:
        steps = list(client)
        n = len(steps)
        info = client.info()
        assert (info.name, info.ended, info.planned, info.oldest, info.attention, info.pad) == (
            "default",
            True,
            n,
            0,
            "document",
            0,
        )
        assert (info.vocab_size, info.sources, dict(info.rows)) == (1000, ("docs",), {64: 8, 128: 8})
        assert info.configuration["packing"]["pool"] == 64
        assert client.commit(5) == 5 and client.commit(3) == 5
        assert client.commit(7, job="other") == 5 and client.commit(9) == 7
        assert client.info().commits == {"trainer": 9, "other": 7} and client.info().committed == 7
        assert client.leave("other") == 9
        assert client.stats()["planned_steps"] == n
        ledger = client.ledger(4, documents=True)
        assert ledger["bucket"] == steps[4].bucket and len(ledger["rows"]) == 8
        assert sum(p["length"] for row in ledger["rows"] for p in row) == steps[4].tokens
        assert {p["sequence"] for row in ledger["rows"] for p in row} == {d["sequence"] for d in ledger["documents"]}
        sequence = ledger["rows"][0][0]["sequence"]
        assert any(found["step"] == 4 for found in client.find(sequence=sequence))
        assert client.find(id="nobody's") == []
        with pytest.raises(loaderd.StepNotPlannedError):
            client.ledger(n)


def test_Skip(sealed: Daemon) -> None:
    with Client(sealed.flight_url, skip=[(3, 5)]) as client:
        assert [next(client).index for _ in range(4)] == [0, 1, 2, 5]
        client.skip(4)
        assert client.next_step == 10 and client.skips == ((3, 5), (6, 10))
        assert next(client).index == 10
        with pytest.raises(ValueError, match=r"of run default: it ends at step .*; skip fewer"):
            client.skip(10**6)
        with pytest.raises(ValueError, match="-1 steps from step 11"):
            client.skip(-1)
    with Client(sealed.flight_url, steps=8, skip=[(0, 6)]) as client:
        assert [s.index for s in client] == [6, 7]
        with pytest.raises(ValueError, match="of this client"):
            client.skip(1)
    with pytest.raises(ValueError, match="want ranges"):
        Client(sealed.flight_url, skip=[(2, 2)])


def test_flush_and_checkpoint(module_daemon: Callable[..., Daemon]) -> None:
    d = module_daemon(SETTINGS)
    publish_tokens(d.nats_url, documents(20))
    with Client(d.flight_url) as client:
        assert client.flush() == 20
        assert next(client).index == 0
        assert client.checkpoint() <= client.info().planned


def test_a_long_step_of_the_ledger_is_put_together(module_daemon: Callable[..., Daemon]) -> None:
    d = module_daemon({**SETTINGS, "packing.buckets": "512", "packing.pool": 1024, "packing.max_age": 10_000})
    publish_tokens(d.nats_url, [np.array([i % 900 + 1], np.int32) for i in range(3_000)])
    with Client(d.flight_url) as client:
        client.seal()
        step = next(client)
        ledger = client.ledger(0, documents=True)
    assert [len(row) for row in ledger["rows"]] == [len(c) - 1 for c in step.cu_seqlens]
    assert len(ledger["documents"]) == step.documents > 1024, "of several results"


@pytest.mark.parametrize(
    ("arguments", "error", "facts"),
    [
        ({"run": "other"}, loaderd.RunMismatchError, {"want": "other", "have": "default"}),
        ({"fingerprint": "sha256:other"}, loaderd.PlanMismatchError, {"want": "sha256:other"}),
        ({"run_id": "00" * 16}, loaderd.RunReplacedError, {"want": "00" * 16}),
        ({"world_size": 3}, loaderd.WorldMismatchError, {"divisors": "1 2 4 8"}),
        ({"step": 10**9}, loaderd.StepNotPlannedError, {"step": str(10**9)}),
        ({"step": 2**60}, loaderd.InvalidTicketError, {}),
    ],
)
def test_causes_that_do_not_pass_are_raised_at_once(
    dry: Daemon, arguments: dict, error: type[loaderd.LoaderdError], facts: dict[str, str]
) -> None:
    with Client(dry.flight_url, timeout=1000, connect_timeout=1000, **arguments) as client:
        with pytest.raises(error, match=error.reason) as caught:
            next(client)
        assert caught.value.facts.items() >= facts.items()
        with pytest.raises(error):
            next(client)
        if arguments.keys() & {"run", "fingerprint", "run_id"}:
            with pytest.raises(error):
                client.info()


def test_a_client_keeps_to_the_run_that_it_found(dry: Daemon, sealed: Daemon) -> None:
    with Client(dry.flight_url) as client:
        fingerprint = client.info().fingerprint
    with Client(sealed.flight_url, fingerprint=fingerprint) as client:
        assert client.info().fingerprint == fingerprint, "the data folder does not shape the plan"
        assert next(client).index == 0


def test_patience_ends_with_the_cause(dry: Daemon) -> None:
    with Client(dry.flight_url, timeout=1.2) as client:
        for _ in range(2):  # it may be called again
            with pytest.raises(loaderd.SourceDryError, match="publish documents with loaderd publish") as caught:
                next(client)
            assert caught.value.facts["step"] == "0"


def test_patience_is_for_those_who_wait(daemon: Callable[..., Daemon]) -> None:
    """A trainer that pauses for longer than its patience continues if documents have arrived meanwhile."""
    d = daemon({**SETTINGS, "serve.stall_timeout": "200ms"})
    publish_tokens(d.nats_url, documents(400))
    with Client(d.flight_url, timeout=0.5) as client:
        steps = 0
        with pytest.raises(loaderd.SourceDryError):
            for _ in client:
                steps += 1
    with (
        Client(d.flight_url, timeout=0.5, prefetch_factor=2) as client,
        StepLoader(d.flight_url, timeout=0.5, prefetch_factor=2) as loader,
    ):
        for _ in range(steps - 1):
            next(client), next(loader)
        # Both have given up.
        wait_for(lambda: client._reader._shared.ended and loader._prefetcher._reader._shared.ended)
        publish_tokens(d.nats_url, documents(400, seed=2))
        wait_for(lambda: client.info().planned > steps + 4)
        for step in range(steps - 1, steps + 3):
            assert next(client).index == step
            next(loader)
            assert loader.step == step + 1


def test_patience_is_shorter_than_the_daemons(patient: Daemon) -> None:
    with Client(patient.flight_url, timeout=0.5) as client:
        for _ in range(2):
            with pytest.raises(loaderd.UnavailableError, match=r"no step 0 within 0.5 s") as caught:
                next(client)
            assert type(caught.value) is loaderd.UnavailableError


def waiting(daemon: Daemon) -> None:
    """Returns when the daemon has a reader."""
    with Client(daemon.flight_url) as client:
        for _ in range(1000):
            if client.stats()["readers"]:
                return
    raise AssertionError("nobody reads")


def test_close_from_another_thread(patient: Daemon) -> None:
    client = Client(patient.flight_url)
    raised: list[BaseException] = []

    def read() -> None:
        try:
            next(client)
        except BaseException as error:
            raised.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    waiting(patient)
    client.close()
    reader.join(timeout=10)
    assert [type(e) for e in raised] == [loaderd.ClosedClientError]
    no_thread_is_left()
    client.close()
    for use in (lambda: next(client), client.info, client.stream):
        with pytest.raises(loaderd.ClosedClientError):
            use()


def test_a_client_left_behind_ends_its_threads(patient: Daemon, sealed: Daemon) -> None:
    client = Client(sealed.flight_url)
    next(client)
    assert client_threads()
    del client
    gc.collect()
    no_thread_is_left()
    stream = Client(sealed.flight_url).stream(3)
    assert next(stream).index == 3
    del stream
    gc.collect()
    no_thread_is_left()


def test_a_step_lost_to_an_interrupt_is_read_again(sealed: Daemon) -> None:
    with Client(sealed.flight_url) as client:
        whole = digest(client)
    with Client(sealed.flight_url) as client:
        got = digest([next(client), next(client)])
        assert client._reader is not None
        next(client._reader)  # as if KeyboardInterrupt is raised between the queue and the caller
        assert got + digest(client) == whole


def test_stream_and_prefetcher_without_a_client(sealed: Daemon) -> None:
    with Client(sealed.flight_url) as client:
        whole = digest(client)
        assert digest(client.stream(2)) == whole[2:]
        seen: list[str] = []

        def transform(step: Step) -> int:
            seen.append(threading.current_thread().name)
            return step.index

        with Prefetcher(client.stream(0), 3, transform) as reader:
            assert list(reader) == list(range(len(whole)))
        assert set(seen) == {"loaderd-prefetch"}


@pytest.mark.parametrize(
    "arguments", [{"rank": 1}, {"rank": -1}, {"world_size": 0}, {"step": -1}, {"steps": -1}, {"prefetch_factor": 0}]
)
def test_arguments_that_make_no_sense(arguments: dict) -> None:
    with pytest.raises(ValueError, match=re.escape(str(next(iter(arguments.values()))))):
        Client("grpc://127.0.0.1:1", **arguments)


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:1", "grpc://", "nats://x:1"])
def test_urls_that_make_no_sense(url: str) -> None:
    with pytest.raises(ValueError, match="grpc://host:port"):
        Client(url)


def test_nobody_there() -> None:
    [port] = free_ports(1)
    with Client(f"127.0.0.1:{port}", connect_timeout=0.5) as client:
        for call in (lambda: next(client), client.info):
            with pytest.raises(loaderd.UnreachableError, match="refused") as caught:
                call()
            assert caught.value.facts == {"url": f"grpc://127.0.0.1:{port}"} and "requires TLS" in str(caught.value)
    with (
        Client("grpc://no-such-host.invalid:1", connect_timeout=0.5) as client,
        pytest.raises(loaderd.UnreachableError),
    ):
        next(client)


def test_a_released_step(module_daemon: Callable[..., Daemon]) -> None:
    d = module_daemon({**SETTINGS, "serve.retention": "purge", "serve.checkpoint_steps": 5})
    publish_tokens(d.nats_url, documents(600))
    with Client(d.flight_url) as client:
        while next(client).index < 29:
            pass
        client.commit(30)
        client.checkpoint()
        wait_for(lambda: client.info().oldest)  # released soon after
        oldest = client.info().oldest
        with Client(d.flight_url, job="behind") as behind, pytest.raises(loaderd.StepPurgedError) as caught:
            next(behind)
        assert caught.value.facts["oldest"] == str(oldest)
        with Client(d.flight_url, job="behind", step=oldest) as behind:
            assert next(behind).index == oldest


# --- processes --------------------------------------------------------------------------------------------------------

WAIT = """
import sys, threading, loaderd
how, url = sys.argv[1:]
client = loaderd.Client(url, job=how)
client.info()
print("ready", flush=True)
sys.stdin.readline()
try:
    print("waits", flush=True)
    if how == "with":
        with client:
            next(client)
    elif how == "call":
        client.stats()
    else:
        next(client)
except KeyboardInterrupt:
    for thread in threading.enumerate():
        if how == "with" and thread is not threading.main_thread():
            thread.join(3)  # on a busy machine the call that opens the stream ends a moment later
    print([t.name for t in threading.enumerate()] if how == "with" else "interrupted", flush=True)
    raise
"""


def test_interrupts_end_a_wait_and_leave_nothing(interrupts: None, patient: Daemon) -> None:
    """Ctrl-C ends a wait of next(), with and without a `with` block, and a call to a peer that does not answer."""
    with Proxy(int(patient.flight_url.rpartition(":")[2])) as path, ExitStack() as stack:
        urls = {"with": patient.flight_url, "without": patient.flight_url, "call": path.url}
        children = {
            how: subprocess.Popen(
                [sys.executable, "-c", WAIT, how, url],
                env=ENVIRON,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for how, url in urls.items()
        }
        for child in children.values():
            stack.callback(child.kill)

        def told(line: str) -> None:
            for child in children.values():
                assert child.stdout is not None and child.stdout.readline() == line

        told("ready\n")
        path.swallow.set()
        for child in children.values():
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        told("waits\n")
        with Client(patient.flight_url) as client:
            wait_for(lambda: len(client.stats()["readers"]) >= 2)
        for child in children.values():
            child.send_signal(signal.SIGINT)
        for how, child in children.items():
            out, err = child.communicate(timeout=5)
            assert out.strip() == ("['MainThread']" if how == "with" else "interrupted")
            assert err.rstrip().endswith("KeyboardInterrupt"), err
            assert child.returncode in (-signal.SIGINT, 130, 1)


FORK = """
import os, sys, loaderd

def forked(child):
    pid = os.fork()
    if pid == 0:
        sys.exit(child())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def refused():
    made = lambda: loaderd.Client(url)
    for use in (lambda: next(client), lambda: next(stream), client.info, client.stats, client.stream, made):
        try:
            use()
        except loaderd.ForkedClientError as error:
            assert "fork" in str(error), error
        else:
            return 1
    client.close()
    return 0

def reads():
    with loaderd.Client(url) as own:
        return next(own).index

url = sys.argv[1]
forked(reads)
with loaderd.Client(url) as client:
    stream = client.stream(0)
    next(client), next(stream)
    forked(refused)
    assert next(client).index == 1 and next(stream).index == 1
    stream.cancel()
"""


def test_a_fork(sealed: Daemon) -> None:
    """The child of a process that has created a client gets an error where the transport would hang; the parent
    continues."""
    subprocess.run([sys.executable, "-c", FORK, sealed.flight_url], env=ENVIRON, check=True, timeout=60)


def test_the_example_of_the_readme(sealed: Daemon) -> None:
    example, *_ = re.findall(r"```python\n(.*?)```", (PYTHON / "README.md").read_text(), re.S)
    example = example.replace("grpc://127.0.0.1:8815", sealed.flight_url)
    out = subprocess.run(
        [sys.executable, "-c", example], env=ENVIRON, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    with Client(sealed.flight_url) as client:
        assert out.splitlines() == [f"{s.index} {s.input_ids.shape}" for s in client]
