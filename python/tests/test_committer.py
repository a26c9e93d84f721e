"""The committer against a fake server that fails in every way, seeded: each document is stored once, in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence

import pytest

from loaderd import PublishError
from loaderd.producer import _committer as module
from loaderd.producer._committer import Committer
from loaderd.producer._duplicates import Duplicate, describe_duplicates
from loaderd.producer._message import INPUT, MESSAGE_ID, Message
from loaderd.producer._nats_session import NatsConnectionError, NatsRequestError
from loaderd.producer._outbox import Outbox


class Server:
    """One subject's messages, in a stream with other publishers.

    A request may get lost, lose its answer, or take effect only several requests later (a delayed batch). The
    server's deduplication window is shorter than the committer's periods of uncertainty, so that only a read back
    determines what is stored. It is longer than any delay of a request.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.stored: list[tuple[int, str]] = []  # sequence, id
        self.sequence = self.random.randrange(50)
        self.late: list[
            tuple[int, list[Message], int | None]
        ] = []  # when it takes effect, messages, expected last sequence
        self.requests = 0
        self.room = 10**9
        self.open: dict[str, list[Message]] = {}  # batches that are not committed yet, by id
        self.fences: dict[str, int | None] = {}
        self.abandoned = 0
        self.sent_ahead = 0  # messages that were sent while an answer was pending
        self.asking = False
        self.connected = True
        self.faults = True

    # The members of a session that the committer uses.

    class access:  # noqa: N801
        shown = "nats://made-up"

    async def reconnect(self) -> None:
        self._tick()
        self.connected = True

    async def last(self, stream: str, subject: str) -> tuple[int, dict[str, str]]:
        self._tick()
        if self.faults and self.random.random() < 0.1:
            raise NatsRequestError({"code": 503, "description": "nobody answers"})
        return (self.stored[-1][0], {MESSAGE_ID: self.stored[-1][1]}) if self.stored else (0, {})

    async def headers(
        self, stream: str, subject: str, first: int, last: int, each: Callable[[int, dict[str, str]], None]
    ) -> None:
        for sequence, found in [s for s in self.stored if first <= s[0] <= last]:
            self._tick(0.02)
            each(sequence, {MESSAGE_ID: found})

    async def stream(self, name: str) -> dict[str, object]:
        raise NatsConnectionError("nobody asks now")

    async def send(self, subject: str, messages: Sequence[bytes]) -> None:
        for lines, payload in zip(messages[::2], messages[1::2], strict=True):
            headers = dict(line.split(": ", 1) for line in lines.decode().split("\r\n")[:-1])
            self.sent_ahead += self.asking
            self._take(payload, headers)
        await asyncio.sleep(0)
        if self.asking and self.faults and self.random.random() < 0.1:
            self.connected = False
            raise NatsConnectionError("the connection broke")

    async def enqueue(self, subject: str, messages: Sequence[bytes]) -> None:
        [lines, payload] = messages
        self._take(payload, dict(line.split(": ", 1) for line in lines.decode().split("\r\n")[:-1]))

    async def ask(self, subject: str, payload: bytes, headers: dict[str, str]) -> dict[str, object]:
        staged = self._take(payload, headers)
        batch = headers.get("Nats-Batch-Id", "")
        messages, fence = self.open.pop(batch, []), self.fences.pop(batch, None)
        self.asking = True
        for _ in range(self.random.randrange(8)):
            await asyncio.sleep(0)
        self.asking = False
        if not staged:
            raise NatsRequestError({"code": 400, "err_code": 10176, "description": "batch is incomplete"})
        fate = self.random.random() if self.faults else 1.0
        if fate < 0.15:  # delayed for a while
            self.late.append((self.requests + self.random.randrange(1, 8), messages, fence))
            self.connected = self.random.random() < 0.5
            raise NatsConnectionError("no answer")
        if fate < 0.25:
            raise NatsConnectionError("it never arrived")
        self._tick(0)
        sequence = self._store(messages, fence)
        if fate < 0.4:
            raise NatsConnectionError("the answer is lost")
        return {"seq": sequence, "batch": headers.get("Nats-Batch-Id"), "count": len(messages)}

    def _take(self, payload: bytes, headers: dict[str, str]) -> bool:
        """Stages a message of a batch, and reports whether none is missing before it."""
        batch, place = headers.get("Nats-Batch-Id", ""), int(headers.get("Nats-Batch-Sequence", 1))
        if place != len(self.open.get(batch, ())) + 1:
            self.abandoned += self.open.pop(batch, None) is not None
            return False
        if place == 1:
            fence = headers.get("Nats-Expected-Last-Subject-Sequence")
            self.fences[batch] = None if fence is None else int(fence)
        message = Message(payload, {MESSAGE_ID: headers[MESSAGE_ID]}, 0, len(payload))
        self.open.setdefault(batch, []).append(message)
        return True

    def _store(self, messages: list[Message], fence: int | None) -> int:
        newest = self.stored[-1][0] if self.stored else 0
        if fence is not None and fence != newest:
            raise NatsRequestError({"code": 400, "err_code": 10071, "description": f"wrong last sequence: {newest}"})
        if len(messages) > self.room:
            self.room += self.random.randrange(3)
            raise NatsRequestError({"code": 503, "err_code": 10077, "description": "maximum bytes exceeded"})
        self.room -= len(messages)
        for message in messages:
            self.sequence += 1 + self.random.randrange(3)  # publishers of other subjects
            self.stored.append((self.sequence, message.id))
        return self.sequence

    def _tick(self, chance: float = 0.1) -> None:
        """Advances time: delayed requests take effect, and a request may fail."""
        self.requests += 1
        for arrival in [x for x in self.late if x[0] <= self.requests]:
            self.late.remove(arrival)
            if not {m.id for m in arrival[1]} & {found for _, found in self.stored}:
                with contextlib.suppress(NatsRequestError):  # the error is not delivered
                    self._store(*arrival[1:])
        if self.faults and self.random.random() < chance:
            self.connected = False
            raise NatsConnectionError("the connection broke")


