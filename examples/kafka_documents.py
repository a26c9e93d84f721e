"""Records of a Kafka topic as documents: each once, and those of a partition in the order of their offsets.

    python examples/kafka_documents.py --kafka broker:9092 --topic articles                 # until it is stopped; the same again goes on
    python examples/kafka_documents.py --kafka broker:9092 --topic articles                 # beside it: the two share the partitions
    python examples/kafka_documents.py --topic articles --field body --meta lang,stars      # the text is a field of JSON; headers become meta

Needs confluent-kafka. Where to go on is what the stream has of each partition, whatever offsets the group has committed.
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

NOT_TAKEN = (loaderd.BadDocument, ValueError, LookupError, TypeError)  # too large, no UTF-8, no JSON, another JSON


def document(record: Message, args: argparse.Namespace) -> dict | None:
    """What becomes of a record; None where that is no document."""
    if record.value() is None:  # a tombstone, which says that its key is deleted
        return None
    made = {"text": json.loads(record.value())[args.field] if args.field else record.value()}
    if record.key() is not None:
        made["path"] = f"{record.topic()}/{quote(record.key())}"
    if args.meta:
        headers = dict(record.headers() or [])  # of several with one name the last
        made["meta"] = {name: headers[name].decode() for name in args.meta if headers.get(name) is not None}
    return made


class Partition:
    """What goes from one partition into the stream, by a publisher and on a subject of its own, whose last message tells how far it is."""

    def __init__(self, cluster: str, place: TopicPartition, committed: TopicPartition, args: argparse.Namespace) -> None:
        name = f"kafka {cluster} {place.topic}/{place.partition}"
        opened = {"subject": f"{args.subject}.{args.source}", "source": str(place.partition), "name": name, "batch_bytes": 1 << 20}
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
        self.behind = self.next  # what is before this offset is stored, or no document
        self.mark = (self.sent, self.next)  # it will be this offset when all before this place of the input is stored

    def send(self, record: Message, args: argparse.Namespace) -> None:
        id = f"{record.topic()}/{record.partition()}/{record.offset()}"
        try:
            if (made := document(record, args)) is not None:
                self.publisher.send(made | {"id": id})
                self.sent = self.publisher.position
        except NOT_TAKEN as error:
            logging.warning("leaves out %s: %s", id, error)
        self.next = record.offset() + 1

    def stored(self) -> int | None:
        """The offset that all is stored before, if that is more than at the last call."""
        before, place = self.behind, self.publisher.published.position
        if place >= self.sent:  # everything
            self.mark = (self.sent, self.next)
        if place >= self.mark[0]:
            self.behind, self.mark = self.mark[1], (self.sent, self.next)
        return self.behind if self.behind > before else None


class Follower:
    """The partitions that the group gives to this process."""

    def __init__(self, consumer: Consumer, args: argparse.Namespace) -> None:
        self.consumer, self.args = consumer, args
        self.cluster = consumer.list_topics(args.topic, timeout=60).cluster_id
        self.partitions: dict[int, Partition] = {}

    def assigned(self, _: Consumer, places: list[TopicPartition]) -> None:
        for place, committed in zip(places, self.consumer.committed(places, timeout=60), strict=True):
            partition = self.partitions[place.partition] = Partition(self.cluster, place, committed, self.args)
            place.offset = partition.next
        self.consumer.assign(places)
        print("following", *(f"{p.topic}/{p.partition} from {max(p.offset, 0)}" for p in places), sep="\n  ", flush=True)

    def revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        """Another process gets them, or this one ends. What is not stored by then is read again: the stream has the say."""
        deadline = time.monotonic() + 5
        for place in places:
            with contextlib.suppress(TimeoutError):
                self.partitions[place.partition].publisher.flush(max(0.0, deadline - time.monotonic()))
        self.commit()
        self.lost(_, places)

    def lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        """Another process may have them already: nothing more is sent."""
        for place in places:
            if partition := self.partitions.pop(place.partition, None):
                partition.publisher.close()

    def commit(self) -> None:
        """Tells Kafka what is stored, for those who look at the group's lag."""
        found = {number: partition.stored() for number, partition in self.partitions.items()}
        if offsets := [TopicPartition(self.args.topic, number, offset) for number, offset in found.items() if offset is not None]:
            try:
                self.consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:  # the group is changing, for instance
                logging.warning("the group's offsets stay behind: %s", error)

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
    flags.add_argument("--kafka", default="127.0.0.1:9092", help="brokers to begin with")
    flags.add_argument("--topic", default="articles")
    flags.add_argument("--group", default="loaderd", help="those of one group share the partitions")
    flags.add_argument("--field", help="of a JSON object, the text; else the whole value is")
    flags.add_argument("--meta", default=[], type=lambda names: names.split(","), help="headers that become meta, as texts")
    flags.add_argument("--set", default=[], action="append", metavar="NAME=VALUE", help="a setting of librdkafka, as security.protocol=SSL")
    flags.add_argument("--nats", default="nats://127.0.0.1:4222")
    flags.add_argument("--subject", default="docs", help="the daemon's stream.subject")
    flags.add_argument("--source", default="articles")
    flags.add_argument("--trust-commits", action="store_true", help="go by the group's offsets where the stream has released all of a partition")
    args = flags.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ours = {
        "bootstrap.servers": args.kafka, "group.id": args.group, "enable.auto.commit": False,
        "auto.offset.reset": "error",  # records that Kafka has deleted before they were read are not passed over in silence
        "max.poll.interval.ms": 86_400_000,  # a full stream makes this wait, and keep its partitions
    }  # fmt: skip
    with contextlib.closing(Consumer(ours | dict(setting.split("=", 1) for setting in args.set))) as consumer:
        Follower(consumer, args).run()
