"""A trainer logs why it waits: after a long wait, and again when the cause changes."""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.flight as flight
import pytest

import loaderd
from conftest import Daemon, free_ports
from loaderd import Client, Prefetcher, _stall_log, _step_stream
from loaderd.torch import StepLoader
from test_client_protocol import INFO, SCHEMA, message
from tokenized import SETTINGS, documents, publish_tokens
from waiting import wait_for


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Waits count after 50 ms, and the same reason is logged again after 300 ms."""
    monkeypatch.setattr(_stall_log, "REPORT_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(_stall_log, "AGAIN_SECONDS", 0.3)
    monkeypatch.setattr(_step_stream, "LOOK_SECONDS", 0.01)
    caplog.set_level(logging.INFO, logger="loaderd")


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


class Slow(flight.FlightServerBase):
    """Sends the first `steps` steps to every client, and answers actions other than info with `cause`."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.steps = 0
        self.cause: dict[str, object] | Exception = {}
        self.asked: list[dict[str, object]] = []
        self.url = f"grpc://127.0.0.1:{self.port}"

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        step = json.loads(ticket.ticket)["step"]

        def play() -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
            for n in range(step, 5):
                while n >= self.steps:
                    time.sleep(0.01)
                    if context.is_cancelled():
                        return
                yield message(n)

        return flight.GeneratorStream(SCHEMA, play())

    def do_action(self, context: object, action: flight.Action) -> list[bytes]:
        if action.type == "info":
            return [json.dumps(INFO).encode()]
        self.asked.append(json.loads(action.body.to_pybytes()))
        if isinstance(self.cause, Exception):
            raise self.cause
        return [json.dumps({"run": "r", "step": 0} | self.cause).encode()]


@pytest.fixture
def slow() -> Iterator[Slow]:
    server = Slow()
    yield server
    server.shutdown()


def dry(rows: int) -> dict[str, object]:
    return {"reason": "SOURCE_DRY", "message": f"{rows} there", "do": "publish", "facts": {"rows_ready": str(rows)}}


def reading_on(reader: Iterator[loaderd.Step]) -> Callable[[], loaderd.Step]:
    """Takes the next step in a thread; the returned function waits for it."""
    got: list[loaderd.Step] = []
    thread = threading.Thread(target=lambda: got.append(next(reader)))
    thread.start()

    def result() -> loaderd.Step:
        thread.join(timeout=30)
        return got[0]

    return result


@pytest.mark.parametrize("threaded", [True, False])
def test_a_wait_names_its_cause_again_when_it_changes(
    slow: Slow, warnings: Callable[[], list[str]], threaded: bool
) -> None:
    slow.cause = dry(310)
    with Client(slow.url, world_size=1) as client:
        take = reading_on(client if threaded else client.stream())
        wait_for(lambda: len(slow.asked) > 3)
        (only,) = warnings()
        assert only == 'step 0 of run "r" for rank 0 of 1 not received after 0 s: 310 there; publish (SOURCE_DRY)'
        slow.cause = {"reason": "POOL_FILLING", "message": "400 there", "do": "wait", "facts": {"rows_ready": "400"}}
        wait_for(lambda: len(warnings()) == 2)
        assert warnings()[1].endswith(": 400 there; wait (POOL_FILLING)")
        slow.cause = {}
        wait_for(lambda: len(warnings()) == 3)
        assert "being sent" in warnings()[2]
        slow.steps += 1
        assert take().index == 0
    assert slow.asked[0] == {"run": "r", "step": 0}


def test_other_figures_are_named_now_and_then(
    slow: Slow, warnings: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    with Client(slow.url) as client:
        slow.cause = dry(0)
        take = reading_on(client)
        wait_for(lambda: warnings())
        slow.cause = dry(1)
        wait_for(lambda: len(warnings()) == 2)
        first, second = (r.created for r in caplog.records)
        assert second - first > 0.25
        slow.steps += 1
        assert take().index == 0


def test_the_end_of_a_told_wait_is_told(slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
    slow.cause = dry(0)
    with Client(slow.url) as client:
        take = reading_on(client)
        wait_for(lambda: caplog.records)
        slow.steps += 1
        take()
    assert [r.getMessage().split(" after ")[0] for r in caplog.records if r.levelno == logging.INFO] == [
        "stall resolved"
    ]


def test_reading_ahead_is_no_wait(slow: Slow, warnings: Callable[[], list[str]]) -> None:
    """A trainer that has not requested the next step does not wait, although its thread does."""
    slow.cause = dry(0)
    slow.steps += 1
    with Client(slow.url) as client, Client(slow.url, step=2) as other:
        next(client)
        take = reading_on(other)  # a second reader, whose wait shows that enough time has passed
        wait_for(lambda: warnings())
        assert client._stream is not None and not client._stream.stall_log.due()
        slow.steps += 10
        take()
    assert not [w for w in warnings() if w.startswith("step 1 ")]


@pytest.mark.parametrize("cause", [{"facts": 7, "reason": "NEW"}, {"reason": 7}, flight.FlightServerError("broken")])
def test_answers_that_make_no_sense_do_no_harm(slow: Slow, warnings: Callable[[], list[str]], cause: object) -> None:
    slow.cause = cause  # type: ignore[assignment]
    with Client(slow.url) as client:
        take = reading_on(client)
        wait_for(lambda: warnings())
        slow.steps += 2
        assert take().index == 0


def test_patience_shorter_than_the_stall_timeout_ends_with_the_cause(slow: Slow) -> None:
    slow.cause = dry(310)
    with Client(slow.url, timeout=1) as client, pytest.raises(loaderd.SourceDryError, match="310 there") as caught:
        next(client)
    assert caught.value.facts == {"rows_ready": "310"}


def test_nobody_there(warnings: Callable[[], list[str]]) -> None:
    """Also before the first answer: for the calls with which a loader starts."""
    url = f"grpc://127.0.0.1:{free_ports(1)[0]}"
    with (
        Client(url, connect_timeout=1.0) as client,
        StepLoader(url, connect_timeout=1.0, rank=0, world_size=1) as loader,
    ):
        for reader, awaited in ((client, "step 0 for rank 0 of 1"), (loader, f"answer from {url}")):
            with pytest.raises(loaderd.UnreachableError):
                next(reader)
            assert re.match(
                f"{awaited} not received after . s: (cannot keep a connection to|no answer from) {url}", warnings()[-1]
            )
    assert len(warnings()) == 2, "the same is said once, whoever finds it"


def test_a_prefetcher_of_something_else_tells_nothing(warnings: Callable[[], list[str]]) -> None:
    go = threading.Event()

    class Waiting:
        def __next__(self) -> int:
            go.wait()
            return 1

        def cancel(self) -> None:
            go.set()

    with Prefetcher(Waiting()) as reader:
        take = reading_on(reader)  # type: ignore[arg-type]
        wait_for(lambda: reader._shared.stall_log.due())
        go.set()
        take()
    assert not warnings()


def test_what_a_daemon_says(daemon: Callable[..., Daemon], warnings: Callable[[], list[str]]) -> None:
    """The figures are those of the daemon; requesting them does not change the steps."""
    d = daemon({**SETTINGS, "serve.stall_timeout": "60s"})
    with Client(d.flight_url) as client, Client(d.flight_url, job="undisturbed") as undisturbed:
        take = reading_on(client)
        wait_for(lambda: warnings())
        assert "there is none yet, a step has 8 rows" in warnings()[0]
        publish_tokens(d.nats_url, documents(400))
        assert (take().input_ids == next(undisturbed).input_ids).all()
