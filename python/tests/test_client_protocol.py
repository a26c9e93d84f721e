"""The client against servers that violate the wire format, or fail in other ways: it never returns wrong data."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.flight as flight
import pytest

import loaderd
from loaderd import Client
from test_errors import status

INFO = {
    "run": "r",
    "fingerprint": "sha256:1",
    "planned": 9,
    "ended": False,
    "committed": 0,
    "oldest": 0,
    "commits": {},
    "config": {
        "tokenizer": {"vocab_size": 100, "pad": 0},
        "packing": {"buckets": [4, 8]},
        "steps": {"rows": 2},
        "attention": "document",
    },
    "schedule": {"phases": [{"step_rows": [2, 2]}]},
}
SCHEMA = pa.schema([("input_ids", pa.list_(pa.uint16())), ("cu_seqlens", pa.list_(pa.int32()))])
Message = tuple[pa.RecordBatch, bytes | None]


class Pause(NamedTuple):
    """A pause of a script, of some seconds or until the test ends."""

    over: threading.Event
    seconds: float


def message(step: int, **change: object) -> Message:
    """Returns a step of two rows of four tokens in one part, or what `change` makes of it."""
    meta = {
        "run": "r",
        "step": step,
        "part": 0,
        "parts": 1,
        "bucket": 4,
        "rows": 2,
        "tokens": 8,
        "loss_tokens": 8,
        "documents": 2,
        "max_seqlen": 4,
        "step_rows": 2,
        "step_tokens": 8,
        "step_segments": 2,
        "step_loss_tokens": 8,
        "step_loss_segments": 2,
    }
    meta |= change
    n, length = int(str(meta["rows"])), int(str(meta["bucket"]))
    columns = [pa.array([[step] * length] * n, SCHEMA.field(0).type), pa.array([[0, length]] * n, SCHEMA.field(1).type)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), json.dumps(meta).encode()


class Server(flight.FlightServerBase):
    """Answers every DoGet with the next of some scripts: messages to send, exceptions to raise, and pauses. The last
    script is repeated."""

    def __init__(self, *scripts: list[Message | Exception | Pause], info: bytes = json.dumps(INFO).encode()) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.scripts, self.info_body = list(scripts), info
        self.tickets: list[dict[str, object]] = []

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def do_get(self, context: object, ticket: flight.Ticket) -> flight.GeneratorStream:
        self.tickets.append(json.loads(ticket.ticket))
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]

        def play() -> Iterator[object]:
            for item in script:
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, Pause):
                    item.over.wait(item.seconds)
                    continue
                yield item[0] if item[1] is None else item

        return flight.GeneratorStream(SCHEMA, play())

    def do_action(self, context: object, action: flight.Action) -> list[bytes]:
        return [self.info_body]


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(*scripts: list[Message | Exception | Pause], **options: bytes) -> Server:
        servers.append(Server(*scripts, **options))
        return servers[-1]

    yield start
    for s in servers:
        s.shutdown()


def typed(reason: str, code: int = 14) -> Exception:
    """Returns an error as the daemon sends it."""
    return flight.FlightUnavailableError(
        f"{reason}: why", extra_info=status(code, f"{reason}: why", reason, {"step": "1"})
    )


@pytest.mark.parametrize(
    ("second", "match"),
    [
        ([message(0)], "step"),
        ([message(2)], "step"),
        ([message(1, run="other")], "run"),
        ([message(1, part=1, parts=2, rows=1)], "part"),
        ([message(1, part=1)], "part"),
        ([message(1, parts=0)], "part"),
        ([message(1, part=0, parts=2, rows=1), message(1, part=0, parts=2, rows=1)], "part"),
        ([message(1, part=0, parts=2, rows=1), message(1, part=1, parts=3, rows=1)], "parts"),
        ([message(1, part=0, parts=2, rows=1), message(1, part=1, parts=2, rows=1, bucket=8)], "bucket"),
        ([message(1, part=0, parts=2, rows=1), message(2)], "step"),
        ([message(1, part=0, parts=2), message(1, part=1, parts=2)], "4 rows of 4"),
        ([message(1, rows=1)], "1 rows of 4"),
        ([(message(1)[0], b"no json")], "not JSON"),
        ([(message(1)[0], b"{}")], "metadata"),
        ([(message(1, rows=1)[0], message(1)[1])], "has 1 rows"),
        ([(message(1, bucket=8)[0], message(1)[1])], "2 rows of 4"),
        ([(message(1)[0], None)], "without metadata"),
        (
            [(message(100)[0], message(1)[1])],
            "part 0 of step 1 of run r has 8 token ids outside the vocabulary of 100 ids; the first is 100",
        ),
    ],
)
def test_nothing_but_the_expected_step_is_accepted(
    serve: Callable[..., Server], second: list[Message], match: str
) -> None:
    server = serve([message(0), *second, message(1), message(2)])
    with Client(server.url, timeout=1000, connect_timeout=1000) as client:
        assert next(client).index == 0
        with pytest.raises(loaderd.ProtocolError, match=match):
            next(client)
        assert client.next_step == 1
    [ticket] = server.tickets
    assert len(str(ticket.pop("session"))) == 32
    assert ticket == {
        "rank": 0,
        "world": 1,
        "step": 0,
        "columns": ["input_ids:uint16", "cu_seqlens"],
        "run": "r",
        "fingerprint": "sha256:1",
        "peer": 0,
        "taken": 0,
        "read": 0,
    }


def test_an_end_in_the_middle_of_a_step(serve: Callable[..., Server]) -> None:
    server = serve([message(0), message(1, part=0, parts=2, rows=1)])
    with Client(server.url, timeout=1000) as client:
        next(client)
        with pytest.raises(loaderd.ProtocolError, match="ended after part 0 of 2 of step 1"):
            next(client)


def test_the_rows_are_those_of_the_world(serve: Callable[..., Server]) -> None:
    server = serve([message(0, rows=1)])
    with Client(server.url, world_size=2) as client:
        assert next(client).rows == 1


def test_causes_that_pass_are_waited_out(serve: Callable[..., Server]) -> None:
    """After any failure the same step is requested again, and partial data is dropped."""
    half = message(1, part=0, parts=2, rows=1)
    server = serve(
        [typed("SOURCE_DRY")],
        [flight.FlightUnavailableError("connection reset")],
        [message(0), half, typed("SHUTTING_DOWN")],
        [half, typed("LATER_THAN_THIS_PACKAGE")],
        [half, flight.FlightInternalError("stream removed")],
        [half, message(1, part=1, parts=2, rows=1), typed("REPLAYING")],
        [message(2), message(3), message(4)],
    )
    with Client(server.url, steps=5, prefetch_factor=1) as client:
        steps = list(client)
    assert [s.index for s in steps] == [0, 1, 2, 3, 4]
    assert [(t["step"], t["steps"]) for t in server.tickets] == [(0, 5), (0, 5), (0, 5), (1, 4), (1, 4), (1, 4), (2, 3)]
    assert all((s.input_ids == s.index).all() and s.rows == 2 for s in steps)


def test_causes_that_do_not_pass(serve: Callable[..., Server]) -> None:
    for reason, code, error in (("DOCUMENT_LOST", 15, loaderd.DocumentLostError), ("NEW", 9, loaderd.LoaderdError)):
        server = serve([message(0), typed(reason, code)])
        with Client(server.url, timeout=1000) as client:
            next(client)
            with pytest.raises(error, match=f"{reason}: why") as caught:
                next(client)
            assert type(caught.value) is error and caught.value.facts == {"step": "1"}
        assert len(server.tickets) == 1


def test_patience_raises_the_last_cause(serve: Callable[..., Server]) -> None:
    server = serve([typed("SOURCE_DRY")], [typed("SOURCE_DRY")], [typed("NEW")])
    with Client(server.url, timeout=1.5) as client, pytest.raises(loaderd.UnavailableError, match="NEW"):
        next(client)
    assert 3 <= len(server.tickets) <= 8, "asked again with pauses that grow"


def test_a_transport_that_fails_without_a_word(serve: Callable[..., Server]) -> None:
    """The server answers and every stream breaks, as behind a gateway without its daemon: patience limits that."""
    server = serve([flight.FlightUnavailableError("no upstream")])
    with (
        Client(server.url, timeout=1, connect_timeout=0.5) as client,
        pytest.raises(loaderd.UnreachableError, match="no upstream"),
    ):
        next(client)


@pytest.mark.parametrize(
    ("seconds", "error", "match"),
    [(0.7, loaderd.UnreachableError, "no upstream"), (0, loaderd.UnavailableError, "has not reported a cause")],
)
def test_an_attempt_that_patience_ends(
    serve: Callable[..., Server], seconds: float, error: type[Exception], match: str
) -> None:
    """The cause is that of what took most of the time: earlier failed attempts, or the timeout of the current one."""
    over = threading.Event()
    server = serve([Pause(over, seconds), flight.FlightUnavailableError("no upstream")], [Pause(over, 20)])
    with Client(server.url, timeout=1) as client:
        with pytest.raises(error, match=match):
            next(client)
        over.set()


def test_an_answer_that_patience_ends(serve: Callable[..., Server]) -> None:
    """The daemon returned a cause, and the time expires during the next request for the run's description: the cause
    is unchanged."""
    over = threading.Event()
    server = serve([Pause(over, 0.7), typed("SOURCE_DRY")])
    answer = server.do_action

    def silent(context: object, action: flight.Action) -> list[bytes]:
        if server.tickets:
            over.wait(20)
        return answer(context, action)

    server.do_action = silent  # type: ignore[method-assign]
    with Client(server.url, timeout=1) as client:
        with pytest.raises(loaderd.SourceDryError):
            next(client)
        over.set()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"run": "r"}'])
def test_a_description_that_is_none(serve: Callable[..., Server], body: bytes) -> None:
    server = serve([message(0)], info=body)
    with Client(server.url, timeout=1000) as client:
        for call in (lambda: next(client), client.info):
            with pytest.raises(loaderd.ProtocolError):
                call()


def test_another_plan_behind_the_same_address(serve: Callable[..., Server]) -> None:
    server = serve([message(0), flight.FlightUnavailableError("restart")], [message(1)])
    with Client(server.url) as client:
        client.info()
        server.info_body = json.dumps(INFO | {"fingerprint": "sha256:2"}).encode()
        with pytest.raises(loaderd.PlanMismatchError, match="sha256:2"):
            client.info()
        with pytest.raises(loaderd.PlanMismatchError, match="sha256:2"):
            next(client)
        with pytest.raises(loaderd.PlanMismatchError, match="sha256:2"):
            client.commit(1)
        server.info_body = json.dumps(INFO).encode()
        next(client), next(client)
    assert {t["fingerprint"] for t in server.tickets} == {"sha256:1"}, "for the daemon to refuse, too"


ID, OTHER = "1a" * 16, "2b" * 16


def with_id(run_id: str) -> bytes:
    return json.dumps(INFO | {"run_id": run_id}).encode()


def test_a_run_that_was_begun_again_behind_the_same_address(serve: Callable[..., Server]) -> None:
    server = serve([message(0), flight.FlightUnavailableError("restart")], [message(1)], info=with_id(ID))
    with Client(server.url) as client:
        next(client)
        server.info_body = with_id(OTHER)
        for call in (lambda: next(client), client.info, lambda: client.commit(1)):
            with pytest.raises(loaderd.RunReplacedError, match=OTHER) as caught:
                call()
            assert caught.value.facts == {"run": "r", "want": ID, "have": OTHER}
        server.info_body = with_id(ID)
        next(client)
    assert {t["run_id"] for t in server.tickets} == {ID}, "for the daemon to refuse, too"


def test_the_id_of_a_run_that_begins_later(serve: Callable[..., Server]) -> None:
    server = serve([message(0), flight.FlightUnavailableError("restart")], [message(1)], info=with_id(""))
    with Client(server.url) as client:
        stream = client.stream()
        opened = stream.daemons.pick().info

        def begun(run: str | None, timeout: float) -> loaderd.RunInfo:
            info = opened(run, timeout)
            server.info_body = with_id(ID)  # for the next request
            return info

        stream.daemons.pick().info = begun  # type: ignore[method-assign]
        next(stream)
        assert stream.run_id == ID
        next(stream)
        stream.cancel()
    assert [t.get("run_id") for t in server.tickets] == [None, ID]


def test_another_plan_after_an_exception(serve: Callable[..., Server]) -> None:
    server = serve([message(0), typed("RUN_FAILED")], [message(1)])
    with Client(server.url) as client:
        next(client)
        with pytest.raises(loaderd.RunFailedError):
            next(client)
        server.info_body = json.dumps(INFO | {"fingerprint": "sha256:2"}).encode()
        with pytest.raises(loaderd.PlanMismatchError, match="sha256:2"):
            next(client)
        server.info_body = json.dumps(INFO).encode()
        next(client)
    assert [(t["step"], t["fingerprint"]) for t in server.tickets[:2]] == [(0, "sha256:1"), (1, "sha256:1")]


def test_masks_are_asked_for_where_they_are_wanted(serve: Callable[..., Server]) -> None:
    from loaderd.torch import StepLoader

    sent = json.dumps(INFO | {"columns": ["input_ids", "cu_seqlens", "loss_runs"]}).encode()
    for fields, wanted in (
        (None, True),
        (["labels"], True),
        (["num_loss_tokens"], True),
        (["input_ids", "segment_ids", "num_loss_tokens_global"], False),
    ):
        server = serve([message(0)], info=sent)
        with StepLoader(server.url, fields=fields) as loader:
            next(loader)
        assert ("loss_runs" in server.tickets[0]["columns"]) is wanted, fields  # type: ignore[operator]
