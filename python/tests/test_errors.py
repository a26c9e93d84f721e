"""Errors: the classes mirror docs/reference/errors.md, and no input from a peer crashes the decoders."""

import json
import pickle
import random
import re
from pathlib import Path

import pytest

from loaderd import RunInfo, errors
from loaderd._grpc_status import Status, decode
from loaderd._wire import Metadata, Ticket
from loaderd.errors import LoaderdError, ProtocolError, UnavailableError, from_status

ROOT = Path(__file__).resolve().parents[2]
OTHER_NAMES = {
    "INVALID_TICKET": "InvalidTicketError",
    "INVALID_TOKEN": "InvalidTokenError",
    "IDLE_READER": "IdleReaderError",
    "STEP_PURGED": "StepPurgedError",
}
"""Classes that are not named after their reason on the wire."""
SEED = 20_260_101


def documented() -> dict[str, str]:
    """Returns the code of every reason in docs/reference/errors.md."""
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([A-Z_]+) \|", (ROOT / "docs" / "reference" / "errors.md").read_text(), re.M)
    assert len(rows) > 15
    return dict(rows)


def test_every_documented_reason_has_a_class() -> None:
    classes = errors.FROM_DAEMON
    assert set(classes) == set(documented())
    assert {r for r, c in classes.items() if issubclass(c, UnavailableError)} == {
        r for r, code in documented().items() if code == "UNAVAILABLE"
    }
    assert len(set(classes.values())) == len(classes)
    for reason, cls in classes.items():
        name = cls.__name__
        assert name.endswith("Error")
        if reason in OTHER_NAMES:
            assert name == OTHER_NAMES[reason]
        else:
            assert name.upper().removesuffix("ERROR") == reason.replace("_", ""), "the class has the reason's name"


def test_the_page_names_the_clients_own_errors() -> None:
    own = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, LoaderdError)} - set(
        errors.FROM_DAEMON.values()
    )
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    assert all(f"`{c.__name__}`" in page for c in own)


def varint(n: int) -> bytes:
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def status(
    code: int,
    message: str,
    reason: str,
    facts: dict[str, str],
    domain: str = "loaderd",
    kind: str = "google.rpc.ErrorInfo",
) -> bytes:
    entries = b"".join(field(3, field(1, k.encode()) + field(2, v.encode())) for k, v in facts.items())
    info = field(1, reason.encode()) + field(2, domain.encode()) + entries
    return (
        field(1, code)
        + field(2, message.encode())
        + field(3, field(1, f"type.googleapis.com/{kind}".encode()) + field(2, info))
    )


FACTS = {"world": "3", "divisors": "1 2 4 8", "": "", "größe": "x" * 300}


def test_a_status_is_decoded() -> None:
    data = status(9, "WORLD_MISMATCH: 3 ranks", "WORLD_MISMATCH", FACTS)
    assert decode(data) == Status(9, "WORLD_MISMATCH: 3 ranks", "WORLD_MISMATCH", FACTS)
    other = field(3, field(1, b"type.googleapis.com/google.rpc.RetryInfo") + field(2, b"\x01\x02"))
    assert decode(field(1, 14) + other + data) == decode(data), "details of another type stand beside it"
    assert decode(
        field(99, b"later") + data + field(98, 5) + varint(97 << 3 | 1) + bytes(8) + varint(96 << 3 | 5) + bytes(4)
    ) == decode(data)
    assert decode(status(9, "m", "R", {}, domain="else")) == Status(9, "m")
    assert decode(status(9, "m", "R", {}, kind="google.rpc.Help")) == Status(9, "m")
    assert decode(b"") is decode(None) is None