@pytest.mark.parametrize("part", range(4))
def test_each_document_once_and_in_order(part, monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.0)
    sent_ahead = abandoned = 0
    for seed in range(part * 100, part * 100 + 100):
        server = Server(seed)
        if seed % 3 == 0:
            server.room = seed % 7
        places = 1 + seed % 3  # positions of a message in its input; with several, one has no document
        documents = max(places - 1, 1)
        messages = [
            Message(
                b"x" * (i % 5), {MESSAGE_ID: f"id-{i}"}, places * (i + 1) - 1, i % 5, documents=documents, places=places
            )
            for i in range(60)
        ]
        positions: list[int] = []

        def committed() -> None:
            positions.append(committer.tally.position)
            assert {m.id for m in messages if m.first < positions[-1]} <= {found for _, found in server.stored}

        committer = Committer(server, "docs.web", None, lambda _: None, committed)
        committer.begin("DOCS", atomic=seed % 4 != 0, last=server.sequence, read=server.sequence)

        async def run() -> None:
            at = shown = 0  # messages before the current batch, and messages of it that were sent ahead
            while at < len(messages):
                end = at + max(shown, server.random.randrange(1, 12))
                shown = 0

                async def ahead(count: int) -> list[Message]:
                    nonlocal shown
                    assert count == shown
                    if shown > 8 or server.random.random() < 0.2:
                        await asyncio.Event().wait()
                    await asyncio.sleep(0)
                    more = messages[end + shown :][: server.random.randrange(4)]
                    shown += len(more)
                    return more

                await committer.commit(messages[at:end], ahead)
                at = end

        asyncio.run(run())
        sent_ahead, abandoned = sent_ahead + server.sent_ahead, abandoned + server.abandoned
        server.faults, server.requests = False, 10**6
        server._tick()  # delayed requests take effect now
        assert [found for _, found in server.stored] == [m.id for m in messages], seed
        assert committer.tally.documents == 60 * documents and committer.tally.bytes == sum(
            len(m.payload) for m in messages
        ), seed
        assert positions == sorted(positions) and positions[-1] == 60 * places, seed
    assert sent_ahead > 100 and abandoned > 10


def refused(number: int, code: int = 400, description: str = "") -> NatsRequestError:
    return NatsRequestError({"code": code, "err_code": number, "description": description})


