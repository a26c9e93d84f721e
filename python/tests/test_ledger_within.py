"""The ledger and find identify the documents of messages with several, from a daemon and on the command line."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pyarrow as pa
import pytest

import loaderd
from loaderd import publish
from tokenized import SETTINGS, TOKENIZER

SEVERAL = {
    **SETTINGS,
    "documents.multiple_per_message": True,
    "documents.meta.lang": "string",
    "documents.meta.year": "int64",
}
EVERY = 7
"""One of EVERY documents has first tokens without a loss, and a weight and values too."""


def marked(i: int) -> bool:
    return i % EVERY == 0


@pytest.fixture
def gathered(daemon: Any) -> Any:
    """A run of 200 documents of 5 to 44 tokens, 20 in a message, with ids x0, x1, ..., after one in a separate
    message."""
    d = daemon(SEVERAL)
    publish([{"ids": [1, 2, 3], "id": "alone", "weight": 2.0}], d.nats_url, source="web", tokenizer=TOKENIZER)
    sent: list[Any] = [{"ids": list(range(1, 6 + i % 40)), "id": f"x{i}"} for i in range(200)]
    for i, document in enumerate(sent):
        if marked(i):
            document |= {
                "loss": [False] * 4 + [True] * (1 + i % 40),
                "weight": 0.5,
                "meta": {"lang": "de", "year": 2000 + i},
            }
    assert (
        publish(
            sent, d.nats_url, source="web", tokenizer=TOKENIZER, gather=20, meta={"lang": "string", "year": "int64"}
        ).documents
        == 200
    )
    with loaderd.Client(d.flight_url) as client:
        client.seal()
        assert sum(1 for _ in client)
    return d


def check(piece: dict[str, Any]) -> int:
    """Compares a piece of a document in a message of several with what was published, and returns the number of the
    document."""
    i = int(piece["id"].removeprefix("x"))
    assert (piece["sequence"], piece["index"]) == (2 + i // 20, i % 20)
    assert piece["start_within"] + piece["length"] <= 6 + i % 40 and piece["start"] >= piece["start_within"]
    masked = max(0, min(piece["length"], 4 - piece["start_within"])) if marked(i) else 0
    assert piece["loss_tokens"] == piece["length"] - masked
    assert piece.get("weight") == (0.5 if marked(i) else None)
    assert piece.get("meta") == ({"lang": "de", "year": 2000 + i} if marked(i) else None)
    return i


def test_documents_within_messages(gathered: Any) -> None:
    tokens = dict.fromkeys(range(200), 0)
    with loaderd.Client(gathered.flight_url, documents=True) as client:
        for step in client:
            ledger = client.ledger(step.index, documents=True)
            assert ledger["bucket"] * len(ledger["rows"]) == step.input_ids.size
            pieces, total, k = step.sources, 0, 0
            for piece in (p for row in ledger["rows"] for p in row):
                total += piece["loss_tokens"]
                assert (piece["sequence"], piece["length"]) == (pieces.sequence[k], pieces.length[k])
                if "index" in piece:
                    assert (piece["index"], piece["start_within"]) == (pieces.index[k], pieces.start[k])
                    tokens[check(piece)] += piece["length"]
                else:
                    assert piece["sequence"] == 1
                k += 1
            assert total == step.loss_tokens
            assert {d["sequence"] for d in ledger["documents"]} == {
                p["sequence"] for row in ledger["rows"] for p in row
            }
            assert not any("index" in p or "loss_tokens" in p for row in client.ledger(step.index)["rows"] for p in row)
        assert tokens == {i: 6 + i % 40 for i in range(200)}
        for i in (0, 7, 19, 20, 199):
            found = [p for f in client.find(id=f"x{i}") for p in f["pieces"]]
            assert found and all(check(p) == i for p in found), i
            assert sum(p["length"] for p in found) == 6 + i % 40
        message = {check(p) for f in client.find(sequence=3) for p in f["pieces"]}
        assert message == set(range(20, 40))
        (alone,) = [p for f in client.find(id="alone") for p in f["pieces"]]
        assert "index" not in alone and alone["loss_tokens"] == alone["length"] == 4
        assert client.find(id="x200") == []


def test_the_command_tells_documents_within_messages(gathered: Any) -> None:
    def ledger(*args: str) -> bytes:
        return subprocess.run(
            [gathered.binary, "ledger", "--daemon", gathered.flight_url, *args],
            capture_output=True,
            timeout=60,
            check=True,
        ).stdout

    table = ledger("--find", "x7").decode()
    assert "2#7:0+13(9)" in table
    found = json.loads(ledger("--find", "x7", "--format", "json"))
    step = found[0]["step"]
    shown = next(
        line.split()
        for line in ledger("--step", str(step), "--documents").decode().splitlines()
        if line.startswith("docs/2#7 ")
    )
    assert shown == ["docs/2#7", "docs.web", "x7", "0.5", '{"lang":"de","year":2007}']
    rows = pa.ipc.open_stream(ledger("--find", "x7", "--format", "arrow")).read_all().to_pylist()
    columns = [
        {k: row[k] for k in ("id", "sequence", "index", "start_within", "length", "loss_tokens", "weight", "meta")}
        for row in rows
    ]
    assert columns == [
        {
            "id": "x7",
            "sequence": 2,
            "index": 7,
            "start_within": 0,
            "length": 13,
            "loss_tokens": 9,
            "weight": 0.5,
            "meta": '{"lang":"de","year":2007}',
        }
    ]


def test_pieces_of_a_document_that_is_split_are_found(daemon: Any) -> None:
    d = daemon({**SEVERAL, "documents.max_tokens.at": 10, "documents.max_tokens.do": "split"})
    publish(
        [{"ids": list(range(1, 4 + 11 * i)), "id": f"x{i}"} for i in range(40)],
        d.nats_url,
        source="web",
        tokenizer=TOKENIZER,
        gather=20,
    )
    with loaderd.Client(d.flight_url) as client:
        client.seal()
        assert sum(1 for _ in client)
        for i in (0, 3, 25):
            found = [p for f in client.find(id=f"x{i}") for p in f["pieces"]]
            assert {(p["sequence"], p["id"]) for p in found} == {(1 + i // 20, f"x{i}")}
            indexes = sorted({p["index"] for p in found})
            assert indexes == list(range(indexes[0], indexes[0] + -(-(3 + 11 * i) // 10))), (
                "each piece is a document of the message"
            )
            assert sum(p["length"] for p in found) == 4 + 11 * i