def test_no_bytes_make_the_decoder_raise() -> None:
    rng = random.Random(SEED)
    whole = status(14, "SOURCE_DRY: nothing", "SOURCE_DRY", FACTS)
    inputs = [whole[:n] for n in range(len(whole))]
    inputs += [rng.randbytes(rng.randrange(1, 80)) for _ in range(5_000)]
    for _ in range(10_000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        inputs.append(bytes(data))
    inputs += [b"\xff" * 40, b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0b", b"\x08" + b"\x80" * 20]
    understood = 0
    for data in inputs:
        found = decode(data)
        assert found is None or isinstance(found, Status)
        if found is not None:
            error = from_status(found)
            assert all(isinstance(x, str) for x in (str(error), error.reason, *error.facts, *error.facts.values()))
            understood += 1
    assert 0 < understood < len(inputs)


def test_reasons_become_classes() -> None:
    for reason, cls in errors.FROM_DAEMON.items():
        error = from_status(Status(9, f"{reason}: why", reason, {"a": "b"}))
        assert type(error) is cls and (error.reason, error.facts, str(error)) == (reason, {"a": "b"}, f"{reason}: why")
    new = from_status(Status(9, "NEW: why", "NEW", {}))
    assert type(new) is LoaderdError and new.reason == "NEW"
    assert type(from_status(Status(14, "NEW: why", "NEW", {}))) is UnavailableError, "worth waiting for, by its code"


def test_errors_travel_between_processes() -> None:
    for error in (
        errors.WorldMismatchError("m", facts={"world": "3"}),
        LoaderdError("m", reason="NEW"),
        errors.ForkedClientError("m"),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error) and (str(copy), copy.reason, copy.facts) == (
            str(error),
            error.reason,
            error.facts,
        )


METADATA = {
    "run": "r",
    "step": 1,
    "part": 0,
    "parts": 1,
    "bucket": 4,
    "rows": 2,
    "tokens": 7,
    "loss_tokens": 7,
    "documents": 3,
    "max_seqlen": 4,
    "step_tokens": 20,
    "step_segments": 5,
    "step_loss_tokens": 18,
    "step_loss_segments": 3,
    "step_rows": 4,
}


def test_metadata() -> None:
    m = Metadata.decode(json.dumps(METADATA | {"later": {"x": 1}}).encode() + b"   ")
    assert (m.step, m.bucket, m.step_tokens, m.step_segments) == (1, 4, 20, 5)
    bad = [b"", b"[]", b"\xff", b"[" * 100_000, json.dumps(METADATA | {"run": 1}).encode()]
    for key in METADATA:
        bad.append(json.dumps({k: v for k, v in METADATA.items() if k != key}).encode())
        bad += [json.dumps(METADATA | {key: v}).encode() for v in (None, -1, True, 1.0, [])]
    for data in bad:
        with pytest.raises(ProtocolError):
            Metadata.decode(data)


INFO = {
    "run": "r",
    "fingerprint": "sha256:1",
    "planned": 5,
    "ended": False,
    "committed": 2,
    "oldest": 1,
    "commits": {"trainer": 2},
    "config": {
        "tokenizer": {"vocab_size": 65_536, "pad": 0},
        "packing": {"buckets": [64, 128]},
        "steps": {"rows": 8},
        "attention": "row",
    },
    "schedule": {"phases": [{"step_rows": [8, 8]}]},
}


def test_run_info() -> None:
    def config(**change: object) -> RunInfo:
        return RunInfo.decode(INFO | {"config": INFO["config"] | change})  # type: ignore[operator]

    def phases(*rows: list[int]) -> RunInfo:
        return RunInfo.decode(INFO | {"schedule": {"phases": [{"step_rows": r} for r in rows]}})

    info = RunInfo.decode(INFO)
    assert (info.buckets, info.rows, info.commits, info.attention) == (
        (64, 128),
        {64: 8, 128: 8},
        {"trainer": 2},
        "row",
    )
    assert phases([16, 8]).rows == {64: 16, 128: 8}
    assert phases([6, 2], [4, 4]).rows == {64: 6, 128: 4}
    assert info.narrow and not config(tokenizer={"vocab_size": 65_537, "pad": 0}).narrow
    assert (
        not config(tokenizer={"vocab_size": 100, "pad": 65_536}).narrow
        and not config(tokenizer={"vocab_size": 100, "pad": -1}).narrow
    )
    assert RunInfo.decode(INFO | {"commits": None}).commits == {}
    assert info.was == () and RunInfo.decode(INFO | {"was": ["a", "b"]}).was == ("a", "b")
    for key in set(INFO) - {"commits"}:
        with pytest.raises(ProtocolError, match="description of the run"):
            RunInfo.decode({k: v for k, v in INFO.items() if k != key})
    for change in ({"config": 5}, {"commits": 5}, {"planned": "x"}, {"planned": None}):
        with pytest.raises(ProtocolError, match="description of the run"):
            RunInfo.decode(INFO | change)
    with pytest.raises(ProtocolError, match="description of the run"):
        phases([6])


def test_ticket() -> None:
    assert json.loads(Ticket().encode()) == {"rank": 0, "world": 1, "step": 0, "columns": ["input_ids", "cu_seqlens"]}
    full = json.loads(Ticket(1, 2, 3, 4, ("input_ids",), "r", "f").encode())
    assert full == {
        "rank": 1,
        "world": 2,
        "step": 3,
        "steps": 4,
        "columns": ["input_ids"],
        "run": "r",
        "fingerprint": "f",
    }
