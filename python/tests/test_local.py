"""The token of a daemon on this machine: which clients find it, and where it is sent."""

import json
import os
import pickle
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
import pytest

import loaderd
from conftest import ROOT, Daemon
from loaderd._local_auth import local_caller
from test_client_protocol import INFO
from tokenized import SETTINGS, documents, publish_tokens

READ = "import loaderd, sys\nwith loaderd.Client(sys.argv[1]) as client:\n    print(next(client).index)"


@pytest.fixture(scope="module")
def served(module_daemon: Callable[..., Daemon]) -> Daemon:
    d = module_daemon(SETTINGS)
    publish_tokens(d.nats_url, documents(200))
    with loaderd.Client(d.flight_url) as client:
        client.seal()
    return d


def read(url: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Reads a step in another process."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith("LOADERD_")}
    mine |= {"PYTHONPATH": str(ROOT / "python" / "src"), **variables}
    command = [sys.executable, "-c", READ, url]
    return subprocess.run(command, cwd=folder, env=mine, capture_output=True, text=True, timeout=120)


def test_clients_of_the_daemons_user_find_its_token(served: Daemon, tmp_path: Path) -> None:
    token = served.folder / "data" / "flight.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    stranger = read(served.flight_url, tmp_path)
    assert stranger.returncode != 0 and "InvalidTokenError" in stranger.stderr
    for way in ("LOADERD_STREAM__DIR", "token="):
        assert way in stranger.stderr
    (tmp_path / "loaderd-data").symlink_to(served.folder / "data")
    assert read(served.flight_url, tmp_path).stdout == "0\n"
    assert read(served.flight_url.replace("127.0.0.1", "localhost"), tmp_path).stdout == "0\n"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert read(served.flight_url, elsewhere, LOADERD_STREAM__DIR=str(served.folder / "data")).stdout == "0\n"


def test_a_token_that_is_given_counts_alone(served: Daemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (
        pytest.raises(loaderd.InvalidTokenError),
        loaderd.Client(served.flight_url, token="flight_of_another_daemon") as client,
    ):
        client.info()
    token = (served.folder / "data" / "flight.token").read_text().strip()
    monkeypatch.setenv("LOADERD_STREAM__DIR", str(tmp_path))
    with loaderd.Client(served.flight_url, token=token) as client:
        client.info()
    with pytest.raises(loaderd.InvalidTokenError), loaderd.Client(served.flight_url) as client:
        client.info()


def test_http_asks_for_the_token(served: Daemon) -> None:
    for path, status in {"/metrics": 401, "/api/status": 401, "/healthz": 200}.items():
        try:
            with urllib.request.urlopen(served.http_url + path, timeout=5) as response:
                assert response.status == status, path
        except urllib.error.HTTPError as error:
            assert error.code == status, path
        with served.open(path) as response:
            assert response.status == 200


@pytest.mark.parametrize(
    "host", ["192.0.2.7:8815", "trainer-0:8815", "[2001:db8::1]:8815", "0.0.0.0:8815", "127.0.0.1"]
)
def test_nothing_is_sent_to_another_machine(host: str, served: Daemon) -> None:
    assert local_caller(served.folder / "data", f"grpc://{host}") is None


class Impostor(flight.FlightServerBase):
    """Records what clients send."""

    def __init__(self) -> None:
        self.headers: dict[str, list[str]] = {}
        super().__init__("grpc://127.0.0.1:0", middleware={"m": Headers(self)})

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        return [json.dumps(INFO).encode()]


class Headers(flight.ServerMiddlewareFactory):
    def __init__(self, server: Impostor) -> None:
        self.server = server

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        self.server.headers = headers


def test_the_token_is_not_sent_to_a_process_that_listens_elsewhere(
    served: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It receives a signature, which is valid only for its own address."""
    folder = served.folder / "data"
    monkeypatch.setenv("LOADERD_STREAM__DIR", str(folder))
    token = (folder / "flight.token").read_text().strip()
    with Impostor() as impostor:
        with loaderd.Client(f"grpc://127.0.0.1:{impostor.port}") as client:
            client.info()
        [sent] = impostor.headers["authorization"]
    assert token not in sent
    with flight.connect(served.flight_url) as client, pytest.raises(flight.FlightUnauthenticatedError):
        relayed = flight.FlightCallOptions(headers=[(b"authorization", sent.encode())])
        list(client.do_action(flight.Action("seal", b"{}"), relayed))


def test_serve_gives_its_token_and_links_to_the_page(loaderd_program: None) -> None:
    with loaderd.serve(["text"], settings={"steps.rows": 1, "packing.buckets": 32}) as url:
        assert url.token is not None and url.page.startswith(f"{url.http}/#login=") and url.page != url.page
        with loaderd.Client(pickle.loads(pickle.dumps(url))) as client:
            assert next(client).rows == 1
        with pytest.raises(loaderd.InvalidTokenError), loaderd.Client(str(url)) as client:
            client.info()
        code = url.page.partition("#login=")[2]
        request = urllib.request.Request(f"{url.http}/api/login", json.dumps({"code": code}).encode())
        with urllib.request.urlopen(request, timeout=5) as response:
            assert b"page_" in response.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=5)


@pytest.fixture
def loaderd_program(loaderd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADERD_BIN", str(loaderd))
