"""Publishes records of a Kafka topic as documents: each once, and those of a partition in the order of their offsets.

    python examples/kafka_documents.py --kafka broker:9092 --topic articles                 # until it is stopped; a
    restart continues
    python examples/kafka_documents.py --kafka broker:9092 --topic articles                 # a second process: the two
    share the partitions
    python examples/kafka_documents.py --topic articles --field body --meta lang,stars      # the text is a field of
    JSON; headers become meta

Needs confluent-kafka. The content of the stream determines where each partition continues, regardless of the group's
committed offsets.
"""

import argparse
import contextlib
import json
import logging
import signal
import sys
import time
from urllib.parse import quote

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

import loaderd

# Too large, not UTF-8, not JSON, another JSON.
NOT_TAKEN = (
    loaderd.InvalidDocumentError,
    ValueError,
    LookupError,
    TypeError,
)


def document(record: Message, args: argparse.Namespace) -> dict | None:
    """Returns the document of a record; None if it is not a document."""
    if record.value() is None:  # a tombstone, which marks its key as deleted
        return None
    made = {"text": json.loads(record.value())[args.field] if args.field else record.value()}
    if record.key() is not None:
        made["path"] = f"{record.topic()}/{quote(record.key())}"
    if args.meta:
        headers = dict(record.headers() or [])  # the last one of several with one name
        made["meta"] = {name: headers[name].decode() for name in args.meta if headers.get(name) is not None}
    return made


class Partition:
    """Publishes one partition to the stream, with a separate publisher and subject, whose last message records the
    position.
    """

    def __init__(
        self, cluster: str, place: TopicPartition, committed: TopicPartition, args: argparse.Namespace
    ) -> None:
        name = f"kafka {cluster} {place.topic}/{place.partition}"
        opened = {
            "subject": f"{args.subject}.{args.source}",
            "source": str(place.partition),
            "name": name,
            "batch_bytes": 1 << 20,
        }
        self.next = OFFSET_BEGINNING
        try:
            self.publisher = loaderd.Publisher(args.nats, **opened)
            if last := self.publisher.last_id:
                self.next = int(last.rpartition("/")[2]) + 1
        except loaderd.PublishError:  # released documents may have been of this partition
            if not args.trust_commits:
                raise
            self.next = committed.offset if committed.offset >= 0 else OFFSET_BEGINNING
            self.publisher = loaderd.Publisher(args.nats, **opened, start=max(committed.offset, 0))
        self.sent = self.publisher.position
        self.behind = self.next  # records before this offset are stored, or not documents
        self.mark = (self.sent, self.next)  # `behind` becomes this offset when the input is stored up to this position

    def send(self, record: Message, args: argparse.Namespace) -> None:
        id = f"{record.topic()}/{record.partition()}/{record.offset()}"
        try:
            if (made := document(record, args)) is not None:
                self.publisher.send(made | {"id": id})
                self.sent = self.publisher.position
        except NOT_TAKEN as error:
            logging.warning("skipped %s: %s", id, error)
        self.next = record.offset() + 1

    def stored(self) -> int | None:
        """Returns the offset before which everything is stored, if it has grown since the last call."""
        before, place = self.behind, self.publisher.published.position
        if place >= self.sent:  # everything
            self.mark = (self.sent, self.next)
        if place >= self.mark[0]:
            self.behind, self.mark = self.mark[1], (self.sent, self.next)
        return self.behind if self.behind > before else None


class Follower:
    """The partitions that the group assigns to this process."""

    def __init__(self, consumer: Consumer, args: argparse.Namespace) -> None:
        self.consumer, self.args = consumer, args
        self.cluster = consumer.list_topics(args.topic, timeout=60).cluster_id
        self.partitions: dict[int, Partition] = {}

    def assigned(self, _: Consumer, places: list[TopicPartition]) -> None:
        for place, committed in zip(places, self.consumer.committed(places, timeout=60), strict=True):
            partition = self.partitions[place.partition] = Partition(self.cluster, place, committed, self.args)
            place.offset = partition.next
        self.consumer.assign(places)
        print(
            "following", *(f"{p.topic}/{p.partition} from {max(p.offset, 0)}" for p in places), sep="\n  ", flush=True
        )

    def revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        """Flushes: another process gets the partitions, or this one exits.

        Records not stored by then are read again, because the stream is authoritative.
        """
        deadline = time.monotonic() + 5
        for place in places:
            with contextlib.suppress(TimeoutError):
                self.partitions[place.partition].publisher.flush(max(0.0, deadline - time.monotonic()))
        self.commit()
        self.lost(_, places)

    def lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        """Stops sending, because another process may have the partitions already."""
        for place in places:
            if partition := self.partitions.pop(place.partition, None):
                partition.publisher.close()

    def commit(self) -> None:
        """Commits to Kafka what is stored, to make the group's lag observable."""
        found = {number: partition.stored() for number, partition in self.partitions.items()}
        if offsets := [
            TopicPartition(self.args.topic, number, offset) for number, offset in found.items() if offset is not None
        ]:
            try:
                self.consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:  # for instance, the group is rebalancing
                logging.warning("cannot commit the group's offsets: %s", error)

    def run(self) -> None:
        self.consumer.subscribe([self.args.topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost)
        due = time.monotonic()
        while True:
            record = self.consumer.poll(1)
            if record is not None and record.error():
                raise KafkaException(record.error())
            if record is not None:
                self.partitions[record.partition()].send(record, self.args)
            if time.monotonic() > due:
                self.commit()
                due = time.monotonic() + 1


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--kafka", default="127.0.0.1:9092", help="bootstrap brokers")
    flags.add_argument("--topic", default="articles")
    flags.add_argument("--group", default="loaderd", help="consumer group, whose members share the partitions")
    flags.add_argument("--field", help="field of a JSON object that has the text; default: the whole value is the text")
    flags.add_argument(
        "--meta", default=[], type=lambda names: names.split(","), help="headers to store in meta, as strings"
    )
    flags.add_argument(
        "--set",
        default=[],
        action="append",
        metavar="NAME=VALUE",
        help="setting of librdkafka, such as security.protocol=SSL",
    )
    flags.add_argument("--nats", default="nats://127.0.0.1:4222")
    flags.add_argument("--subject", default="docs", help="the daemon's stream.subject")
    flags.add_argument("--source", default="articles")
    flags.add_argument(
        "--trust-commits",
        action="store_true",
        help="use the group's offsets if the stream has released all documents of a partition",
    )
    args = flags.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ours = {
        "bootstrap.servers": args.kafka,
        "group.id": args.group,
        "enable.auto.commit": False,
        # an error instead of a silent skip of records that Kafka deleted before they were read
        "auto.offset.reset": "error",
        "max.poll.interval.ms": 86_400_000,  # a full stream makes this wait, and keep its partitions
    }
    with contextlib.closing(Consumer(ours | dict(setting.split("=", 1) for setting in args.set))) as consumer:
        Follower(consumer, args).run()