@pytest.mark.parametrize(
    ("outcome", "stored"),
    [
        *(
            (outcome, stored)
            for stored in (True, False)
            for outcome in (
                NatsConnectionError("no answer"),
                NatsConnectionError("the connection broke"),
                refused(0, 503, "busy"),
                refused(10071, description="wrong last sequence"),
                refused(10176, description="batch is incomplete"),
                None,  # an acknowledgement of another batch
            )
        ),
        (refused(10201, description="duplicate message id found"), False),
        (refused(10077, 503, "maximum bytes exceeded"), False),
        (refused(10199, description="batch is too large"), False),
    ],
    ids=str,
)
def test_Committer_AbandonsTheOpenBatchWhenTheOneBeforeFails(outcome, stored, monkeypatch):
    """The second batch fails once the third one is open."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.0)

    class Failing(Server):
        commits = 0

        async def ask(self, subject: str, payload: bytes, headers: dict[str, str]) -> dict[str, object]:
            self.commits += 1
            if self.commits != 2:
                return await super().ask(subject, payload, headers)
            while not any(m.id == "id-10" for batch in self.open.values() for m in batch):
                await asyncio.sleep(0)  # the third batch without its last message
            self._take(payload, headers)
            batch = self.open.pop(headers["Nats-Batch-Id"])
            assert [m.id for m in batch] == ["id-4", "id-5", "id-6", "id-7"]
            if stored:
                self._store(batch, None)
            self.connected = "broke" not in str(outcome)
            if outcome is None:
                return {"seq": 1, "batch": "another", "count": 4}
            raise outcome

    server = Failing(1)
    server.faults = False
    messages = [Message(b"x", {MESSAGE_ID: f"id-{i}"}, i, 1) for i in range(16)]
    committer = Committer(server, "docs.web", None, lambda _: None, lambda: None)
    committer.begin("DOCS", atomic=True, last=server.sequence, read=server.sequence)

    async def run() -> None:
        for at in range(0, 16, 4):

            async def ahead(count: int) -> list[Message]:
                if count == 4:
                    await asyncio.Event().wait()
                return messages[at + 4 : at + 8]

            await asyncio.wait_for(committer.commit(messages[at : at + 4], ahead if at < 12 else None), 30)

    asyncio.run(run())
    assert [found for _, found in server.stored] == [m.id for m in messages]
    assert committer.tally.documents == 16 and committer.tally.duplicates == 0
    assert server.abandoned == ("broke" not in str(outcome))
    assert list(server.open) == ([] if server.abandoned else list(server.open)[:1])  # the server drops it later


def test_Committer_OpenBatchWithRepeatedIds():
    """Ids that the next batch repeats are not sent, and one that the stream has by then rejects the batch."""

    class Deduplicating(Server):
        async def ask(self, subject: str, payload: bytes, headers: dict[str, str]) -> dict[str, object]:
            there = {found: sequence for sequence, found in self.stored}
            batch = headers.get("Nats-Batch-Id")
            self.asking = True
            for _ in range(20):
                await asyncio.sleep(0)
            self.asking = False
            if batch is None and headers[MESSAGE_ID] in there:
                return {"seq": there[headers[MESSAGE_ID]], "duplicate": True}
            if batch is not None and not there.keys().isdisjoint(m.id for m in self.open[batch]):
                del self.open[batch]
                raise refused(10201, description="duplicate message id found")
            return await super().ask(subject, payload, headers)

        async def origin(self, stream: str, sequence: int) -> dict[str, str]:
            return {}

    server = Deduplicating(1)
    server.faults = False
    committer = Committer(server, "docs.web", None, lambda _: None, lambda: None)
    committer.begin("DOCS", atomic=True, last=server.sequence, read=server.sequence)
    messages = [Message(b"x", {MESSAGE_ID: found}, i, 1) for i, found in enumerate("ab" + "cdcdd" + "ebf")]

    async def run() -> None:
        for at, end, following in ((0, 2, 7), (2, 7, 10), (7, 10, 10)):

            async def ahead(count: int) -> list[Message]:
                if end + count == following:
                    await asyncio.Event().wait()
                return messages[end + count : end + count + 1]

            await asyncio.wait_for(committer.commit(messages[at:end], ahead), 30)

    asyncio.run(run())
    assert "".join(found for _, found in server.stored) == "abcdef"
    assert committer.tally.duplicates == 4 and committer.tally.documents == 6
    assert server.sent_ahead == 3  # c; e, b


def test_Committer_OpenBatchWithADocumentThatTheStreamHas():
    """A read back found a document of the second batch, which is sent before the committer knows that."""

    class Slow(Server):
        async def ask(self, subject: str, payload: bytes, headers: dict[str, str]) -> dict[str, object]:
            for _ in range(20):
                await asyncio.sleep(0)
            return await super().ask(subject, payload, headers)

    server = Slow(1)
    server.faults = False
    server.stored, server.sequence = [(7, "id-6")], 7
    messages = [Message(b"x", {MESSAGE_ID: f"id-{i}"}, i, 1) for i in range(8)]
    committer = Committer(server, "docs.web", None, lambda _: None, lambda: None)
    committer.begin("DOCS", atomic=True, last=7, read=0)

    async def ahead(count: int) -> list[Message]:
        if count == 4:
            await asyncio.Event().wait()
        return messages[4:]

    async def run() -> None:
        await committer.commit(messages[:4], ahead)
        await committer.commit(messages[4:])

    asyncio.run(run())
    assert [found for _, found in server.stored] == ["id-6", *(f"id-{i}" for i in range(8) if i != 6)]
    assert committer.tally.documents == 8 and server.abandoned == 1


@pytest.mark.parametrize("stored", [False, True])
def test_Committer_ConnectionLostBetweenAcknowledgementAndOpenBatch(stored):
    """What happened since the acknowledgement is unknown: the open batch is not continued without a read back."""

    class Breaking(Server):
        async def ask(self, subject: str, payload: bytes, headers: dict[str, str]) -> dict[str, object]:
            for _ in range(20):
                await asyncio.sleep(0)
            return await super().ask(subject, payload, headers)

    server = Breaking(1)
    server.faults = False
    messages = [Message(b"x", {MESSAGE_ID: f"id-{i}"}, i, 1) for i in range(8)]
    committer = Committer(server, "docs.web", None, lambda _: None, lambda: None)
    committer.begin("DOCS", atomic=True, last=server.sequence, read=server.sequence)

    async def ahead(count: int) -> list[Message]:
        if count == 4:
            await asyncio.Event().wait()
        return messages[4:]

    async def run() -> None:
        await committer.commit(messages[:4], ahead)
        server.connected = False
        if stored:  # another publisher of the input, in the same place
            server._store(messages[4:], None)
        await committer.commit(messages[4:])

    asyncio.run(run())
    assert [found for _, found in server.stored] == [f"id-{i}" for i in range(8)]
    assert committer.tally.documents == 8 and server.abandoned == (not stored)


def test_Committer_ReturnsWhenACancellationIsLost():
    """asyncio.wait_for before Python 3.12, and the client, lose a cancellation that arrives with a result."""

    class Losing(Server):
        async def send(self, subject: str, messages: Sequence[bytes]) -> None:
            await super().send(subject, messages)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

        async def ask(self, subject: str, payload: bytes, headers: dict[str, str]) -> dict[str, object]:
            await asyncio.sleep(0.01)
            return await super().ask(subject, payload, headers)

    server = Losing(1)
    server.faults = False
    messages = [Message(b"x", {MESSAGE_ID: f"id-{i}"}, i, 1) for i in range(8)]
    committer = Committer(server, "docs.web", None, lambda _: None, lambda: None)
    committer.begin("DOCS", atomic=True, last=server.sequence, read=server.sequence)

    async def ahead(count: int) -> list[Message]:
        if count == 4:
            await asyncio.Event().wait()
        return messages[4:]

    async def run() -> None:
        await asyncio.wait({commit := asyncio.ensure_future(committer.commit(messages[:4], ahead))}, timeout=30)
        assert commit.done()
        await committer.commit(messages[4:])

    asyncio.run(run())
    assert [found for _, found in server.stored] == [f"id-{i}" for i in range(8)]


def test_Outbox_WakesForTheOpenBatchOncePerChunk():
    wakes: list[int] = []
    outbox = Outbox(8000, lambda: wakes.append(len(offered)))  # chunks of 1000 bytes
    offered: list[Message] = []

    def offer() -> bool:
        offered.append(Message(b"", {MESSAGE_ID: str(len(offered))}, len(offered), 300))
        return outbox.offer(offered[-1]) is None

    offer()
    assert wakes == [1] and outbox.take() == offered  # is being committed
    for _ in range(6):
        assert offer() and (len(offered) > 4 or outbox.ahead(0) == [])
    assert wakes == [1, 5] and outbox.ahead(0) == offered[1:] and outbox.ahead(6) == []
    while offer():
        pass
    rest = offered[7:-1]
    assert len(rest) == 20 and wakes == [1, 5, 11, 28]  # the last one when the batch is full
    assert outbox.ahead(6) == rest and outbox.ahead(26) == []
    assert outbox.take() == offered[1:-1]


def test_a_neighbour_that_is_always_first_is_named(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.0)

    class Crowded(Server):
        async def ask(self, subject: str, payload: bytes, headers: dict[str, str]) -> dict[str, object]:
            self._store([Message(b"", {MESSAGE_ID: f"theirs-{self.requests}"}, 0, 0)], None)
            return await super().ask(subject, payload, headers)

    server, said = Crowded(1), []
    server.faults = False
    committer = Committer(server, "docs.web", 0.05, said.append, lambda: None)
    committer.begin("DOCS", atomic=True, last=server.sequence, read=server.sequence)
    with pytest.raises(PublishError, match="a separate source"):
        asyncio.run(committer.commit([Message(b"x", {MESSAGE_ID: "ours"}, 0, 1)]))
    assert len(said) == 1 and "ours" not in {found for _, found in server.stored}


def test_the_first_repeat_is_the_earliest_one():
    """In a batch with documents that the stream has and documents that the batch repeats, the repeats within the
    batch are found first."""

    class Knowing(Server):
        async def ask(self, subject: str, payload: bytes, headers: dict[str, str]) -> dict[str, object]:
            there = {found: sequence for sequence, found in self.stored}
            if "Nats-Batch-Id" not in headers and headers[MESSAGE_ID] in there:
                return {"seq": there[headers[MESSAGE_ID]], "duplicate": True}
            if {m.id for m in self.open.get(headers.get("Nats-Batch-Id", ""), ())} & set(there):
                del self.open[headers["Nats-Batch-Id"]]
                raise NatsRequestError({"code": 400, "err_code": 10201, "description": "duplicate message id found"})
            return await super().ask(subject, payload, headers)

        async def origin(self, stream: str, sequence: int) -> dict[str, str]:
            return {}

    server = Knowing(1)
    server.faults = False
    committer = Committer(server, "docs.web", None, lambda _: None, lambda: None)
    committer.begin("DOCS", atomic=True, last=server.sequence, read=server.sequence)
    ids = ["a", "b", "a", "b"]
    messages = [Message(b"x", {MESSAGE_ID: found}, i, 1) for i, found in enumerate(ids)]
    asyncio.run(committer.commit(messages[:1]))
    asyncio.run(committer.commit([*messages[1:], Message(b"x", {MESSAGE_ID: "c"}, 4, 1)]))
    assert [found for _, found in server.stored] == ["a", "b", "c"] and committer.tally.duplicates == 2
    repeat = committer.tally.repeat
    assert repeat is not None and (repeat.message.position, repeat.meanwhile) == (2, True)


@pytest.mark.parametrize(
    ("sequence", "headers", "meanwhile", "name", "within"),
    [
        (0, None, False, None, True),  # of the same batch
        (61, {}, True, None, True),  # of an earlier batch of the same input, for any batch borders
        (61, {}, False, None, False),
        (61, None, True, None, True),
        (61, None, False, None, False),
        (61, {INPUT: "0 a"}, True, "a", True),
        (61, {INPUT: "0 a"}, False, "a", True),
        (61, {INPUT: "0 b"}, True, "a", False),
        (61, {INPUT: "0 b"}, True, None, False),
        (61, {}, True, "a", False),
    ],
)
def test_where_the_first_repeat_is_of(sequence, headers, meanwhile, name, within):
    message = Message(b"x", {MESSAGE_ID: "0"} | ({INPUT: f"5 {name}"} if name else {}), 5, 1)
    repeat = Duplicate(message, sequence, headers, meanwhile)
    assert repeat.within == within
    assert ("their ids occur more than once in this input" in describe_duplicates(55, 5, repeat)[1]) == within


def test_what_lies_behind_the_place_that_was_found_is_not_sent_again():
    server = Server(1)
    server.faults = False
    messages = [Message(b"x", {MESSAGE_ID: f"id-{i}"}, i, 1) for i in range(20)]
    server.stored = [(n, m.id) for n, m in enumerate(messages[:12], 1)]
    server.sequence = 12
    committer = Committer(server, "docs.web", None, lambda _: None, lambda: None)
    committer.begin("DOCS", True, last=12, read=5)  # a server of a cluster had five of them
    asyncio.run(committer.commit(messages[5:]))
    assert [found for _, found in server.stored] == [m.id for m in messages]
