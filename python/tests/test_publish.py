"""Publishing into a real daemon: a reader gets every sent document once, whatever happens in between."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import nats
import nats.errors
import nats.js.errors
import numpy as np
import pytest

from conftest import free_ports
from loaderd import (
    TLS,
    Client,
    ClosedClientError,
    DocumentTooLargeError,
    ForkedClientError,
    InputChangedError,
    InvalidDocumentError,
    NotAcceptedError,
    NotPermittedError,
    Publisher,
    PublishError,
    RunIntake,
    StreamNotFoundError,
    UnreachableError,
    apublish,
    documents,
    publish,
)
from loaderd.producer import _nats_session, _run_checks
from loaderd.producer._message import Encoder, Message
from loaderd.producer._nats_auth import find_login
from loaderd.producer._nats_session import Access, NatsConnectionError, NatsRequestError, Session
from loaderd.producer._open_batch import Ahead, OpenBatch
from loaderd.producer._stream_readers import Intake, StreamReaders, find_stream_readers
from proxy import Proxy
from tokenized import SETTINGS, TOKENIZER
from tokenized import documents as made_up
from waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
END = SETTINGS["tokenizer.end"]
TEXT = {
    "packing.buckets": "64,128",
    "packing.pool": 64,
    "packing.max_age": 256,
    "shuffle.window": 32,
    "steps.rows": 8,
    "log.level": "warn",
}


def read(daemon) -> dict[int, list[int]]:
    """Seals the run and reassembles every document from what a reader gets: sequence -> tokens. A repeated token
    fails."""
    found: dict[int, dict[int, int]] = {}
    with Client(daemon.flight_url, documents=True, timeout=60) as client:
        client.seal()
        for step in client:
            for row, pieces in zip(step.input_ids, client.ledger(step.index)["rows"], strict=True):
                at = 0
                for piece in pieces:
                    tokens = found.setdefault(piece["sequence"], {})
                    for k in range(piece["start"], piece["start"] + piece["length"]):
                        assert k not in tokens
                        tokens[k] = int(row[at])
                        at += 1
    return {sequence: [tokens[k] for k in range(len(tokens))] for sequence, tokens in sorted(found.items())}


def in_order(daemon) -> list[list[int]]:
    return list(read(daemon).values())


def ended(tokens: list[np.ndarray]) -> list[list[int]]:
    return [[*t.tolist(), END] for t in tokens]


def stats(daemon) -> dict:
    with Client(daemon.flight_url) as client:
        return client.stats()


def test_every_form_of_a_document_arrives(daemon, loaderd):
    d = daemon(TEXT)
    gpt2 = subprocess.run(
        [loaderd, "tokenize", "--tokenizer", "gpt2", "--fingerprint"], capture_output=True, text=True, check=True
    ).stdout.strip()
    ids = [5, 0, 50255, 17]
    sent = [
        ("a text\nof two lines", {}),
        ("bytes: é".encode(), {}),
        (bytearray(b"a byte array"), {}),
        (memoryview(b"a view"), {}),
        ("", {}),  # empty: counted, and in no row
        (
            {"text": "with an id", **(origin := {"id": "page-17", "path": "corpus/文.txt", "domain": "example.org"})},
            origin,
        ),
        ({"text": b"bytes in a dict", "id": 18}, {"id": "18"}),
        (
            {"text": 'json "quoted"', "meta": {"stars": 3, "tags": ["x"]}, "id": "with meta"},
            {"id": "with meta", "content_type": "application/json"},
        ),
        ({"text": "half a surrogate \ud800" + "!" * 300, "path": None}, {}),
        ({"text": b"a byte \xff" + b"!" * 100, "meta": {"stars": 3}}, {"content_type": "application/json"}),
        (ids, {"content_type": "application/vnd.loaderd.tokens"}),
        (tuple(ids), {}),
        (np.array(ids, np.uint16), {}),
        (np.array(ids, np.int64)[::-1], {}),
        ({"ids": np.array(ids), "id": "tokens", "path": "p"}, {"id": "tokens", "path": "p"}),
        ({"ids": []}, {}),
    ]
    expected = [
        "a text\nof two lines",
        "bytes: é",
        "a byte array",
        "a view",
        None,
        "with an id",
        "bytes in a dict",
        'json "quoted"',
        "half a surrogate \ufffd\ufffd\ufffd" + "!" * 300,
        "a byte \ufffd" + "!" * 100,
        ids,
        ids,
        ids,
        ids[::-1],
        ids,
        None,
    ]
    done = publish([s for s, _ in sent], d.nats_url, source="web", tokenizer=gpt2)
    assert (done.documents, done.duplicates, done.rejected, done.position) == (len(sent), 0, 0, len(sent))
    assert done.last_sequence == len(sent)

    lines = "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(expected) if isinstance(t, str))
    out = subprocess.run(
        [loaderd, "tokenize", "--tokenizer", "gpt2"], input=lines, capture_output=True, text=True, check=True
    ).stdout
    of_text = {json.loads(line)["id"]: json.loads(line)["ids"] for line in out.splitlines()}
    want = {i + 1: [*of_text.get(i, e), 50256] for i, e in enumerate(expected) if e is not None}
    assert read(d) == want
    with Client(d.flight_url) as client:
        origins = {o["sequence"]: o for step in client for o in client.ledger(step.index, documents=True)["documents"]}
    for sequence in want:
        origin, told = origins[sequence], sent[sequence - 1][1]
        assert origin["subject"] == "docs.web"
        assert {k: origin[k] for k in told} == told
    now = stats(d)
    assert [now["skipped_documents"][why] for why in ("undecodable", "empty", "duplicate")] == [0, 2, 0]


def test_publishing_again_adds_nothing(daemon):
    d = daemon(SETTINGS)
    tokens = made_up(1500)
    tokens[7] = tokens[3]  # equal documents in two positions are two documents
    first = publish(tokens, d.nats_url, source="a", tokenizer=TOKENIZER)
    again = publish(tokens[:300], d.nats_url, source="a", tokenizer=TOKENIZER)
    assert (first.documents, first.duplicates) == (1500, 0)
    assert (again.documents, again.duplicates, again.bytes, again.position) == (0, 300, 0, 300)
    # Explicit ids: in the same batch, and in another one.
    named = [{"ids": t, "id": f"id-{i % 40}"} for i, t in enumerate(tokens[:60])]
    assert publish(named, d.nats_url, source="b", tokenizer=TOKENIZER).duplicates == 20
    # A batch of which the stream has a part, in the middle.
    mixed = [{"ids": t, "id": f"id-{i}"} for i, t in enumerate(tokens[:90])]
    done = publish(mixed, d.nats_url, source="b", tokenizer=TOKENIZER)
    assert (done.documents, done.duplicates) == (50, 40)
    assert in_order(d) == ended(tokens + tokens[:40] + tokens[40:90])
    assert stats(d)["skipped_documents"]["duplicate"] == 0  # none was stored


def test_named_input_is_read_back_by_consumers_where_they_are_permitted(daemon, monkeypatch):
    from nats.js import JetStreamContext

    subscribe = JetStreamContext.subscribe
    consumers = 0

    async def counted(self, *args, **kwargs):
        nonlocal consumers
        found = await subscribe(self, *args, **kwargs)
        consumers += 1
        return found

    monkeypatch.setattr(JetStreamContext, "subscribe", counted)
    d = daemon(SETTINGS)
    tokens = made_up(300)
    token = (d.folder / "data" / "operator.token").read_text().strip()
    for url, permitted in ((d.nats_url, False), (f"nats://documents:{token}@{d.nats}", True)):
        consumers = 0
        options = {"url": url, "source": f"web{permitted}", "tokenizer": TOKENIZER}
        assert publish(tokens[:200], name="part 1", **options).documents == 200
        assert publish(tokens[:10], name="part 2", **options).documents == 10
        assert publish(tokens[:20], **options).documents == 20
        assert publish(tokens, name="part 1", **options).documents == 100
        assert (consumers > 0) == permitted


def test_named_input_goes_on_where_it_stands(daemon):
    d = daemon(SETTINGS)
    tokens = made_up(2500)
    options = {"url": d.nats_url, "source": "web", "tokenizer": TOKENIZER}
    assert publish(tokens[:1200], name="part 1", **options).documents == 1200
    done = publish(tokens, name="part 1", **options)
    assert (done.documents, done.duplicates, done.position) == (1300, 0, 2500)
    assert publish(tokens, name="part 1", **options).documents == 0
    # Another input was published last: the position of the first one is still found.
    assert publish(tokens[:10], name="part 2", **options).documents == 10
    one_shot = (t for t in tokens)
    assert publish(one_shot, name="part 1", **options).documents == 0
    # Documents that the stream has are not read again if the dataset can skip them.
    asked: list[int] = []

    class Dataset:
        def __init__(self, first: int = 0) -> None:
            self.first = first

        def skip(self, count: int) -> Dataset:
            return Dataset(self.first + count)

        def __iter__(self) -> Iterator[dict]:
            for i in range(self.first, 20):
                asked.append(i)
                yield {"input_ids": tokens[i].tolist()}

    rows = documents(Dataset(), ids="input_ids", tokenizer=TOKENIZER)
    done = publish(rows, d.nats_url, source="web", name="part 2")
    assert (done.documents, asked) == (10, list(range(9, 20)))
    # A changed input is not confused with the stored one.
    with pytest.raises(InputChangedError, match="its document 19"):
        publish(tokens[5:], name="part 2", **options)
    with pytest.raises(InputChangedError, match="fewer than the 20"):
        publish(tokens[:19], name="part 2", **options)
    assert publish(tokens[20:30], name="part 2", start=20, **options).position == 30

    # A dataset whose skip changes it in place, and returns nothing.
    class Odd(Dataset):
        def skip(self, count: int) -> None:  # type: ignore[override]
            self.first += count

    for rows in (Odd(), documents(Odd(), ids="input_ids")):
        with pytest.raises(TypeError, match=r"Odd.skip returned None: want an iterable"):
            publish(rows, name="part 2", **options)
    with Publisher(name="part 2", **options) as publisher:
        assert publisher.position == 30
        publisher.send(tokens[30])
    assert in_order(d) == ended(tokens + tokens[:31])


def test_nothing_is_lost_or_doubled_when_the_daemon_is_killed(daemon):
    d = daemon(SETTINGS)
    tokens = made_up(6000)
    kills = sorted(random.Random(5).sample(range(1, len(tokens)), 4))
    reasons: list[str] = []

    def stream() -> Iterator[np.ndarray]:
        for i, t in enumerate(tokens):
            if i in kills:
                for restart in restarts:
                    restart.join()
                d.kill()
                restart = threading.Thread(target=d.start)
                restart.start()
                restarts.append(restart)
            yield t

    restarts: list[threading.Thread] = []
    done = publish(stream(), d.nats_url, source="web", tokenizer=TOKENIZER, on_wait=reasons.append)
    for restart in restarts:
        restart.join()
    assert done.documents == len(tokens) and done.duplicates == 0 and done.waited > 0
    assert reasons and reasons[-1] == "" and "no answer from NATS" in reasons[0]
    assert in_order(d) == ended(tokens)
    assert stats(d)["skipped_documents"]["duplicate"] == 0  # not even in the stream


def test_OpenBatch_IsStagedWhileAnotherIsCommitted(daemon):
    """What the committer requires of the server."""
    d = daemon(SETTINGS)
    encoder = Encoder("web", fingerprint=TOKENIZER)
    tokens = made_up(9)
    messages = [encoder.encode(t, i) for i, t in enumerate(tokens)]

    async def run() -> None:
        session = Session(Access(d.nats_url))
        await session.first(30)
        first, second, third = (OpenBatch(session, "docs.web") for _ in range(3))  # two may be open
        await first.send(messages[:2])
        await second.send(messages[3:5])
        assert (await first.commit(messages[2]))["seq"] == 3
        await third.send(messages[6:8])
        await third.abandon()
        assert (await second.commit(messages[5]))["seq"] == 6
        with pytest.raises(NatsRequestError, match="incomplete"):
            await third.commit(messages[8])
        await session.close()

    asyncio.run(run())
    assert in_order(d) == ended(tokens[:6])


@pytest.mark.parametrize("fault", ["none", "lost answer", "kill", "duplicate"])
def test_publish_SendsTheNextBatchWhileOneIsCommitted(daemon, monkeypatch, fault):
    """The third commit ends with the fault once a part of the next batch is sent."""
    d = daemon(SETTINGS)
    tokens = made_up(1200)
    named = [{"ids": t, "id": f"id-{i}"} for i, t in enumerate(tokens)]
    filled: list[OpenBatch] = []
    commits: list[int] = []
    fill, commit = OpenBatch.fill, OpenBatch.commit

    async def noted(self: OpenBatch, ahead: Ahead) -> None:
        filled.append(self)
        await fill(self, ahead)

    async def failing(self: OpenBatch, message: Message) -> dict:
        commits.append(len(self.sent))
        if len(commits) != 3:
            return await commit(self, message)
        if fault == "duplicate":
            publish([named[message.position]], d.nats_url, source="web", tokenizer=TOKENIZER)
        deadline = time.monotonic() + 60
        while not (filled and filled[-1] is not self and filled[-1].sent):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.001)
        if fault == "kill":
            d.kill()
            restart.start()
        answer = await commit(self, message)
        if fault == "lost answer":
            raise NatsConnectionError("no answer")
        return answer

    restart = threading.Thread(target=d.start)
    monkeypatch.setattr(OpenBatch, "fill", noted)
    monkeypatch.setattr(OpenBatch, "commit", failing)
    done = publish(named, d.nats_url, source="web", tokenizer=TOKENIZER, batch_bytes=20_000, on_wait=lambda _: None)
    if fault == "kill":
        restart.join()
    assert len(commits) > 5
    assert done.documents + done.duplicates == len(tokens) and done.duplicates == (fault == "duplicate")
    got = in_order(d)
    if fault == "duplicate":  # the other publisher's document is earlier
        assert sorted(got) == sorted(ended(tokens))
        other = next(i for i, t in enumerate(ended(tokens)) if got[i] != t)
        assert [t for t in got if t != got[other]] == [t for t in ended(tokens) if t != got[other]]
    else:
        assert got == ended(tokens)
    assert stats(d)["skipped_documents"]["duplicate"] == 0


def test_nothing_is_lost_or_doubled_over_a_connection_that_breaks(daemon):
    d = daemon(SETTINGS)
    tokens = made_up(1500)
    cuts = random.Random(11)
    # Cut anywhere after the greeting: while documents are sent, inside an acknowledgement, and while the outcome is
    # read back.
    with Proxy(int(d.nats_url.rpartition(":")[2]), budget=lambda: cuts.randrange(2500, 5000)) as proxy:
        url = d.nats_url.replace(d.nats, proxy.url.removeprefix("grpc://"))
        done = publish(tokens, url, source="web", tokenizer=TOKENIZER, batch_bytes=20_000)
    assert done.documents == len(tokens) and proxy.cuts > 5
    assert in_order(d) == ended(tokens)
    assert stats(d)["skipped_documents"]["duplicate"] == 0


def test_the_token_of_a_daemon_on_this_machine_is_found(daemon, monkeypatch, tmp_path):
    d = daemon(SETTINGS)
    plain, tokens = f"nats://{d.nats}", made_up(20)
    monkeypatch.delenv("LOADERD_STREAM__DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotPermittedError, match=r"producer.token"):
        publish(tokens, plain, source="web", tokenizer=TOKENIZER)
    with pytest.raises(NotPermittedError):
        publish(tokens, plain, source="web", tokenizer=TOKENIZER, token="producer_" + 64 * "0")
    secret = (d.folder / "data" / "producer.token").read_text().strip()
    assert publish(tokens[:5], plain, source="web", tokenizer=TOKENIZER, token=secret, start=0).documents == 5
    monkeypatch.setenv("LOADERD_STREAM__DIR", str(d.folder / "data"))
    assert publish(tokens[5:10], plain, source="web", tokenizer=TOKENIZER, start=5).documents == 5
    with pytest.raises(NotPermittedError, match="lock file"):  # localhost may be another address
        publish(tokens, plain.replace("127.0.0.1", "localhost"), source="web", tokenizer=TOKENIZER)
    with pytest.raises(UnreachableError):  # the token is only for its own server
        publish(tokens, "nats://127.0.0.1:1", source="web", tokenizer=TOKENIZER, connect_timeout=0.1)
    monkeypatch.delenv("LOADERD_STREAM__DIR")
    (tmp_path / "loaderd-data").symlink_to(d.folder / "data")
    assert publish(tokens[10:], plain, source="web", tokenizer=TOKENIZER, start=10).documents == 10
    assert in_order(d) == ended(tokens)


@pytest.mark.parametrize("nonce", [', "nonce": "uhTm8MPwoNhhV9g"', ""], ids=["nonce", "no nonce"])
@pytest.mark.parametrize("given", ["found", "token", "password", "url"])
def test_no_token_is_sent_to_a_process_that_listens_where_the_daemon_was(tmp_path, monkeypatch, given, nonce):
    token = "producer_" + 64 * "7"
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "lock").write_text(json.dumps({"host": "h", "pid": 1, "nats": f"nats://{address}"}))
        (tmp_path / "producer.token").write_text(token)
        monkeypatch.setenv("LOADERD_STREAM__DIR", str(tmp_path if given == "found" else tmp_path / "none"))
        options = (
            {"token": token} if given == "token" else {"password": token, "user": "x"} if given == "password" else {}
        )
        url = f"nats://producer:{token}@{address}" if given == "url" else f"nats://{address}"
        sent = []

        def impostor() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as lines:
                info = (
                    '"server_id": "N", "version": "2.15.2", "proto": 1, "headers": true, "auth_required": true, '
                    '"max_payload": 1048576'
                )
                lines.write(f"INFO {{{info}{nonce}}}\r\n".encode())
                lines.flush()
                sent.append(lines.readline())
                lines.write(b"-ERR 'Authorization Violation'\r\n")
                lines.flush()

        thread = threading.Thread(target=impostor, daemon=True)
        thread.start()
        with pytest.raises((NotPermittedError, UnreachableError)):
            publish([[1]], url, source="web", tokenizer=TOKENIZER, connect_timeout=0.1, **options)
        thread.join(60)
    assert sent and sent[0].startswith(b"CONNECT") and token.encode() not in sent[0]
    assert (b'"sig"' in sent[0]) == bool(nonce)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("nats://127.0.0.1:4222", True),
        ("nats://127.0.0.1", True),
        ("tls://127.0.0.1:4222/", True),
        ("nats://[::1]:4222", False),
        ("nats://localhost:4222", False),
        ("nats://127.0.0.2:4222", False),
        ("nats://127.0.0.1:4223", False),
    ],
)
def test_FindLogin_AnnouncedAddressAlone(tmp_path, monkeypatch, url, found):
    (tmp_path / "lock").write_text(json.dumps({"host": "h", "pid": 1, "nats": "nats://127.0.0.1:4222"}))
    (tmp_path / "producer.token").write_text("producer_7")
    monkeypatch.setenv("LOADERD_STREAM__DIR", str(tmp_path))
    assert find_login([url]) == (("producer", "producer_7") if found else None)


def test_full_stream_is_waited_for(daemon):
    d = daemon({**SETTINGS, "stream.max_bytes": "1MiB"})
    tokens = made_up(4000)  # 1.6 MB of ids and half a megabyte of headers
    waiting, reasons = threading.Event(), []

    def on_wait(reason: str) -> None:
        reasons.append(reason)
        if reason:
            waiting.set()

    results = []
    thread = threading.Thread(
        target=lambda: results.append(publish(tokens, d.nats_url, source="web", tokenizer=TOKENIZER, on_wait=on_wait)),
        daemon=True,
    )
    thread.start()
    assert waiting.wait(30)
    assert (
        "stream DOCS is full" in reasons[0] and "of 1,048,576 bytes" in reasons[0] and "stream.max_bytes" in reasons[0]
    )
    # Patience ends for one publisher, while the other one continues to wait.
    with pytest.raises(PublishError, match="is full"):
        publish([[1] * 1000], d.nats_url, source="other", tokenizer=TOKENIZER, timeout=0.3, on_wait=lambda _: None)
    assert thread.is_alive()
    d.stop()
    d.settings["stream.max_bytes"] = "16MiB"
    d.start()
    thread.join(60)
    assert results and results[0].documents == len(tokens) and results[0].waited > 0
    assert reasons[-1] == ""
    assert in_order(d) == ended(tokens)


def reported(daemon) -> None:
    """Waits until the run has reported to producers what it accepts."""

    async def known() -> bool:
        session = Session(Access(daemon.nats_url))
        try:
            await session.first(30)
            readers = await find_stream_readers(session, await session.find_stream("docs.web"))
            return readers is not None and bool(readers.intakes)
        finally:
            await session.close()

    wait_for(lambda: asyncio.run(known()))


def test_documents_that_the_run_would_reject_are_refused(daemon):
    d = daemon(SETTINGS)
    reported(d)
    tokens, other = made_up(40), "sha256:" + "0" * 64
    with pytest.raises(
        NotAcceptedError,
        match=(
            f"token ids of the tokenizer {other}, and run default has tokenizer none \\({TOKENIZER}\\): every document"
        ),
    ):
        publish(tokens, d.nats_url, source="web", tokenizer=other)
    with pytest.raises(NotAcceptedError, match="the documents are texts, and run default accepts only token ids"):
        asyncio.run(apublish(["a text"], d.nats_url, source="web"))
    with pytest.raises(NotAcceptedError), Publisher(d.nats_url, source="web", tokenizer=other, gather=4) as publisher:
        for ids in tokens:
            publisher.send(ids)
    assert publish(tokens, d.nats_url, source="web", tokenizer=TOKENIZER).last_sequence == len(tokens)
    assert in_order(d) == ended(tokens)


def test_what_the_run_skips_is_reported(daemon, caplog, monkeypatch):
    monkeypatch.setattr(_run_checks, "QUIET_SECONDS", 60)  # however slowly the run reads
    d = daemon(SETTINGS)
    reported(d)
    options = {"url": d.nats_url, "source": "web", "tokenizer": TOKENIZER, "report": 60}
    done = publish([[1, 2], [1, 5000], {"ids": [1, 2, 3], "loss": [False] * 3}, [6000]], **options)
    assert done.runs == (RunIntake("default", 4, {"undecodable": 2, "masked": 1}),)
    assert (
        "run default read 4 documents (of all producers) during this publish and skipped 3: 1 masked, 2 undecodable "
        "(see loaderd dlq list)" in caplog.text
    )
    with Publisher(**options) as publisher:
        publisher.send([1, 2, 3])
        assert publisher.flush().runs == ()  # publishing has not ended
    assert publisher.published.runs == (RunIntake("default", 1, {}),)
    assert publish([[7000]], **options | {"report": 0, "start": 5}).runs == ()


def test_reports_of_another_run_of_the_name_begin_anew():
    now = Intake("none", TOKENIZER, False, 10, False, 8, {"undecodable": 2, "empty": 0})
    before = Intake("none", TOKENIZER, False, 4, False, 5, {"undecodable": 2, "empty": 0})
    assert now.since(before, "a", 12) == RunIntake("a", 3, {}, 2)
    assert before.since(now, "a", 4) == RunIntake("a", 5, {"undecodable": 2})
    assert StreamReaders(reads=("a", "b"), intakes={"a": now}).reads_on(10) == (True, 10)
    assert StreamReaders(reads=("a",), intakes={"a": now}).reads_on(10) == (False, 10)
    assert StreamReaders(reads=("a", "b"), intakes={"a": now}).rejects("") == (
        f"the documents are texts, and run a accepts only token ids (tokenizer.name: none, fingerprint {TOKENIZER}): "
        "every document would become a dead letter",
        False,
    )


def test_Audience_RejectsWithTheTokenizerOfEachRun():
    intakes = {
        run: Intake(run, fingerprint, False, 0, False, 0, {})
        for run, fingerprint in (("qwen", "f1"), ("none", "f2"), ("llama", "f3"))
    }
    readers = StreamReaders(reads=("qwen", "none", "llama"), intakes=intakes)
    ends = ": every document would become a dead letter"
    assert readers.rejects("f2") == (
        "the documents are token ids of the tokenizer f2, and run qwen has tokenizer qwen (f1), and run llama has "
        f"tokenizer llama (f3){ends}",
        False,
    )
    assert readers.rejects("") == (
        "the documents are texts, and run qwen accepts only token ids (tokenizer.name: qwen, fingerprint f1), and run "
        "none accepts only token ids"
        " (tokenizer.name: none, fingerprint f2), and run llama accepts only token ids (tokenizer.name: llama, "
        f"fingerprint f3){ends}",
        True,
    )


def test_what_came_before_an_error_is_confirmed(daemon):
    d = daemon(SETTINGS)
    tokens = made_up(1300)

    def failing() -> Iterator[np.ndarray]:
        yield from tokens[:1234]
        raise RuntimeError("the dataset's server went away")

    with pytest.raises(RuntimeError, match="went away") as caught:
        publish(failing(), d.nats_url, source="web", tokenizer=TOKENIZER)
    assert "1,234 documents are confirmed" in "".join(
        getattr(caught.value, "__notes__", ["1,234 documents are confirmed"])
    )
    with pytest.raises(InvalidDocumentError, match=r"document 2: .*dimensions"):
        publish([*tokens[:2], [[1]], tokens[3]], d.nats_url, source="other", tokenizer=TOKENIZER)
    # With on_reject, publishing continues without documents that cannot be sent.
    rejected: list[InvalidDocumentError] = []
    large = {"ids": np.zeros(9_000_000, np.int32), "id": "a whole library"}
    done = publish(
        [tokens[1234], large, {"body": "x"}, tokens[1237]],
        d.nats_url,
        source="web",
        tokenizer=TOKENIZER,
        start=1234,
        on_reject=rejected.append,
    )
    assert (done.documents, done.rejected, done.position) == (2, 2, 1238)
    assert (
        isinstance(rejected[0], DocumentTooLargeError)
        and "a whole library" in str(rejected[0])
        and "36,000," in str(rejected[0])
    )
    assert rejected[0].facts["document"] == "a whole library" and "unknown keys ['body']" in str(rejected[1])
    assert in_order(d) == ended(tokens[:1234] + tokens[:2] + [tokens[1234], tokens[1237]])


def test_publish_names_the_document_whose_id_is_too_long(daemon):
    d = daemon(SETTINGS)
    documents = [{"ids": tokens, "id": str(i)} for i, tokens in enumerate(made_up(10))]
    documents[7]["id"] = "i" * 600
    with pytest.raises(
        PublishError, match=r"document 7\) .*message id \(Nats-Msg-Id\) has 600 bytes, producers may use at most 512"
    ):
        publish(documents, d.nats_url, source="web", tokenizer=TOKENIZER)


def test_one_by_one(daemon):
    d = daemon(SETTINGS)
    tokens = made_up(400)
    stored = threading.Semaphore(0)
    with Publisher(d.nats_url, source="live", tokenizer=TOKENIZER, progress=lambda _: stored.release()) as publisher:
        publisher.send(tokens[0])
        assert stored.acquire(timeout=10)  # without a flush
        assert publisher.published.documents == 1
        with pytest.raises(InvalidDocumentError, match=r"require tokenizer=|not a document"):
            publisher.send(object())  # type: ignore[arg-type]
        threads = [
            threading.Thread(target=lambda part=part: [publisher.send(t) for t in part])
            for part in (tokens[1:200], tokens[200:])
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert publisher.flush(timeout=30).documents == 400
        assert publisher.position == 401
    with pytest.raises(ClosedClientError):
        publisher.send(tokens[0])
    # Equal documents of a later publisher are separate documents.
    with Publisher(d.nats_url, source="live", tokenizer=TOKENIZER) as publisher:
        publisher.send(tokens[0])
    assert not [t for t in threading.enumerate() if t.name == "loaderd-publisher"]
    assert sorted(in_order(d)) == sorted(ended([*tokens, tokens[0]]))


def test_from_a_coroutine(daemon):
    d = daemon(SETTINGS)
    tokens = made_up(2600)
    turns = 0

    async def produce(part: list[np.ndarray]) -> AsyncIterator[np.ndarray]:
        for i, t in enumerate(part):
            if i % 100 == 0:
                await asyncio.sleep(0)
            yield t

    async def run() -> None:
        nonlocal turns

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.001)
                turns += 1

        other = asyncio.create_task(others())
        done = await apublish(produce(tokens[:1200]), d.nats_url, source="web", name="all", tokenizer=TOKENIZER)
        assert (done.documents, done.position) == (1200, 1200)
        done = await apublish(produce(tokens[:1300]), d.nats_url, source="web", name="all", tokenizer=TOKENIZER)
        assert (done.documents, done.position) == (100, 1300)
        assert (
            await apublish(tokens[:2000], d.nats_url, source="web", name="all", tokenizer=TOKENIZER)
        ).documents == 700
        with pytest.raises(InputChangedError):
            await apublish(produce(tokens[:3]), d.nats_url, source="web", name="all", tokenizer=TOKENIZER)
        # publish works inside a running loop too.
        assert (
            publish(tokens[2000:2500], d.nats_url, source="web", name="all", start=2000, tokenizer=TOKENIZER).documents
            == 500
        )
        # Documents sent before a cancellation are confirmed.
        never, begun = asyncio.Event(), asyncio.Event()

        async def stuck() -> AsyncIterator[np.ndarray]:
            for t in tokens[2500:]:
                yield t
            begun.set()
            await never.wait()

        task = asyncio.create_task(
            apublish(stuck(), d.nats_url, source="web", name="all", start=2500, tokenizer=TOKENIZER)
        )
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        other.cancel()

    asyncio.run(run())
    assert turns > 5
    assert in_order(d) == ended(tokens)


def test_coroutine_that_is_cancelled_leaves_no_thread():
    async def run() -> None:
        nobody = f"nats://127.0.0.1:{free_ports(1)[0]}"
        task = asyncio.create_task(apublish(["a"], nobody, source="web"))
        while not publishers():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not publishers()

    asyncio.run(run())


def publishers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "loaderd-publisher"]


def test_rows_that_are_no_documents_are_told_to_on_reject(daemon):
    d = daemon(SETTINGS)
    tokens = made_up(6)
    rows: list[object] = [{"ids": t, "n": i} for i, t in enumerate(tokens)]
    rows[1], rows[4] = {"tokens": tokens[1]}, None
    rejected: list[InvalidDocumentError] = []
    options = {"url": d.nats_url, "source": "web", "tokenizer": TOKENIZER}
    done = publish(documents(rows, ids="ids"), name="rows", on_reject=rejected.append, **options)
    assert (done.documents, done.rejected, done.position) == (4, 2, 6)
    assert [str(e).split(" (")[0] for e in rejected] == ["cannot read row 1", "cannot read row 4"]
    texts = documents(
        [{"text": "0"}, {"text": None}, {}, {"text": "3"}],
        tokenizer=TOKENIZER,
        encode=lambda texts: [[int(t)] for t in texts],
        batch_size=3,
    )
    done = asyncio.run(apublish(texts, on_reject=rejected.append, **options))
    assert (done.documents, done.rejected, done.position) == (2, 2, 4)
    assert "row 1: its text is a NoneType" in str(rejected[2])
    with pytest.raises(InvalidDocumentError, match=r"cannot read row 1 .KeyError"):
        publish(documents(rows, ids="ids"), **options)
    assert in_order(d) == [*ended([tokens[i] for i in (0, 2, 3, 5)]), [0, END], [3, END], *ended([tokens[0]])]


INTERRUPTED = """
import sys, threading
import loaderd
try:
    documents = ({"ids": [i % 900]} for i in range(10**9))
    options = {"source": "web", "tokenizer": sys.argv[2]}
    loaderd.publish(documents, sys.argv[1], **options, progress=print, on_wait=print)
