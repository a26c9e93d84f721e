"""What the client reads while daemon, connection and peers fail: the same steps, bit for bit, or an error in time."""

import gc
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import loaderd
from conftest import Daemon
from loaderd import TLS, Client, _connection, _retry, _step_stream, _wire
from proxy import Proxy
from scale import everything
from test_client import Digest, digest
from tokenized import SETTINGS, documents, publish_tokens
from waiting import client_threads, no_thread_is_left, wait_for

SEED = 20_260_102
CERTIFICATES = Path(__file__).parent / "certificates"
LONG = [np.resize(t, 20 * len(t)) for t in documents(800, seed=2)]
# The oldest supported version reads from the connection also while it is not called. The daemon then holds no batches.
READS_AHEAD = pa.__version__.startswith("15.")
# Steps of 100 and 200 KB in parts of 64 KiB at most: larger than the network buffers, so that faults hit partially read
# steps.
BIG = {
    **SETTINGS,
    "packing.buckets": "2048,4096",
    "steps.rows": 24,
    "steps.backlog": 1,
    "flight.batch_bytes": 65_536,
    "serve.stall_timeout": "5s",
    "flight.insecure": "true",  # the data folder's token is valid for the daemon's address, not for a proxy's
}


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    yield
    gc.collect()
    no_thread_is_left()


@pytest.fixture(scope="module")
def big(module_daemon: Callable[..., Daemon]) -> Daemon:
    d = module_daemon(BIG)
    publish_tokens(d.nats_url, LONG)
    with Client(d.flight_url) as c:
        c.seal()
    return d


@pytest.fixture(scope="module")
def undisturbed(big: Daemon) -> Digest:
    with Client(big.flight_url) as client:
        steps = digest(client)
    assert len(steps) > 15 and [s[0] for s in steps] == list(range(len(steps)))
    return steps


def port_of(daemon: Daemon) -> int:
    return int(daemon.flight_url.rpartition(":")[2])


