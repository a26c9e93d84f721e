"""The main job with standard clients: nats-py publishes, pyarrow reads."""

import asyncio
import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import nats
import numpy as np
import pyarrow.flight as flight
import pytest

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "packing.buckets": "256",
    "packing.pool": 64,
    "packing.max_age": 256,
    "shuffle.window": 16,
    "steps.rows": 8,
    "serve.stall_timeout": "30s",
}


def texts(n: int) -> list[str]:
    """Returns real text: the beginnings of Python's own library files."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return [f.read_text(encoding="utf-8", errors="replace")[: 200 + 37 * i] for i, f in enumerate(files[:n])]


def publish(daemon, messages: list[tuple[bytes, dict[str, str]]], subject: str = "docs.test") -> None:
    """Publishes as any NATS client would."""

    async def run() -> None:
        nc = await nats.connect(daemon.nats_url)
        js = nc.jetstream()
        for data, headers in messages:
            await js.publish(subject, data, headers=headers or None)
        await nc.close()

    asyncio.run(run())


def action(daemon, name: str, **body: object) -> list[dict]:
    client = flight.connect(daemon.flight_url)
    return [
        json.loads(r.body.to_pybytes())
        for r in client.do_action(flight.Action(name, json.dumps(body).encode()), daemon.with_token)
    ]


def read(daemon, **ticket: object) -> list[tuple[dict, dict[str, np.ndarray]]]:
    """Returns the metadata and columns of every batch of a ticket."""
    client = flight.connect(daemon.flight_url)
    out = []
    for chunk in client.do_get(flight.Ticket(json.dumps(ticket).encode()), daemon.with_token):
        meta = json.loads(chunk.app_metadata.to_pybytes())
        columns = {}
        for name in chunk.data.schema.names:
            values = chunk.data[name].flatten()
            if name == "documents":
                columns[name] = chunk.data[name].to_pylist()
            elif name == "cu_seqlens":
                columns[name] = chunk.data[name].to_pylist()
            else:
                columns[name] = values.to_numpy().reshape(meta["rows"], meta["bucket"])
        out.append((meta, columns))
    return out


def tokens_of(loaderd, documents: list[str]) -> list[list[int]]:
    lines = "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(documents))
    out = subprocess.run(
        [loaderd, "tokenize", "--tokenizer", "gpt2"], input=lines, capture_output=True, text=True, check=True
    ).stdout
    return [json.loads(line)["ids"] for line in out.splitlines()]


def test_every_token_of_every_document_arrives_once(daemon, loaderd):
    d = daemon(SMALL)
    documents = texts(60)
    publish(
        d,
        [
            (t.encode(), {})
            if i % 2
            else (json.dumps({"id": f"d{i}", "text": t}).encode(), {"Content-Type": "application/json"})
            for i, t in enumerate(documents)
        ],
    )
    assert action(d, "seal")[0]["sequence"] == len(documents)
    end = 50256
    expected = [[*ids, end] for ids in tokens_of(loaderd, documents)]
    whole = None
    for world in (1, 2, 4):
        ranks = [
            read(
                d,
                rank=r,
                world=world,
                columns=["input_ids", "segment_ids", "position_ids", "labels", "cu_seqlens", "documents"],
            )
            for r in range(world)
        ]
        assert len({len(r) for r in ranks}) == 1
        got: dict[int, dict[int, int]] = {}
        rows = []
        for step in zip(*ranks, strict=True):
            assert len({(m["step"], m["bucket"], m["rows"]) for m, _ in step}) == 1
            for meta, c in step:
                assert meta["rows"] * world == 8
                for i in range(meta["rows"]):
                    check_row(c, i, meta["bucket"])
                    at = 0
                    for p in c["documents"][i]:
                        for k in range(p["length"]):
                            document = got.setdefault(p["sequence"], {})
                            assert p["start"] + k not in document
                            document[p["start"] + k] = int(c["input_ids"][i, at])
                            at += 1
                    rows.append(c["input_ids"][i])
        for i, ids in enumerate(expected):
            assert [got[i + 1][k] for k in range(len(ids))] == ids
        assert len(got) == len(documents)
        steps = len(ranks[0])
        stacked = np.stack(rows).reshape(steps, 8, 256)
        if whole is None:
            whole = stacked
        assert np.array_equal(stacked, whole)


def check_row(c: dict, i: int, length: int) -> None:
    """Checks that segments, positions, labels and cu_seqlens of a row agree."""
    pieces = c["documents"][i]
    segments = np.concatenate([np.full(p["length"], k + 1) for k, p in enumerate(pieces)] or [np.zeros(0, int)]).astype(
        int
    )
    positions = np.concatenate([np.arange(p["length"]) for p in pieces] or [np.zeros(0, int)]).astype(int)
    n = len(segments)
    assert np.array_equal(c["segment_ids"][i, :n], segments) and not c["segment_ids"][i, n:].any()
    assert np.array_equal(c["position_ids"][i, :n], positions)
    assert np.array_equal(c["labels"][i, :n], c["input_ids"][i, :n]) and (c["labels"][i, n:] == -100).all()
    ends = np.cumsum([0] + [p["length"] for p in pieces]).tolist()
    assert c["cu_seqlens"][i][: len(ends)] == ends
    assert c["cu_seqlens"][i][-1] in (n, length)


def test_bad_messages_do_not_stop_the_run(daemon):
    d = daemon(SMALL)
    fine = [(t.encode(), {}) for t in texts(40)]
    bad = [
        (b"{not json", {"Content-Type": "application/json"}),
        (b'{"id": 1}', {"Content-Type": "application/json"}),
        (b"\x00\x00\x00", {"Content-Type": "application/vnd.loaderd.tokens"}),
        (b"\x01\x00\x00\x00", {"Content-Type": "application/vnd.loaderd.tokens", "Loaderd-Tokenizer": "sha256:wrong"}),
        (b"<p>", {"Content-Type": "text/html"}),
        (b"\xff\xfe broken \xc3", {}),
    ]
    publish(d, fine[:20] + bad + [(b"", {}), (b"cut " * 100 + b"\xc3", {})] + fine[20:])
    action(d, "seal")
    assert read(d, columns=["input_ids"])
    stats = action(d, "stats")[0]
    assert (stats["skipped_documents"]["undecodable"], stats["skipped_documents"]["empty"], stats["documents"]) == (
        len(bad),
        1,
        41,
    )


def test_killed_daemon_continues(daemon):
    d = daemon(SMALL)
    messages = [(t.encode(), {"Nats-Msg-Id": f"m{i}"}) for i, t in enumerate(texts(120))]
    publish(d, messages[:100])
    before = read(d, steps=3)
    for _ in range(3):
        d.kill()
        d.start()
    publish(d, messages[100:])
    action(d, "seal")
    after = read(d)
    assert after[-1][0]["step"] == len(after) - 1
    for (m1, c1), (m2, c2) in zip(before, after, strict=False):
        assert m1 == m2
        assert np.array_equal(c1["input_ids"], c2["input_ids"])
    assert [m["step"] for m, _ in read(d, step=len(after) - 2)] == [len(after) - 2, len(after) - 1]


@pytest.mark.parametrize(
    ("ticket", "exception", "reason"),
    [
        (b"garbage", flight.FlightServerError, "INVALID_TICKET"),
        (b'{"rank": 2, "world": 2}', flight.FlightServerError, "INVALID_TICKET"),
        (b'{"rang": 0}', flight.FlightServerError, "INVALID_TICKET"),
        (b'{"world": 3}', flight.FlightServerError, "WORLD_MISMATCH"),
        (b'{"run": "other"}', flight.FlightServerError, "RUN_MISMATCH"),
        (b'{"fingerprint": "sha256:other"}', flight.FlightServerError, "PLAN_MISMATCH"),
        (b'{"step": 1000000000}', flight.FlightServerError, "STEP_NOT_PLANNED"),
        (b"{}", flight.FlightUnavailableError, "SOURCE_DRY"),
    ],
)
def test_errors_name_their_cause(daemon, ticket, exception, reason):
    d = daemon({**SMALL, "serve.stall_timeout": "1s"})
    action(d, "checkpoint")  # it leads; before that it cannot list the run's steps
    client = flight.connect(d.flight_url)
    with pytest.raises(Exception) as caught:
        list(client.do_get(flight.Ticket(ticket), d.with_token))
    error = caught.value
    assert reason in str(error)
    if isinstance(error, flight.FlightError):
        assert reason.encode() in error.extra_info and b"loaderd" in error.extra_info
    if exception is flight.FlightUnavailableError:
        assert isinstance(error, exception)


def test_pyarrow_example(daemon):
    """Runs the pyarrow example of the quickstart unchanged."""
    page = (ROOT / "docs" / "start" / "quickstart.md").read_text()
    (example,) = [e for e in re.findall(r"```python\n(.*?)```", page, re.S) if "pyarrow" in e]
    assert len([line for line in example.splitlines() if line]) == 12
    d = daemon(SMALL)
    publish(d, [(t.encode(), {}) for t in texts(60)])
    action(d, "seal")
    example = example.replace("grpc://127.0.0.1:8815", d.flight_url)
    (d.folder / "loaderd-data").symlink_to(d.folder / "data")
    out = subprocess.run(
        [sys.executable, "-c", example], cwd=d.folder, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    lines = out.splitlines()
    assert lines[0].startswith("0 (4, 256) tokens: ") and len(lines) == read(d)[-1][0]["step"] + 1