except KeyboardInterrupt as interrupt:
    print(*getattr(interrupt, "__notes__", ["(no notes before Python 3.11)"]))
print([t.name for t in threading.enumerate()])
"""


@pytest.mark.parametrize("full", [False, True])
def test_interrupt_while_publishing(interrupts, daemon, full):
    d = daemon({**SETTINGS, "stream.max_bytes": "1MiB"} if full else SETTINGS)
    program = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, d.nats_url, TOKENIZER], stdout=subprocess.PIPE, text=True, env=environment()
    )
    lines = []
    for line in program.stdout:
        lines.append(line)
        if "is full" in line if full else "documents=" in line and len(lines) > 3:
            break
    program.send_signal(signal.SIGINT)
    rest, _ = program.communicate(timeout=30)
    assert program.returncode == 0
    assert rest.splitlines()[-1] == "['MainThread']"
    stored = len(read(d))
    confirmed = [int(n) for n in re.findall(r"documents=(\d+)", "".join(lines) + rest)]
    assert stored == confirmed[-1]  # confirmable documents were awaited, a full stream was not
    assert ("TimeoutError" in rest) == full


def test_dataset_and_tokenizer_of_hugging_face(daemon, loaderd):
    import datasets
    import transformers
    from tokenizers import Tokenizer

    import reference_tokenizers

    d = daemon(TEXT)
    gpt2 = subprocess.run(
        [loaderd, "tokenize", "--tokenizer", "gpt2", "--fingerprint"], capture_output=True, text=True, check=True
    ).stdout.strip()
    texts = [f"Document {i}: " + "naïve words, and 1,234 numbers. " * (i % 40) for i in range(300)]
    rows = [
        {"content": t, "url": f"https://example.org/{i}", "host": "example.org", "stars": i}
        for i, t in enumerate(texts)
    ]
    plain = datasets.Dataset.from_list(rows)
    streamed = plain.to_iterable_dataset(num_shards=4)
    small = Tokenizer.from_str(json.dumps(reference_tokenizers.builtin_json("gpt2")))
    large = transformers.PreTrainedTokenizerFast(tokenizer_object=small, model_max_length=16)
    tiktoken = reference_tokenizers.tiktoken_encoding("gpt2")

    columns = {"text": "content", "id": "url", "path": lambda row: f"stars/{row['stars']}", "domain": "host"}
    options = {"url": d.nats_url, "tokenizer": gpt2}
    as_text = documents(streamed, **columns, meta=["stars"])
    assert publish(as_text, d.nats_url, source="text", name="hub").documents == 300
    assert publish(as_text, d.nats_url, source="text", name="hub").documents == 0
    assert list(as_text.skip(297)) == list(as_text)[297:]
    for source, tokenizer in (("tokenizers", small), ("transformers", large), ("tiktoken", tiktoken)):
        made = documents(
            streamed if source == "transformers" else plain, text="content", tokenizer=tokenizer, batch_size=64
        )
        assert publish(made, source=source, name="hub", **options).documents == 300
        assert publish(made, source=source, name="hub", **options).documents == 0
    own = documents(
        plain, text="content", tokenizer=gpt2, encode=lambda batch: [e.ids for e in small.encode_batch(batch)]
    )
    publish(own, source="own", **options)
    got = in_order(d)
    want = [[*e.ids, 50256] for e in small.encode_batch(texts)]
    assert got == want * 5  # text and ids, from every producer
    with Client(d.flight_url) as client:
        found = client.find(id="https://example.org/17")
        origin = next(
            o
            for o in client.ledger(found[0]["step"], documents=True)["documents"]
            if o["id"] == "https://example.org/17"
        )
    assert (origin["path"], origin["domain"]) == ("stars/17", "example.org")

    small.enable_truncation(16)
    with pytest.raises(ValueError, match="truncates"):
        documents(plain, tokenizer=small)
    with pytest.raises(InvalidDocumentError, match=r"cannot read row 0 .*content, url, host, stars"):
        list(documents(plain, text="body"))


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (None, "a NoneType is not a document"),
        (17, "a int is not a document"),
        ({}, "no content: want one of text, ids, parts and messages"),
        ({"text": "a", "ids": [1]}, "both text and ids"),
        ({"text": 3}, "text is a int"),
        ({"text": "a", "url": "b"}, r"unknown keys \['url'\].*loaderd.documents"),
        ({"text": "a", "id": ""}, "id is empty"),
        ({"text": "a", "id": "x\r\nNats-Rollup: all"}, "control characters"),
        ({"text": "a", "path": " p"}, "trailing spaces"),
        ({"text": "a", "domain": True}, "domain is a bool"),
        ({"text": "a", "id": "\ud800"}, "not valid Unicode"),
        ({"text": "a", "meta": {"x": object()}}, "meta is not JSON"),
        ({"text": "a", "meta": {"x": float("nan")}}, "meta is not JSON"),
        ({"ids": [1], "meta": [1]}, "meta is a list, want a dict"),
        ({"ids": [1], "meta": {"x": object()}}, "meta is not JSON"),
        (b"\xff" + b"!" * 98, "1 of 99 bytes of text are not UTF-8, more than 1 in 100"),
        (memoryview("ol\u00e9".encode("latin1")), "1 of 3 bytes"),
        ({"text": "na\u00efve".encode("utf-16")}, "3 of 12 bytes"),
        ({"text": bytearray(b"\xe2\x82"), "meta": {"x": 1}}, "2 of 2 bytes"),
        ("half a surrogate \ud800!", "3 of 21 bytes"),
        ({"text": "\udfff", "meta": {"x": 1}}, "3 of 3 bytes"),
        ({"parts": [("a" * 290, True), ("\ud800 b", False)]}, "3 of 295 bytes"),
        ([1.5], "float64, want integers"),
        ([True], "bool, want integers"),
        (["a"], "want integers"),
        ([[1, 2], [3]], "token ids"),
        ([-1], "from -1 to -1"),
        ([2**31], "want 0 to 2147483647"),
        ([2**80], "token ids"),
    ],
)
def test_what_is_no_document(document, problem):
    with pytest.raises(InvalidDocumentError, match=problem):
        Encoder("web", fingerprint=TOKENIZER).encode(document, 4)


def test_Encoder_FewBytesThatAreNotUTF8AreLeftToTheRun():
    text = b"\xff" + b"!" * 99
    assert Encoder("web").encode(text, 0).payload == Encoder("web").encode({"text": text}, 0).payload == text
    assert json.loads(Encoder("web").encode({"text": text, "meta": {"x": 1}}, 0).payload)["text"] == "\ufffd" + "!" * 99
    assert (
        Encoder("web").encode({"parts": [("\ud800", True), ("!" * 297, False)]}, 0).payload.count("\ufffd".encode())
        == 3
    )


def test_ids_are_made_as_documented():
    message = Encoder("web", input="crawl 7").encode("some text", 12)
    digest = hashlib.sha256(b"web\0crawl 7\0" + b"12\0" + b"some text").hexdigest()
    assert message.headers == {"Nats-Msg-Id": digest[:32]}
    others = [
        ("other", "crawl 7", 12, "some text"),
        ("web", "", 12, "some text"),
        ("web", "crawl 7", 13, "some text"),
        ("web", "crawl 7", 12, ""),
    ]
    assert len({Encoder(s, input=n).encode(t, p).id for s, n, p, t in others} | {message.id}) == 5
    placed = Encoder("web", input="crawl 7", place=True).encode({"text": "t", "id": 5}, 12)
    assert placed.headers == {"Nats-Msg-Id": "5", "Loaderd-Input": "12 crawl 7"}


def test_publishing_that_cannot_begin(daemon, tmp_path):
    d = daemon(SETTINGS)
    for bad, problem in (
        ("grpc://127.0.0.1:8815", "Flight"),
        ("http://x", "not an address of NATS"),
        ("", "not an address of NATS"),
    ):
        with pytest.raises(ValueError, match=problem):
            publish(["a"], bad, source="web")
    for source in ("", "a.b", "a b", "x" * 65, "*"):
        with pytest.raises(ValueError, match="want 1 to 64"):
            publish(["a"], d.nats_url, source=source)
    with pytest.raises(StreamNotFoundError, match=r"no stream .* has the subject texts.web: start the daemon"):
        publish(["a"], d.nats_url, source="web", subject="texts")
    with pytest.raises(ValueError, match="control characters"):
        publish(["a"], d.nats_url, source="web", name="a\nb")
    d.stop()
    with pytest.raises(
        UnreachableError,
        match=r"cannot connect to NATS at nats://127.0.0.1:\d+: .*within 0.3 s.*Connect call failed.*loaderd serve",
    ) as caught:
        publish(["a"], d.nats_url.replace("//", "//user:secret@"), source="web", connect_timeout=0.3)
    assert "secret" not in str(caught.value)
    program = "import sys; sys.modules['nats'] = None; import loaderd; loaderd.publish(['a'], source='web')"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert out.stderr.splitlines()[-1] == "ImportError: publishing requires the package nats-py: pip install nats-py"


def test_publisher_is_refused_after_a_fork(daemon):
    d = daemon(SETTINGS)
    with Publisher(d.nats_url, source="web", tokenizer=TOKENIZER) as publisher:
        child = os.fork()
        if child == 0:
            try:
                publisher.send([1, 2])
            except ForkedClientError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        publisher.send([1, 2])
    assert publisher.published.documents == 1


def test_first_example_of_the_page(daemon):
    d = daemon(TEXT)
    example = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "publish-python.md").read_text(), re.S)[0]
    subprocess.run(
        [sys.executable, "-c", example.replace("nats://127.0.0.1:4222", d.nats_url)], check=True, env=environment()
    )
    assert len(read(d)) == 2


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory) -> Path:
    """The binary of the NATS server."""
    binary = tmp_path_factory.mktemp("bin") / "nats-server"
    subprocess.run(["go", "build", "-o", binary, "github.com/nats-io/nats-server/v2"], cwd=ROOT, check=True)
    return binary


def test_publish_waits_for_the_leader_of_a_cluster(nats_server, tmp_path, monkeypatch):
    """One server of three has no leader, so it cannot determine whether a stream exists."""
    ports = free_ports(6)
    clients, routes = ports[:3], ports[3:]
    servers: list[subprocess.Popen[bytes]] = []

    def start(i: int) -> None:
        command = [
            nats_server,
            "-a",
            "127.0.0.1",
            "-p",
            str(clients[i]),
            "-n",
            f"server{i}",
            "-js",
            "-sd",
            tmp_path / f"js{i}",
            "--cluster_name",
            "c",
            "--cluster",
            f"nats://127.0.0.1:{routes[i]}",
            "--routes",
            ",".join(f"nats://127.0.0.1:{port}" for port in routes),
        ]
        servers.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))

    async def add_stream() -> None:
        connection = await nats.connect(f"nats://127.0.0.1:{clients[0]}")
        jetstream = connection.jetstream(timeout=5)
        while True:
            try:
                await jetstream.add_stream(name="DOCS", subjects=["docs.>"], num_replicas=3, allow_direct=True)
                break
            except (nats.errors.TimeoutError, nats.js.errors.ServiceUnavailableError):
                continue
        await connection.close()

    reasons: list[str] = []
    made: list[Future[None]] = []

    def on_wait(reason: str) -> None:
        reasons.append(reason)
        if len(reasons) == 1:
            start(1)
            start(2)
            made.append(pool.submit(asyncio.run, add_stream()))

    try:
        start(0)
        url = f"nats://127.0.0.1:{clients[0]}"
        with pytest.raises(PublishError, match=r"waited .* s: JetStream at .* has no leader"):
            publish(["text"], url, source="py", timeout=0, on_wait=reasons.append)
        assert not reasons
        with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patch:
            # On a slow machine the stream is created long after the leader is elected.
            patch.setattr("loaderd.producer._pipeline.ABSENT_CLUSTER_SECONDS", 60.0)
            done = publish(["text"], url, source="py", name="input", on_wait=on_wait)
        made[0].result()
        assert done.documents == 1 and "has no leader" in reasons[0] and reasons[-1] == ""
        with pytest.raises(StreamNotFoundError, match=r"has the subject texts.py"):  # the leader's answer is final
            publish(["text"], url, source="py", subject="texts")
    finally:
        for server in servers:
            server.kill()
            server.wait()


def test_publish_without_jetstream_is_unreachable(nats_server):
    """No server answers, so the existence of a stream is unknown."""
    (port,) = free_ports(1)
    server = subprocess.Popen([nats_server, "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        with pytest.raises(UnreachableError, match=r"cannot find the stream of docs.web .* no server responded"):
            publish(["text"], f"nats://127.0.0.1:{port}", source="web", connect_timeout=3)
    finally:
        server.terminate()
        server.wait()


def test_password_and_tls(daemon, nats_server, tmp_path):
    """A separate NATS server that requires both; the daemon creates its streams there."""
    (port,) = free_ports(1)
    one, other = (Path(__file__).parent / "certificates" / name for name in ("one", "other"))
    command = [
        nats_server,
        "-a",
        "127.0.0.1",
        "-p",
        str(port),
        "-js",
        "-sd",
        tmp_path / "js",
        "--user",
        "writer",
        "--pass",
        "secret",
        "--tls",
        "--tlscert",
        one.with_suffix(".pem"),
        "--tlskey",
        one.with_suffix(".key"),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        url = f"tls://127.0.0.1:{port}"
        d = daemon(
            {
                **SETTINGS,
                "stream.url": f"tls://writer:secret@127.0.0.1:{port}",
                "stream.tls.ca": one.with_suffix(".pem"),
                "stream.max_bytes": "16MiB",
                "stream.plan_bytes": "16MiB",
                "stream.dead_letter_bytes": "1MiB",
            }
        )
        trusted = TLS(ca=one.with_suffix(".pem"))
        tokens = made_up(30)
        publish(tokens[:10], url, source="web", tokenizer=TOKENIZER, tls=trusted, user="writer", password="secret")
        context = ssl.create_default_context(cafile=one.with_suffix(".pem"))
        publish(tokens[10:], url.replace("//", "//writer:secret@"), source="web", tokenizer=TOKENIZER, tls=context)
        with pytest.raises(NotPermittedError, match=r"(?i)authorization"):
            publish(tokens, url, source="web", tokenizer=TOKENIZER, tls=trusted, user="writer", password="wrong")
        with pytest.raises(NotPermittedError, match=r"(?i)certificate"):
            publish(
                tokens,
                url,
                source="web",
                tokenizer=TOKENIZER,
                tls=TLS(ca=other.with_suffix(".pem")),
                user="writer",
                password="secret",
            )
        with pytest.raises(ImportError, match="nkeys"):  # credentials need it
            (tmp_path / "user.creds").write_text("")
            publish(tokens, url, source="web", tokenizer=TOKENIZER, tls=trusted, credentials=tmp_path / "user.creds")
        assert in_order(d) == ended(tokens)
        d.stop()
    finally:
        process.terminate()
        process.wait()


def test_what_is_no_input_or_no_option_is_refused() -> None:
    for single in ("abc", b"abc", {"text": "a"}):
        with pytest.raises(TypeError, match="want an iterable of documents"):
            publish(single, source="web")
    with pytest.raises(TypeError, match=r"unknown options \['id', 'on_rejct'\]"):
        publish(["a"], source="web", on_rejct=print, id="url")


def environment() -> dict[str, str]:
    """Returns the environment for programs of a test: they find the package as the tests do."""
    return os.environ | {"PYTHONPATH": str(ROOT / "python" / "src")}


def test_documents_that_are_there_already_are_told(daemon, caplog):
    d = daemon(SETTINGS)
    tokens = made_up(60)
    options = {"url": d.nats_url, "source": "web", "tokenizer": TOKENIZER}

    def told(sent: list, **more: object) -> list[tuple[str, str]]:
        caplog.clear()
        publish(sent, **options, **more)
        return [
            (r.levelname, r.getMessage().removeprefix("publishing to stream DOCS: "))
            for r in caplog.records
            if r.name == "loaderd"
        ]

    caplog.set_level("INFO", "loaderd")
    named = [{"ids": t, "id": f"id-{i}"} for i, t in enumerate(tokens)]
    assert told(named[:40], name="a") == []
    assert told(named[:50], name="a") == []  # continues at its position
    [(level, text)] = told(named[:50], name="b")
    assert level == "WARNING"
    assert text.startswith(
        "all 50 documents were not stored: the stream has documents of these ids, published before as input 'a'; the "
        "first is 'id-0'"
    )
    assert "in the stream as document 1. If they are different documents" in text
    [(level, text)] = told(named, name="c")
    assert (level, text[:39]) == ("WARNING", "50 of 60 documents were not stored: the")

    def repeating(first: str, pause: float) -> Iterator[dict]:
        for i, t in enumerate(tokens):
            if i == 5:
                time.sleep(pause)
            yield {"ids": t, "id": f"{first}-{i % 5}"}

    for first, pause in ("within", 0.0), ("across", 1.0):  # repeats within a batch, and across batches
        [(level, text)] = told(repeating(first, pause))
        assert level == "WARNING"
        assert text.startswith("55 of 60 documents were not stored: their ids occur more than once in this input; ")
        assert f"the first is '{first}-0' (document 5)" in text
    # Without a name: the same documents in the same positions.
    assert told(tokens[:30]) == []
    assert told(tokens) == [
        ("INFO", "30 of 60 documents were already in the stream: publishing resumed where it had stopped")
    ]
    assert told(tokens) == [
        (
            "WARNING",
            "all 60 documents were already in the stream: this input was published before and has no new documents",
        )
    ]


def test_runs_that_do_not_read_what_is_published_are_told(daemon, caplog):
    d = daemon(SETTINGS)
    tokens = made_up(30)
    options = {"url": d.nats_url, "source": "web", "tokenizer": TOKENIZER}

    def told() -> str:
        said = "\n".join(r.getMessage() for r in caplog.records if r.name == "loaderd")
        caplog.clear()
        return said

    publish(tokens[:10], **options)
    assert told() == ""

    def sealed_meanwhile() -> Iterator[np.ndarray]:
        with Client(d.flight_url) as client:
            assert client.seal() == 10
        yield from tokens[10:20]

    asyncio.run(apublish(sealed_meanwhile(), start=10, **options))
    want = (
        "is sealed behind document 10: documents published later are not part of it, and no other run reads this "
        "stream. A new run"
    )
    assert want in told()
    with Publisher(**options) as publisher:
        publisher.send(tokens[20])
    assert want in told()


def test_Session_SendFailsWhenTheServerDoesNotRead(monkeypatch):
    monkeypatch.setattr(_nats_session, "ANSWER_SECONDS", 0.5)
    release = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as lines:
                lines.write(b'INFO {"server_id": "N", "version": "2.15.2", "proto": 1, "headers": true}\r\n')
                lines.flush()
                while not lines.readline().startswith(b"PING"):
                    pass
                lines.write(b"PONG\r\n")
                lines.flush()
                release.wait(60)

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()

        async def run() -> None:
            session = Session(Access(f"nats://127.0.0.1:{listener.getsockname()[1]}"))
            await session.first(30)
            with pytest.raises(NatsConnectionError, match="the server does not read"):
                for _ in range(256):  # more than any socket buffers
                    await asyncio.wait_for(session.send("docs.web", [b"", bytes(1 << 20)]), 60)
            await session.enqueue("docs.web", [b"", b""])  # does not wait
            release.set()
            await session.close()

        asyncio.run(run())
        thread.join(60)
