"""Fixtures: the loaderd binary, and daemons that run for the duration of a test."""

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
import pytest

import scale

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
READY_SECONDS = 60
STOP_SECONDS = 40  # longer than the daemon's own limit of a stop
TOKEN = "flight_" + 64 * "7"  # of every daemon except members of a cluster, which derive theirs from its secret


def write_token(folder: Path, token: str = TOKEN) -> None:
    (folder / "flight.token").touch(0o600)
    (folder / "flight.token").write_text(token + "\n")


def set_found_token(token: str = TOKEN) -> None:
    """Sets the token that clients and commands of these tests find."""
    write_token(Path(os.environ["LOADERD_STREAM__DIR"]), token)


def share_token() -> None:
    """Lets clients and commands of these tests find the daemons' token, as that of a daemon on this machine."""
    folder, owner = Path(tempfile.mkdtemp(prefix="loaderd-tests-")), os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    write_token(folder)
    os.environ["LOADERD_STREAM__DIR"] = str(folder)


share_token()  # before modules copy the environment; benchmarks use this one too

# Tests share the cores with daemons and other test groups, and their tensors are small.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests that run only with LOADERD_TEST=all."""
    if scale.ALL:
        return
    left_out = [item for item in items if item.get_closest_marker("everything")]
    items[:] = [item for item in items if not item.get_closest_marker("everything")]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def loaderd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The binary: LOADERD_BIN, or one built for this session."""
    if given := os.environ.get("LOADERD_BIN"):
        return Path(given)
    binary = tmp_path_factory.mktemp("bin") / "loaderd"
    subprocess.run(["go", "build", "-o", binary, "./cmd/loaderd"], cwd=ROOT, check=True)
    return binary


class Daemon:
    """One `loaderd serve` with its own data folder and ports, which it keeps across a restart."""

    def __init__(self, binary: Path, folder: Path, settings: Mapping[str, object]) -> None:
        self.binary = binary
        self.folder = folder
        nats, flight, http = free_ports(3)
        self.settings = {
            "stream.dir": folder / "data",
            "stream.listen": f"127.0.0.1:{nats}",
            "flight.listen": f"127.0.0.1:{flight}",
            "http.listen": f"127.0.0.1:{http}",
            **settings,
        }
        self.nats = f"127.0.0.1:{nats}"
        self.flight_url = f"grpc://127.0.0.1:{flight}"
        self.http_url = f"http://127.0.0.1:{http}"
        self.log = folder / "daemon.log"
        self.said = ""  # the last answer of a path with another status than 200
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def nats_url(self) -> str:
        """The address for producers, with their token; the daemon must have been started once."""
        return f"nats://producer:{(self.folder / 'data' / 'producer.token').read_text().strip()}@{self.nats}"

    @property
    def operator_url(self) -> str:
        """`nats_url` with the operator's token, which may read documents."""
        return f"nats://documents:{(self.folder / 'data' / 'operator.token').read_text().strip()}@{self.nats}"

    @property
    def flags(self) -> list[str]:
        """The settings as --set flags, for other commands that connect to this daemon."""
        return [x for key, value in self.settings.items() for x in ("--set", f"{key}={value}")]

    @property
    def token(self) -> str:
        """The token of the data folder; the daemon must have been started once."""
        return (Path(str(self.settings["stream.dir"])) / "flight.token").read_text().strip()

    @property
    def with_token(self) -> flight.FlightCallOptions:
        """Call options of a plain Flight client, with the token."""
        return flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + self.token.encode())])

    def open(self, path: str, timeout: float = 5) -> Any:
        """Returns the response of a path of the HTTP server, requested with the token."""
        request = urllib.request.Request(self.http_url + path, headers={"Authorization": f"Bearer {self.token}"})
        return urllib.request.urlopen(request, timeout=timeout)

    def start(self) -> "Daemon":
        """Starts the daemon and waits until it serves."""
        data = Path(str(self.settings["stream.dir"]))
        if not data.exists():
            data.mkdir(mode=0o700)
            write_token(data)
        environ = {k: v for k, v in os.environ.items() if not k.startswith("LOADERD_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", *self.flags], cwd=self.folder, env=environ, stdout=log, stderr=log
            )
        deadline = time.monotonic() + READY_SECONDS
        while not self.answers("/readyz"):
            try:
                status = self.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                self.kill()
                raise AssertionError(f"loaderd is not ready after {READY_SECONDS} s:\n{self.log_tail()}") from None
            raise AssertionError(f"loaderd exited with {status}:\n{self.log_tail()}")
        return self

    def answers(self, path: str) -> bool:
        """Reports whether a path of the HTTP server answers with 200."""
        try:
            with self.open(path) as response:
                return bool(response.status == 200)
        except urllib.error.HTTPError as error:
            self.said = error.read().decode(errors="replace")
        except (urllib.error.URLError, OSError) as error:
            self.said = str(error)
        return False

    def metric(self, name: str) -> float:
        """Returns the value of a metric without labels except the run's, 0 if it is absent."""
        while True:
            try:
                with self.open("/metrics") as response:
                    lines = [line.split() for line in response.read().decode().splitlines()]
                break
            except urllib.error.HTTPError as error:
                if error.code != 429:  # Too Many Requests, after long polling
                    raise
                time.sleep(0.2)
        return next((float(line[1]) for line in lines if line[0].partition("{")[0] == name), 0.0)

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit status. A daemon that does not stop in time is killed, and the test
        fails."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"loaderd did not stop in {STOP_SECONDS} s:\n{self.log_tail()}") from None
        return self.process.returncode

    def kill(self) -> None:
        """Sends SIGKILL, which simulates a crash."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


@pytest.fixture
def daemon(loaderd: Path, tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """A function that starts a daemon with settings that override the defaults: daemon({"steps.rows": 8})."""
    with daemons(loaderd, tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def module_daemon(loaderd: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Daemon]]:
    """The same for daemons that the tests of a module share."""
    with daemons(loaderd, tmp_path_factory.mktemp("daemons")) as start:
        yield start


@contextmanager
def daemons(binary: Path, parent: Path) -> Iterator[Callable[..., Daemon]]:
    """Yields a function that starts daemons in subfolders. They are stopped at the end; one that does not stop fails
    the test."""
    started: list[Daemon] = []

    def start(settings: Mapping[str, object] | None = None) -> Daemon:
        folder = parent / f"daemon-{len(started)}"
        folder.mkdir()
        d = Daemon(binary, folder, settings or {})
        started.append(d)
        return d.start()

    yield start
    failed = []
    for d in started:
        if d.process is None:
            continue
        try:
            d.stop()
        except AssertionError as error:
            failed.append(str(error))
    assert not failed, "\n".join(failed)


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT interrupts this process and its children, also if the tests were started with SIGINT ignored, as by
    `make test &` in a script.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def free_ports(n: int) -> list[int]:
    """Returns distinct free ports of loopback, below the range of ephemeral ports."""
    sockets: list[socket.socket] = []
    try:
        for port in random.sample(range(10_000, 30_000), 100 + n):
            s = socket.socket()
            sockets.append(s)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                sockets.pop().close()
            if len(sockets) == n:
                break
        assert len(sockets) == n, "no port is free"
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


@pytest.fixture
def tokenizer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tokenizer with one token per byte."""
    monkeypatch.syspath_prepend(EXAMPLES)
    import sft_documents

    return sft_documents.make_tokenizer()