def test_kill_at_any_step(daemon: Callable[..., Daemon], undisturbed: Digest) -> None:
    """A daemon that plans the same documents is killed and restarted while ranks read: each reads the same as
    without faults."""
    rng = random.Random(SEED)
    d = daemon(BIG)
    kills = set(rng.sample(range(1, len(undisturbed) - 1), 5))
    publish_tokens(d.nats_url, LONG)
    with (
        ThreadPoolExecutor() as background,
        Client(d.flight_url, prefetch_factor=1, timeout=60) as client,
        Client(d.flight_url, world_size=2, rank=1, timeout=60) as half,
    ):
        steps, halves = [], []
        started = background.submit(lambda: d)
        for k in range(len(undisturbed)):
            if k in kills:
                started.result().kill()
                started = background.submit(d.start)
            if k == 2:
                assert client.seal() == len(LONG), "waits for the daemon where it must"
            steps.append(next(client))
            halves.append(next(half))
        assert list(client) == list(half) == []
    assert digest(steps) == undisturbed
    for whole, part in zip(steps, halves, strict=True):
        assert np.array_equal(whole.input_ids[whole.rows // 2 :], part.input_ids)


def test_stop_and_start_in_good_order(daemon: Callable[..., Daemon], undisturbed: Digest) -> None:
    d = daemon(BIG)
    publish_tokens(d.nats_url, LONG)
    with Client(d.flight_url, prefetch_factor=1) as client:
        client.seal()
        first = [next(client) for _ in range(3)]
        assert d.stop() == 0
        d.start()
        assert digest(first) + digest(client) == undisturbed


def test_connections_cut_in_the_middle(big: Daemon, undisturbed: Digest) -> None:
    """Each connection is cut after a random number of bytes: none to a few steps."""
    rng = random.Random(SEED)
    with (
        Proxy(port_of(big), budget=lambda: int(rng.expovariate(1 / 500_000))) as proxy,
        Client(proxy.url, timeout=60) as client,
    ):
        assert digest(client) == undisturbed
        assert proxy.cuts > 3


def test_a_step_half_read_is_thrown_away(big: Daemon, undisturbed: Digest) -> None:
    """Every connection is cut after the first part of a step, some bytes later each time, until a step fits: it has
    four parts."""
    budgets = iter(range(60_000, 10**9, 40_000))
    step = next(i for i, (_, bucket, *_) in enumerate(undisturbed) if bucket == 4096)
    with (
        Proxy(port_of(big), budget=lambda: next(budgets)) as proxy,
        Client(proxy.url, step=step, steps=1, timeout=60) as client,
    ):
        assert digest(client) == undisturbed[step : step + 1]
        assert proxy.cuts >= 3


class Hang:
    """Reads a client to its end in a thread, while its daemon or the path to it hangs until the client has dropped
    its connection. The drop is detected by its next request for the run's description."""

    def __init__(self, client: Client, asked_before: bool, lift: Callable[[], object]) -> None:
        connection = client._daemons.pick()
        assert connection is not None
        self.client, self.lift, self.info = client, lift, connection.info
        self.asked, self.began, self.noticed = int(asked_before), time.monotonic(), 0.0
        self.steps: Digest = []
        connection.info = self.ask  # type: ignore[method-assign]
        self.thread = threading.Thread(target=lambda: self.steps.extend(digest(client)))
        self.thread.start()

    def ask(self, run: str | None, timeout: float) -> loaderd.RunInfo:
        self.asked += 1
        if self.asked == 2:
            self.noticed = time.monotonic() - self.began
            self.lift()
        return self.info(run, timeout)


@everything
def test_hangs_are_noticed(
    monkeypatch: pytest.MonkeyPatch, daemon: Callable[..., Daemon], big: Daemon, undisturbed: Digest
) -> None:
    """The client detects a hang by its pings, and continues once the daemon answers again. The cases are a daemon
    stopped by SIGSTOP and a path that drops all packets, in the middle of a stream and while no step is available."""
    monkeypatch.setattr(_connection, "KEEPALIVE_MS", 10_200)  # the daemon rejects pings more often than every 10 s
    monkeypatch.setattr(_connection, "PING_TIMEOUT_MS", 1_000)
    d, dry = daemon(BIG), daemon({**SETTINGS, "serve.stall_timeout": "60s", "flight.insecure": "true"})
    publish_tokens(d.nats_url, LONG)

    budgets = iter([1_000_000])
    with (
        Proxy(port_of(big), budget=lambda: next(budgets, None), hang=True) as path,
        Proxy(port_of(dry)) as idle_path,
        Client(path.url, prefetch_factor=1) as swallowed,
        Client(d.flight_url, prefetch_factor=1) as stopped,
        Client(idle_path.url, steps=1) as idle,
        Client(dry.flight_url) as aside,
    ):
        before = [digest([next(c)]) for c in (swallowed, stopped)]

        def resume() -> None:
            assert d.process is not None
            d.process.send_signal(signal.SIGCONT)
            with Client(d.flight_url) as other:
                other.seal()

        def flow() -> None:
            idle_path.swallow.clear()
            publish_tokens(dry.nats_url, documents(200))
            aside.seal()

        waiting = Hang(idle, False, flow)
        wait_for(lambda: aside.stats()["readers"])
        idle_path.swallow.set()
        assert d.process is not None
        d.process.send_signal(signal.SIGSTOP)
        hangs = [Hang(swallowed, True, path.swallow.clear), Hang(stopped, True, resume)]
        for h in (*hangs, waiting):
            h.thread.join(timeout=60)
    for first, h in zip(before, hangs, strict=True):
        assert first + h.steps == undisturbed
        assert 0.5 < h.noticed < 40, h.client._daemons.url
    assert [index for index, *_ in waiting.steps] == [0] and 0.5 < waiting.noticed < 40


def test_hangs_that_pings_do_not_find(monkeypatch: pytest.MonkeyPatch, daemon: Callable[..., Daemon]) -> None:
    """Without pings the client probes the daemon itself after a long wait."""
    monkeypatch.setattr(_connection, "KEEPALIVE_MS", 10**9)
    monkeypatch.setattr(_connection, "PING_TIMEOUT_MS", 10**9)
    monkeypatch.setattr(_step_stream, "PROBE_SECONDS", 0.5)
    monkeypatch.setattr(_step_stream, "PROBE_ANSWER_SECONDS", 0.5)
    dry = daemon({**SETTINGS, "serve.stall_timeout": "60s", "flight.insecure": "true"})
    with Proxy(port_of(dry)) as path, Client(path.url, steps=1) as idle, Client(dry.flight_url) as aside:
        waiting = threading.Thread(target=lambda: steps.extend(idle))
        steps: list[loaderd.Step] = []
        waiting.start()
        path.wait_for(lambda: path.bytes > 0)
        wait_for(lambda: aside.stats()["readers"])
        path.swallow.set()
        asked = path.swallowed
        path.wait_for(lambda: path.swallowed > asked)  # a probe
        publish_tokens(dry.nats_url, documents(200))
        aside.seal()
        path.wait_for(lambda: path.connections > 1)
        path.swallow.clear()
        waiting.join(timeout=30)
    assert [s.index for s in steps] == [0]


@pytest.fixture
def lost_while_opening(monkeypatch: pytest.MonkeyPatch, big: Daemon) -> Iterator[tuple[Client, Proxy]]:
    """Yields a client that reads, and the path to its daemon. The path drops all packets from the request of the
    first stream on, and no ping detects it."""
    monkeypatch.setattr(_connection, "KEEPALIVE_MS", 10**9)
    monkeypatch.setattr(_connection, "PING_TIMEOUT_MS", 10**9)
    read = _connection.Connection.read

    def swallowed(self: _connection.Connection, ticket: _wire.Ticket) -> _connection.Opening:
        if not path.swallowed:
            path.swallow.set()
        return read(self, ticket)

    monkeypatch.setattr(_connection.Connection, "read", swallowed)
    with Proxy(port_of(big)) as path:
        with Client(path.url, steps=1) as client:
            yield client, path
    wait_for(lambda: not client_threads())  # the thread that opened the stream ends with its connection


def test_a_stream_that_does_not_open(
    monkeypatch: pytest.MonkeyPatch, lost_while_opening: tuple[Client, Proxy], undisturbed: Digest
) -> None:
    monkeypatch.setattr(_retry, "_ANSWER", 0.5)
    client, path = lost_while_opening
    with ThreadPoolExecutor() as background:
        steps = background.submit(digest, client)
        path.wait_for(lambda: path.connections > 1)
        path.swallow.clear()
        assert steps.result(timeout=30) == undisturbed[:1]


def test_close_while_a_stream_does_not_open(lost_while_opening: tuple[Client, Proxy]) -> None:
    client, path = lost_while_opening
    with ThreadPoolExecutor() as background:
        waiting = background.submit(next, client)
        path.wait_for(lambda: path.swallowed > 0)
        begin = time.monotonic()
        client.close()
        with pytest.raises(loaderd.ClosedClientError):
            waiting.result(timeout=30)
        assert time.monotonic() - begin < 5, "the thread that opens is not waited for"


def test_Connection_ClosesWhileCallsBegin(big: Daemon) -> None:
    """FlightClient.close frees memory that a call of another thread may use."""
    for _ in range(1000):
        on = _connection.Connection(big.flight_url)
        with ThreadPoolExecutor(4) as threads:
            calls = [threads.submit(on.info, None, 30) for _ in range(4)]
            time.sleep(random.random() / 1000)
            on.close()
        for error in filter(None, (call.exception() for call in calls)):
            assert isinstance(error, loaderd.ClosedClientError), error


def test_a_peer_that_never_answers(big: Daemon) -> None:
    with Proxy(port_of(big)) as proxy:
        proxy.swallow.set()
        with Client(proxy.url, connect_timeout=1) as client:
            begin = time.monotonic()
            with pytest.raises(loaderd.UnreachableError):
                next(client)
            assert time.monotonic() - begin < 3
            with pytest.raises(loaderd.UnreachableError):
                client.info()


def test_a_slow_path(big: Daemon, undisturbed: Digest) -> None:
    """Connections are established with a latency of a quarter of a second each way."""
    with Proxy(port_of(big), delay=0.25) as proxy, Client(proxy.url, steps=1, connect_timeout=10) as client:
        assert digest(client) == undisturbed[:1]
        assert proxy.connections == 1


# --- tokens and TLS ---------------------------------------------------------------------------------------------------


def test_bearer_token(daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)  # a file readable by other users is refused
    file.write_text("s3cret-0123456789\n")
    d = daemon({**SETTINGS, "flight.token_file": file})
    publish_tokens(d.nats_url, documents(200))
    with Client(d.flight_url, token="s3cret-0123456789") as client:
        client.seal()
        assert next(client).index == 0 and client.commit(1) == 1
    for token in (None, "wrong"):
        with Client(d.flight_url, token=token, timeout=1000, connect_timeout=1000) as client:
            for call in (lambda: next(client), client.info, lambda: client.commit(1)):
                with pytest.raises(loaderd.InvalidTokenError) as caught:
                    call()
                assert "s3cret-0123456789" not in str(caught.value)


def outcome(url: str, tls: TLS | None, job: str) -> str:
    with Client(url, tls=tls, job=job, connect_timeout=1) as client:
        try:
            return f"step {next(client).index}"
        except loaderd.LoaderdError as error:
            return type(error).__name__


def create_tokens(binary: Path, file: Path, roles: Mapping[str, str]) -> dict[str, str]:
    """Creates identities, by name their role, in a file; returns their tokens."""
    tokens = {}
    for name, role in roles.items():
        command = [binary, "token", "create", name, "--role", role, "--identities", file]
        tokens[name] = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return tokens


def test_identities(daemon: Callable[..., Daemon], request: pytest.FixtureRequest, tmp_path: Path) -> None:
    file = tmp_path / "identities.json"
    tokens = create_tokens(request.getfixturevalue("loaderd"), file, {"big": "train", "eval": "read", "me": "operate"})
    d = daemon({**SETTINGS, "flight.identities": file})
    publish_tokens(d.nats_url, documents(200))
    with Client(d.flight_url, token=tokens["me"]) as client:
        client.seal()
    with Client(d.flight_url, token=tokens["big"]) as client:
        assert next(client).index == 0 and client.commit(1) == 1 and client.info().commits == {"big": 1}
        for call in (client.seal, lambda: client.commit(1, "trainer"), lambda: client.leave("other")):
            with pytest.raises(loaderd.ForbiddenError, match="identity big lacks permission"):
                call()
        assert client.leave() == 0
    with Client(d.flight_url, token=tokens["eval"]) as client:
        assert next(client).index == 0
        with pytest.raises(loaderd.ForbiddenError, match="needs the role train"):
            client.commit(1)
    with Client(d.flight_url, token=tokens["me"]) as client:
        assert client.commit(1, "anybody") == 1


def test_commits_of_steps_that_were_not_sent(
    daemon: Callable[..., Daemon], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A trainer commits steps that were sent to its jobs, and after a restart of the daemon the steps that it reads
    then."""
    file = tmp_path / "identities.json"
    tokens = create_tokens(request.getfixturevalue("loaderd"), file, {"big": "train", "lazy": "train", "me": "operate"})
    d = daemon({**SETTINGS, "flight.identities": file})
    publish_tokens(d.nats_url, documents(400))
    with Client(d.flight_url, token=tokens["me"]) as client:
        client.seal()

    def refused(client: Client, step: int) -> str:
        with pytest.raises(loaderd.ForbiddenError, match="were only sent the steps before") as caught:
            client.commit(step)
        assert caught.value.facts["step"] == str(step)
        return caught.value.facts["sent"]

    with Client(d.flight_url, token=tokens["big"]) as big, Client(d.flight_url, token=tokens["lazy"]) as lazy:
        assert [next(big).index for _ in range(3)] == [0, 1, 2]
        assert refused(lazy, 1) == "0" and lazy.commit(0) == 0
        assert int(refused(big, 1 << 40)) >= 3
        assert big.commit(3) == 0 and big.info().commits == {"big": 3, "lazy": 0}
        d.stop()
        d.start()
        assert big.commit(2) == 0 and refused(lazy, 1) == "0"
        assert next(big).index == 3 and big.commit(4) == 0
    with Client(d.flight_url, token=tokens["big"], step=4) as resumed:
        assert next(resumed).index == 4 and resumed.commit(5) == 0
    with Client(d.flight_url, token=tokens["me"]) as client:
        assert client.leave("lazy") == 5 and client.commit(6, "big") == 6


def test_Commit_OfAnOperatorRetainsDocuments(
    daemon: Callable[..., Daemon], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A trainer that joins at a later step commits there, and the job that an operator has added retains earlier
    documents."""
    file = tmp_path / "identities.json"
    tokens = create_tokens(
        request.getfixturevalue("loaderd"), file, {"big": "train", "hasty": "train", "me": "operate"}
    )
    d = daemon({**SETTINGS, "flight.identities": file, "serve.retention": "purge", "serve.purge_delay": "0s"})
    publish_tokens(d.nats_url, documents(400))
    with Client(d.flight_url, token=tokens["me"]) as client:
        assert client.commit(0, job="big") == 0
    with Client(d.flight_url, token=tokens["hasty"], step=5) as hasty:
        assert next(hasty).index == 5 and hasty.commit(5) == 0
    with Client(d.flight_url, token=tokens["big"]) as big:
        assert next(big).index == 0 and big.commit(1) == 1


def test_tls(daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    for file in CERTIFICATES.iterdir():  # a key readable by other users is refused
        (tmp_path / file.name).touch(0o600)
        (tmp_path / file.name).write_bytes(file.read_bytes())
    one, other = (tmp_path / f"{name}.pem" for name in ("one", "other"))
    key = one.with_suffix(".key")
    served = {"flight.cert": one, "flight.key": key}
    daemons = {"plain": {}, "tls": served, "mutual": served | {"flight.client_ca": other}}
    urls = {}
    for name, settings in daemons.items():
        d = daemon({**SETTINGS, **settings})
        publish_tokens(d.nats_url, documents(200))
        urls[name] = d.flight_url
        with Client(
            d.flight_url, tls=None if name == "plain" else TLS(ca=one, cert=other, key=other.with_suffix(".key"))
        ) as client:
            client.seal()
    secure = urls["tls"].replace("grpc://", "grpc+tls://")
    cases: dict[str, tuple[str, TLS | None, str]] = {
        "authority by path": (secure, TLS(ca=one), "step 0"),
        "authority by content, tls implied": (urls["tls"], TLS(ca=one.read_bytes()), "step 0"),
        "another name": (urls["tls"], TLS(ca=str(one), server_name="elsewhere"), "UnreachableError"),
        "plaintext against TLS": (urls["tls"], None, "UnreachableError"),
        "TLS against plaintext": (urls["plain"], TLS(ca=one), "UnreachableError"),
        "wrong authority": (secure, TLS(ca=other), "UnreachableError"),
        "the system's authorities": (secure, None, "UnreachableError"),
        "client certificate": (urls["mutual"], TLS(ca=one, cert=other, key=other.with_suffix(".key")), "step 0"),
        "no client certificate": (urls["mutual"], TLS(ca=one), "UnreachableError"),
        "wrong client certificate": (urls["mutual"], TLS(ca=one, cert=one, key=key), "UnreachableError"),
    }
    found: dict[str, str] = {}
    threads = [
        threading.Thread(target=lambda n=n, c=c: found.update({n: outcome(*c[:2], job=n)})) for n, c in cases.items()
    ]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {name: want for name, (*_, want) in cases.items()}
    assert time.monotonic() - begin < 10


def test_a_trainer_that_pauses_for_long(daemon: Callable[..., Daemon]) -> None:
    """The daemon ends the stream of a client that reads nothing, and cuts the connection if its batches hold memory.
    The client continues at its position."""
    d = daemon({**BIG, "steps.rows": 192, "flight.batch_bytes": 1 << 20, "flight.slow_reader_timeout": "500ms"})
    publish_tokens(d.nats_url, [np.resize(t, 8 * len(t)) for t in LONG])
    with Client(d.flight_url) as client:
        client.seal()
        whole = digest(client)
    with Client(d.flight_url, prefetch_factor=1, timeout=60) as client:
        steps = digest([next(client)])
        wait_for(lambda: d.metric("loaderd_flight_open_streams") == 0)  # the client does not read meanwhile
        wait_for(lambda: d.metric("loaderd_flight_held_bytes") == 0)
        with d.open("/metrics") as response:
            assert 'loaderd_flight_errors_total{reason="SLOW_READER"' in response.read().decode()
        wait_for(lambda: READS_AHEAD or d.metric("loaderd_flight_cut_connections_total") > 0)
        steps += digest(client)
    assert steps == whole and len(steps) > 15
