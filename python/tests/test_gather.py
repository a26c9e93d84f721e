"""Documents that the publisher groups into shared messages: each arrives once, and the grouping is the same whenever
they are published."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import loaderd
from loaderd import DocumentTooLargeError, InputChangedError, InvalidDocumentError, Publisher, apublish, publish
from loaderd.producer._gather import MOST_BYTES
from loaderd.producer._message import Encoder
from test_batches import Read, read
from test_columns import COLUMNS, EACH, FILLS, META, NAMES, SETUP, made, values
from tokenized import SETTINGS, TOKENIZER, documents, publish_tokens

END = SETTINGS["tokenizer.end"]
SEVERAL = {**SETTINGS, "documents.multiple_per_message": True}


def ended(tokens: list[np.ndarray]) -> list[list[int]]:
    return [[*t.tolist(), END] for t in tokens]


def in_order(documents: Read) -> list[list[int]]:
    return [ids for _, (ids, _, _) in sorted(documents.items())]


def together(documents: Read) -> list[int]:
    """Returns how many documents each message has."""
    counts: dict[int, int] = {}
    for sequence, _ in sorted(documents):
        counts[sequence] = counts.get(sequence, 0) + 1
    return list(counts.values())


def test_what_a_document_says_comes_with_it(daemon: Any) -> None:
    d = daemon(SEVERAL)
    tokens = documents(500)
    rng = np.random.default_rng(5)
    sent: list[Any] = []
    wanted = []
    for i, t in enumerate(tokens):
        mask = rng.random(len(t)) < 0.7
        mask[0] = True
        weight = [1.0, 0.5, 3.0][i % 3]
        if i % 4 == 0:
            mask[:], weight = True, 1.0
        if i % 4 == 3:
            mask[1:] = False
        sent.append(
            [
                t,
                {"ids": t, "loss": mask, "weight": weight},
                {"ids": t.tolist(), "loss": mask.tolist(), "id": f"page {i}", "weight": weight},
                {"ids": t, "loss_runs": [1, len(t) - 1], "weight": weight, "id": i},
            ][i % 4]
        )
        wanted.append((ended([t])[0], [*mask.tolist(), bool(mask[-1])], weight))
    done = publish(sent, d.nats_url, source="web", tokenizer=TOKENIZER, gather=64)
    assert (done.documents, done.position, done.last_sequence) == (500, 500, 8)
    # Ids belong to documents: a repeated id is a duplicate, regardless of its message.
    assert (
        publish(
            [{"ids": [1], "id": "page 2"}, {"ids": [1, 2]}], d.nats_url, source="web", tokenizer=TOKENIZER, gather=64
        ).documents
        == 2
    )
    got, _ = read(d)
    assert got.pop((9, 1)) == ([1, 2, END], [True] * 3, 1.0)
    assert [x for _, x in sorted(got.items())] == wanted
    assert together(got) == [64] * 7 + [52]
    with loaderd.Client(d.flight_url) as client:
        assert client.stats()["skipped_documents"]["duplicate"] == 1


def test_an_input_is_gathered_equally_whenever_it_goes_on(daemon: Any) -> None:
    d = daemon(SEVERAL)
    tokens = documents(1000)
    options: Any = {"url": d.nats_url, "tokenizer": TOKENIZER, "gather": 30, "name": "part 1"}

    def failing(n: int) -> Iterator[np.ndarray]:
        yield from tokens[:n]
        raise RuntimeError("the dataset's server went away")

    with pytest.raises(RuntimeError) as caught:
        publish(failing(100), source="web", **options)
    assert "90 documents are confirmed, and all before position 90" in "".join(
        getattr(caught.value, "__notes__", ["90 documents are confirmed, and all before position 90"])
    )
    with pytest.raises(RuntimeError):
        publish(failing(95), source="web", **options)
    done = asyncio.run(apublish(iter(tokens[:640]), source="web", **options))
    assert (done.documents, done.position, done.duplicates) == (550, 640, 0)

    async def stream() -> Any:
        for t in tokens:
            yield t

    for again in (tokens, stream()):
        done = asyncio.run(apublish(again, source="web", **options))
        assert done.documents == (360 if again is tokens else 0) and done.duplicates == 0
    assert publish(tokens, source="web", **{**options, "gather": 1}).documents == 0
    with pytest.raises(InputChangedError, match="its document 999"):
        publish(tokens[:970] + tokens[971:] + tokens[:1], source="web", **options)
    with pytest.raises(InputChangedError, match="fewer than the 1,000"):
        publish(tokens[:999], source="web", **options)
    got, _ = read(d)
    assert in_order(got) == ended(tokens)
    assert together(got) == [30] * 21 + [10] + [30] * 12


def test_publishing_again_adds_nothing(daemon: Any) -> None:
    d = daemon(SEVERAL)
    tokens = documents(200)
    options: Any = {"url": d.nats_url, "source": "web", "tokenizer": TOKENIZER, "gather": 16}
    assert publish(tokens[:100] + tokens[:4], **options).documents == 104
    done = publish(tokens[:100] + tokens[:4] + tokens[100:], **options)
    assert (done.documents, done.duplicates) == (108, 96), "the last message was not full"
    assert in_order(read(d)[0]) == ended(tokens[:100] + tokens[:4] + tokens[96:100] + tokens[:4] + tokens[100:])


def test_nothing_is_lost_or_doubled_when_the_daemon_is_killed(daemon: Any) -> None:
    d = daemon(SEVERAL)
    tokens = documents(6000)
    kills = sorted(random.Random(5).sample(range(1, len(tokens)), 3))
    restarts: list[threading.Thread] = []

    def stream() -> Iterator[np.ndarray]:
        for i, t in enumerate(tokens):
            if i in kills:
                for restart in restarts:
                    restart.join()
                d.kill()
                restarts.append(threading.Thread(target=d.start))
                restarts[-1].start()
            yield t

    done = publish(stream(), d.nats_url, source="web", tokenizer=TOKENIZER, gather=10)
    for restart in restarts:
        restart.join()
    assert (done.documents, done.duplicates, done.last_sequence) == (6000, 0, 600)
    assert in_order(read(d)[0]) == ended(tokens)


def test_documents_that_are_left_out(daemon: Any) -> None:
    """Rejected documents are not in a message, but their positions count. An input continues after a message with
    such positions, and is recognized as unchanged."""
    d = daemon(SEVERAL)
    tokens: list[Any] = documents(40)
    sent = list(tokens)
    sent[3], sent[4], sent[7], sent[20] = (
        "a text",
        [[1]],
        {"ids": np.zeros(9_000_000, np.int32)},
        {"ids": tokens[20], "path": "a/b"},
    )
    sent[21] = {"ids": tokens[21], "meta": {"lang": "en"}}
    rejected: list[InvalidDocumentError] = []
    options: Any = {
        "url": d.nats_url,
        "source": "web",
        "tokenizer": TOKENIZER,
        "gather": 8,
        "name": "x",
        "on_reject": rejected.append,
    }
    done = publish(sent[:11], **options)
    assert (done.documents, done.rejected, done.position) == (8, 3, 11)
    assert (
        "document 3: gather combines token ids, but the document is text: tokenize it (loaderd.documents(rows, "
        "tokenizer" in str(rejected[0])
    )
    assert isinstance(rejected[2], DocumentTooLargeError)
    done = publish(sent, **options)
    assert (done.documents, done.rejected, done.position) == (27, 2, 40)
    assert "document 20: path requires a message with one document" in str(
        rejected[3]
    ) and "document 21: meta 'lang': declare it with its type" in str(rejected[4])
    one_too_long = int(rejected[2].facts["limit"]) // 4 - 2000
    assert publish([{"ids": np.zeros(one_too_long, np.int32)}], **{**options, "name": "z"}).rejected == 1, (
        "with the form of several documents around it"
    )
    assert isinstance(rejected[-1], DocumentTooLargeError)
    with pytest.raises(InvalidDocumentError, match="document 3: gather"):
        publish(sent, **{**options, "name": "y", "on_reject": None})
    got, _ = read(d)
    assert in_order(got) == ended([t for i, t in enumerate(tokens) if i not in (3, 4, 7, 20, 21)])
    assert together(got) == [8, 8, 8, 8, 3]


def test_large_documents_make_small_messages(daemon: Any) -> None:
    d = daemon({**SEVERAL, "packing.pool": 8})
    tokens = [np.full(n, i + 1, np.int32) for i, n in enumerate([1000, 200_000, 100_000, 50_000, 300_000, 10, 250_000])]
    publish(tokens, d.nats_url, source="web", tokenizer=TOKENIZER, gather=256)
    got, _ = read(d)
    assert in_order(got) == ended(tokens)
    assert together(got) == [2, 2, 1, 2]
    assert 4 * 250_000 < MOST_BYTES < 4 * 300_000


def test_one_by_one(daemon: Any) -> None:
    d = daemon(SEVERAL)
    tokens = documents(30)
    with Publisher(d.nats_url, source="web", tokenizer=TOKENIZER, gather=8) as publisher:
        for t in tokens[:10]:
            publisher.send(t)
        assert publisher.flush().documents == 10
        with pytest.raises(InvalidDocumentError):
            publisher.send("text")
        for t in tokens[10:]:
            publisher.send(t)
    assert publisher.published.documents == 30
    got, _ = read(d)
    assert in_order(got) == ended(tokens) and together(got) == [8, 2, 8, 8, 4]


def test_beside_messages_of_one_document(daemon: Any) -> None:
    d = daemon(SEVERAL)
    tokens = documents(20)
    publish_tokens(d.nats_url, tokens[:5])
    publish(tokens[5:], d.nats_url, source="web", tokenizer=TOKENIZER, gather=100)
    assert in_order(read(d)[0]) == ended(tokens)


@pytest.mark.parametrize("gather", [0, -1, True, 2.0, "8"])
def test_what_is_no_number_of_documents(gather: Any) -> None:
    with pytest.raises(ValueError, match="gather="):
        publish([], source="web", gather=gather)


TYPES = {name: kind for name, (kind, _) in COLUMNS.items()}


@pytest.mark.parametrize("gather", [1, 50])
def test_values_come_along(daemon: Any, gather: int) -> None:
    """Columns of values per token, and values of documents: all for some documents, a part for some, none for some."""
    d, sent = daemon(SETUP), made(300, 100)
    said = {i: {"lang": ["de", "fr"][i % 2], "year": 1900 + i, "score": i if i % 3 else i / 8} for i in sent}
    rows = []
    for i, ids in sent.items():
        columns = {name: x for name, x in values(i, len(ids)).items() if name == "twin" or (i + len(name)) % 4}
        given = {name: x.tolist() if i % 2 else x for name, x in columns.items()} if i % 10 != 1 else None
        rows.append({"ids": ids, "columns": given, "meta": said[i] if i % 4 else None})
    options: Any = {
        "url": d.nats_url,
        "source": "web",
        "tokenizer": TOKENIZER,
        "gather": gather,
        "columns": TYPES,
        "meta": META,
    }
    assert publish(rows, name="x", **options).last_sequence == 300 // gather
    assert publish(rows, name="x", **options).documents == 0
    rows[-1]["columns"]["twin"][0] += 1
    with pytest.raises(InputChangedError):
        publish(rows, name="x", **options)
    seen = 0
    with loaderd.Client(d.flight_url, documents=True, columns=NAMES) as client:
        client.seal()
        for step in client:
            found = {name: step.column(name) for name in COLUMNS}
            meta = {name: step.values(name) for name in META}
            pieces = step.sources
            for row in range(step.rows):
                at, first = 0, pieces.offsets[row]
                for k in range(first, pieces.offsets[row + 1]):
                    n, start = int(pieces.length[k]), int(pieces.start[k])
                    i = (int(pieces.sequence[k]) - 1) * gather + int(pieces.index[k]) + 1
                    told = {name: meta[name][row][k - first] for name in META}
                    assert told == (said[i] if i % 4 else dict.fromkeys(META))
                    whole = values(i, len(sent[i]))
                    for name in COLUMNS:
                        brings = i % 10 != 1 and (name == "twin" or (i + len(name)) % 4)
                        wanted = [*(whole[name] if brings else [FILLS[name]] * len(sent[i])), FILLS[name]][
                            start : start + n
                        ]
                        assert found[name][row, at : at + n].tolist() == wanted
                        seen += n
                    at += n
    assert seen == len(COLUMNS) * (sum(map(len, sent.values())) + len(sent)) and EACH > 100
    assert d.metric("loaderd_undecodable_documents_total") == 0


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ([1, 2], "columns is a list"),
        ({"other": [1, 2]}, "columns .'other'.: declare them with their types"),
        ({"twin": [1]}, "column twin has the shape .1., want one value for each of the document's 2 tokens"),
        ({"twin": [[1, 2]]}, "column twin has the shape .1, 2."),
        ({"twin": [0.5, 1]}, "column twin has type float64, want int32"),
        ({"byte": [1, 300]}, "column byte has values from 1 to 300, outside the range of int8"),
        ({"flag": [0, 1]}, "column flag has type int64, want bool"),
        ({"half": ["a", "b"]}, "column half has type"),
        ({"half": [[1], [2, 3]]}, "column half"),
        ({"half": [1, -70000.0]}, "column half has finite values of up to 70000.0, outside the range of float16"),
        ({"half": [1, 10**9]}, "column half has finite values of up to 1000000000, outside the range of float16"),
    ],
)
def test_columns_that_are_none(columns: Any, problem: str) -> None:
    with pytest.raises(InvalidDocumentError, match=f"document 7: {problem}"):
        Encoder("web", fingerprint=TOKENIZER, columns=TYPES).encode({"ids": [1, 2], "columns": columns}, 7)


def test_values_that_are_none(daemon: Any) -> None:
    d = daemon(SETUP)
    options: Any = {"url": d.nats_url, "source": "web", "tokenizer": TOKENIZER, "gather": 2, "meta": META}
    for meta, problem in (
        ({"lang": 1}, "meta 'lang' is 1, want string"),
        ({"year": 1.5}, "meta 'year' is 1.5, want int64"),
        ({"year": True}, "want int64"),
        ({"year": 2**63}, "outside the range of int64"),
        ({"score": "a"}, "want float64"),
        ({"other": 1}, "meta 'other': declare it"),
        ({"lang": "é" * 513}, "meta 'lang' has 1,026 bytes, more than the limit of 1,024"),
        ({"lang": "\ud800"}, "not valid Unicode text"),
        ({"score": 10**400}, "outside the range of float64"),
    ):
        with pytest.raises(InvalidDocumentError, match=f"document 0: .*{problem}"):
            publish([{"ids": [1], "meta": meta}], **options)


def test_bad_values_leave_neighbours_alone(daemon: Any) -> None:
    d = daemon(SETUP)
    rejected: list[InvalidDocumentError] = []
    metas = [{"lang": "é" * 512}, {"lang": "é" * 513}, {"score": 2**53 + 1}, {"lang": "\ud800"}, {"score": 10**400}, {}]
    rows = [{"ids": [i + 1], "meta": meta} for i, meta in enumerate(metas)]
    done = publish(rows, d.nats_url, source="web", tokenizer=TOKENIZER, gather=8, meta=META, on_reject=rejected.append)
    assert (done.documents, done.rejected) == (3, 3)
    got, _ = read(d)
    assert in_order(got) == ended([np.array([i]) for i in (1, 3, 6)])
    assert d.metric("loaderd_undecodable_documents_total") == 0


def test_headers_that_are_too_large(daemon: Any) -> None:
    """A loss that alternates often makes headers larger than the server's limit: such a document is rejected alone,
    and accepted in a shared message."""
    d = daemon(SEVERAL)
    masked = {"ids": np.full(40_000, 5), "loss": np.arange(40_000) % 2, "id": "masked"}
    rows = [{"ids": [1]}, masked, {"ids": [2], "meta": {"text": "x" * 65_536}}, {"ids": [3]}]
    options: Any = {"url": d.nats_url, "source": "web", "tokenizer": TOKENIZER}
    with pytest.raises(
        DocumentTooLargeError,
        match=r"document 'masked' .document 1. has .* bytes of headers, more than the server's limit of 65,535",
    ):
        publish(rows[1:2], start=1, **options)
    rejected: list[InvalidDocumentError] = []
    done = publish(rows, on_reject=rejected.append, **options)
    assert (done.documents, done.rejected) == (2, 2) and all(isinstance(x, DocumentTooLargeError) for x in rejected)
    assert publish([masked], gather=2, **options).documents == 1
    assert in_order(read(d)[0]) == ended([np.array([1]), np.array([3]), masked["ids"]])


def test_text_has_no_columns() -> None:
    with pytest.raises(InvalidDocumentError, match=r"columns requires ids$"):
        Encoder("web", columns=TYPES).encode({"text": "a", "columns": {"twin": [1]}}, 0)


@pytest.mark.parametrize(
    "options",
    [
        {"columns": {"x": "float64"}},
        {"columns": {"ids": "int8"}},
        {"columns": ["x"]},
        {"meta": {"x": "int32"}},
        {"meta": {"id": "string"}},
    ],
)
def test_types_that_are_none(options: Any) -> None:
    with pytest.raises(ValueError, match=r"columns|meta"):
        publish([], source="web", **options)
