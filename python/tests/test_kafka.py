"""examples/kafka_documents.py against librdkafka's mock cluster: each record is in the stream and in a run once,
those of a partition in order, whenever the example is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loaderd
from environments import site_packages
from followers import Example, Stored, content, environment, length, state, stored
from jobs import EXAMPLES
from scale import everything
from tokenized import of_text
from waiting import wait_for

PARTITIONS = 4  # of a topic that the mock cluster creates
TOPIC = "articles"
# How long the group waits for a killed member.
SOON = (
    "--set",
    "session.timeout.ms=6000",
    "--set",
    "heartbeat.interval.ms=500",
)

Document = tuple[int, str, str, str, dict[str, str]]  # position in the input, id, path, text, meta


class Kafka:
    """A cluster, and the expected result of each partition's records."""

    def __init__(self) -> None:
        from confluent_kafka import Producer

        self.producer = Producer(
            {"test.mock.num.brokers": 3, "batch.num.messages": 100, "queue.buffering.max.messages": 1_000_000}
        )
        self.brokers = ",".join(f"{b.host}:{b.port}" for b in self.producer.list_topics(timeout=60).brokers.values())
        self.sent = [0] * PARTITIONS
        self.places = [0] * PARTITIONS
        self.expected: list[list[Document]] = [[] for _ in range(PARTITIONS)]

    def put(
        self,
        partition: int,
        value: bytes | None,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> int:
        """Adds a record, and returns its offset."""
        self.producer.produce(TOPIC, value, key, partition, headers=headers or [])
        self.sent[partition] += 1
        return self.sent[partition] - 1

    def add(self, partition: int, value: bytes | None, key: bytes | None, lang: bytes | None = None) -> None:
        """Adds a record that becomes a document, or is a tombstone."""
        headers = [("lang", b"the last one counts"), ("lang", lang), ("none", None), ("other", b"\xff")]
        offset = self.put(partition, value, key, headers)
        if value is not None:
            path = "" if key is None else f"{TOPIC}/{key.decode()}"
            meta = {} if lang is None else {"lang": lang.decode()}
            self.expected[partition].append(
                (self.places[partition], f"{TOPIC}/{partition}/{offset}", path, value.decode(), meta)
            )
            self.places[partition] += 1

    def fill(self, n: int) -> None:
        """Adds `n` records to each partition."""
        for i in range(n):
            for partition in range(PARTITIONS):
                value = None if i % 50 == 7 else f"text {self.sent[partition]} of {partition}, grüße".encode()
                self.add(partition, value, None if i % 3 == 0 else f"k{i % 11}".encode(), b"de" if i % 2 else None)
        assert self.producer.flush(60) == 0

    @property
    def documents(self) -> int:
        return sum(map(len, self.expected))

    def committed(self) -> list[int]:
        """Returns the offsets that the example's group has committed."""
        from confluent_kafka import Consumer, TopicPartition

        with contextlib.closing(Consumer({"bootstrap.servers": self.brokers, "group.id": "loaderd"})) as consumer:
            return [
                place.offset
                for place in consumer.committed([TopicPartition(TOPIC, n) for n in range(PARTITIONS)], timeout=60)
            ]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of confluent-kafka, which this process can import too."""
    found = site_packages("streams")
    monkeypatch.setattr(sys, "path", [*sys.path, str(found)])
    return found


@pytest.fixture
def kafka(site: Path) -> Kafka:
    return Kafka()


Start = Callable[..., Example]


@pytest.fixture
def started(kafka: Kafka, site: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts the example with a running daemon."""
    running: list[Example] = []

    def start(d: Any, *flags: object) -> Example:
        command = [
            sys.executable,
            EXAMPLES / "kafka_documents.py",
            "--kafka",
            kafka.brokers,
            "--topic",
            TOPIC,
            "--nats",
            d.nats_url,
            "--meta",
            "lang,none",
        ]
        running.append(Example([*command, *SOON, *flags], tmp_path, environment(site)))
        return running[-1]

    yield start
    for example in running:
        example.kill()


def documents(messages: list[Stored]) -> list[list[Document]]:
    """Returns what the stream has of each partition."""
    found: list[list[Document]] = [[] for _ in range(PARTITIONS)]
    for message in messages:
        subject, headers, _ = message
        partition = int(subject.removeprefix("docs.articles."))
        place, _, name = headers["Loaderd-Input"].partition(" ")
        assert name.startswith("kafka mockCluster") and name.endswith(f" {TOPIC}/{partition}")
        found[partition].append(
            (int(place), headers["Nats-Msg-Id"], headers.get("Loaderd-Path", ""), *content(message))
        )
    return found


def trained_on(d: Any, tokenizer: Any) -> list[str]:
    """Returns the documents in the batches of the run, in the order of the stream. Seals the run."""
    pieces: defaultdict[int, list[tuple[int, list[int]]]] = defaultdict(list)
    with loaderd.Client(d.flight_url, documents=True) as client:
        client.seal()
        for step in client:
            found = step.sources
            ids = iter(
                np.concatenate(
                    [row[: ends[-1]] for row, ends in zip(step.input_ids, step.cu_seqlens, strict=True)]
                ).tolist()
            )
            for sequence, start, length in zip(
                found.sequence.tolist(), found.start.tolist(), found.length.tolist(), strict=True
            ):
                pieces[sequence].append((start, list(islice(ids, length))))
    return [tokenizer.decode([id for _, ids in sorted(pieces[sequence]) for id in ids]) for sequence in sorted(pieces)]


def kill_amid(example: Example, d: Any, kafka: Kafka) -> bool:
    """Kills the example once it has added something, and returns whether more was left to add."""
    before = asyncio.run(length(d.nats_url))
    example.has_published(d.nats_url, before + 1)
    example.kill()
    return before < asyncio.run(length(d.nats_url)) < kafka.documents


@everything
def test_records_of_kafka_once_and_in_the_order_of_their_partitions(daemon, kafka, started, tokenizer, tmp_path):
    """Checks the stream, and the batches of a run. A new group each time neither waits for the killed member nor has
    any offsets."""
    d = daemon({**of_text(tokenizer, tmp_path), "documents.meta.lang": "string"})
    amid, kills = 0, count()
    while amid < 3:
        kafka.fill(3000)
        amid += kill_amid(started(d, "--group", next(kills)), d, kafka)
    last = started(d)
    last.has_published(d.nats_url, kafka.documents)
    kafka.fill(20)
    last.has_published(d.nats_url, kafka.documents)
    last.process.send_signal(signal.SIGTERM)
    assert last.process.wait(60) == 0, last.said
    assert kafka.committed() == kafka.sent
    messages = asyncio.run(stored(d.operator_url))
    assert documents(messages) == kafka.expected
    assert trained_on(d, tokenizer) == [content(message)[0] + tokenizer.eos_token for message in messages]


@everything
def test_two_processes_share_the_partitions_of_kafka(daemon, kafka, started, tokenizer, tmp_path):
    """A process that exits, and one that is killed, leaves its partitions to the other, which continues after what
    the stream has."""
    d = daemon(of_text(tokenizer, tmp_path))
    kafka.fill(1000)
    first = started(d)
    first.has_published(d.nats_url, kafka.documents)
    for end in (signal.SIGTERM, signal.SIGKILL):
        said = first.said.count("following")
        second = started(d)
        wait_for(lambda: f"{TOPIC}/" in second.said and first.said.count("following") > said)
        assert f"{TOPIC}/" in first.said.rpartition("following")[2]
        kafka.fill(1000)
        first.process.send_signal(end)
        assert first.process.wait(60) == (0 if end == signal.SIGTERM else -end), first.said
        kafka.fill(1000)
        second.has_published(d.nats_url, kafka.documents)
        first = second
    assert documents(asyncio.run(stored(d.operator_url))) == kafka.expected


@everything
def test_suspended_process_that_lost_its_partitions_adds_nothing(daemon, kafka, started, tokenizer, tmp_path):
    """A suspended process has read ahead when another one takes over."""
    d = daemon(of_text(tokenizer, tmp_path))
    kafka.fill(20_000)
    first = started(d)
    first.has_published(d.nats_url, 1)
    first.process.send_signal(signal.SIGSTOP)
    assert asyncio.run(length(d.nats_url)) < kafka.documents
    second = started(d)
    second.has_published(d.nats_url, kafka.documents)
    first.process.send_signal(signal.SIGCONT)
    wait_for(lambda: first.said.count("following") > 1 or first.ended())
    kafka.fill(100)
    second.has_published(d.nats_url, kafka.documents)
    assert documents(asyncio.run(stored(d.operator_url))) == kafka.expected


@everything
def test_released_partition_of_kafka_goes_on_where_the_group_was(daemon, kafka, started, tokenizer, tmp_path):
    """The stream has released all of partition 0, and not all of the others."""
    d = daemon({**of_text(tokenizer, tmp_path), "serve.retention": "purge", "serve.checkpoint_steps": 5})
    example = started(d)
    for partition in range(PARTITIONS):
        for _ in range(1000 if partition else 20):
            kafka.add(partition, b"some text", None)
        assert kafka.producer.flush(60) == 0
        example.has_published(d.nats_url, kafka.documents)
    example.process.send_signal(signal.SIGTERM)
    assert example.process.wait(60) == 0, example.said
    with loaderd.Client(d.flight_url) as client:
        client.seal()
        client.commit(1 + max(step.index for step in client))
    wait_for(lambda: asyncio.run(state(d.nats_url)).first_seq > 20, 30)
    before = kafka.documents
    kafka.fill(100)
    example = started(d)
    assert example.process.wait(60) == 1 and "released" in example.said, example.said
    assert asyncio.run(length(d.nats_url)) == before
    example = started(d, "--trust-commits")
    example.has_published(d.nats_url, kafka.documents)
    found = documents(asyncio.run(stored(d.operator_url)))
    assert found == [wanted[-len(had) :] for wanted, had in zip(kafka.expected, found, strict=True)]
    assert len(found[0]) == 98


@everything
def test_what_kafka_has_that_is_no_document(daemon, kafka, started, tokenizer, tmp_path):
    d = daemon(of_text(tokenizer, tmp_path))
    json_flags = ("--field", "body")
    for i, value in enumerate([b"no JSON", b"[1]", b"{}", b'{"body": 17}', b'"body"', b"\xff"]):
        kafka.put(0, value)
        kafka.put(1, b'{"body": "a text"}', headers=[("lang", b"\xff")])
        kafka.put(2, json.dumps({"body": f"text {i}"}).encode(), key=b"k /\xff")
    assert kafka.producer.flush(60) == 0
    example = started(d, *json_flags)
    wait_for(lambda: example.said.count("skipped ") == 12)
    example.has_published(d.nats_url, 6)
    found = documents(asyncio.run(stored(d.operator_url)))
    assert found == [[], [], [(i, f"{TOPIC}/2/{i}", f"{TOPIC}/k%20/%FF", f"text {i}", {}) for i in range(6)], []]


@everything
def test_records_that_kafka_deleted_are_missed_and_said(daemon, kafka, started, tokenizer, tmp_path):
    """The mock cluster keeps 5 MB per partition."""
    d = daemon(of_text(tokenizer, tmp_path))
    kafka.fill(100)
    example = started(d)
    example.has_published(d.nats_url, kafka.documents)
    example.kill()
    had = kafka.documents
    for _ in range(200):
        kafka.add(1, b"x" * 100_000, None)
        kafka.producer.flush(60)
    example = started(d)
    assert example.process.wait(60) == 1
    assert "OFFSET_OUT_OF_RANGE" in example.said or "_AUTO_OFFSET_RESET" in example.said, example.said
    assert asyncio.run(length(d.nats_url)) == had
