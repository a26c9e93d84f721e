"""Publishes rows of a Postgres table as documents: each committed INSERT once, in the order of the commits.

    python examples/postgres_documents.py --snapshot articles.jsonl     # creates the slot, and a file of the rows
    present at that point
    loaderd publish --source articles articles.jsonl
    python examples/postgres_documents.py                               # follows later inserts, until it is stopped

Needs psycopg2, a server with wal_level=logical, and a publication: CREATE PUBLICATION articles FOR TABLE articles WITH
(publish = 'insert').
"""

import argparse
import contextlib
import json
import logging
import os
import select
import signal
import sys
from collections import deque

import psycopg2
from psycopg2.extras import LogicalReplicationConnection
from psycopg2.sql import SQL, Identifier

import loaderd


class Reader:
    """Reads the leading fields of a pgoutput message, one by one."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, n: int) -> bytes:
        taken, self.data = self.data[:n], self.data[n:]
        return taken

    def number(self, n: int) -> int:
        return int.from_bytes(self.take(n))

    def name(self) -> str:
        name, _, self.data = self.data.partition(b"\0")
        return name.decode()

    def value(self) -> str | None:
        return self.take(self.number(4)).decode() if self.take(1) == b"t" else None


def relation(r: Reader) -> tuple[int, str, list[str]]:
    """Returns number, name and columns of a table, which are sent before its first row and after a change."""
    number, table = r.number(4), f"{r.name()}.{r.name()}"
    r.take(1)
    return number, table, [(r.take(1), r.name(), r.take(8))[1] for _ in range(r.number(2))]


def document(row: dict[str, str | None], args: argparse.Namespace) -> dict:
    made = {"text": row[args.text] or "", "path": f"{args.table}/{row[args.key]}"}
    return made | ({"meta": {name: row[name] for name in args.meta if row[name] is not None}} if args.meta else {})


def snapshot(connection: LogicalReplicationConnection, args: argparse.Namespace) -> None:
    """Creates the slot, and writes the rows that were committed before everything that the slot will return."""
    replication = connection.cursor()
    replication.execute(SQL("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput").format(Identifier(args.slot)))
    exported = replication.fetchone()[2]  # valid until the next command of this connection
    reading, columns = psycopg2.connect(args.postgres), [args.key, args.text, *args.meta]
    reading.set_session("REPEATABLE READ", readonly=True)
    reading.cursor().execute("SET TRANSACTION SNAPSHOT %s", [exported])
    with open(f"{args.snapshot}.partial", "w") as file, reading.cursor("rows") as rows:
        chosen = SQL(", ").join(SQL("t.{}::text").format(Identifier(c)) for c in columns)
        rows.execute(
            SQL("SELECT {} FROM {} t ORDER BY t.{}").format(
                chosen, Identifier(*args.table.split(".")), Identifier(args.key)
            )
        )
        file.writelines(json.dumps(document(dict(zip(columns, row, strict=True)), args)) + "\n" for row in rows)
        file.flush()
        os.fsync(file.fileno())
    os.rename(file.name, args.snapshot)


def follow(connection: LogicalReplicationConnection, args: argparse.Namespace) -> None:
    replication = connection.cursor()
    replication.execute("IDENTIFY_SYSTEM")
    name = f"postgres {replication.fetchone()[0]} {args.slot}"  # positions in the log are specific to one server
    options = {"proto_version": "1", "publication_names": args.publication}
    # Refused while another process has the slot.
    replication.start_replication(args.slot, options=options, decode=False, status_interval=1)
    with loaderd.Publisher(
        args.nats, source=args.source, name=name, start=args.start
    ) as publisher:  # only now: no other process adds to the input
        last = place_of(publisher.last_id)
        print(f"following {args.table} after {publisher.last_id or 'the start of the slot'}", flush=True)
        tables: dict[int, tuple[str, list[str]]] = {}
        # Of sent transactions: the position after the last document, the end in the log.
        commits: deque[tuple[int, int]] = deque()
        commit, nth, sent, within, passed_over = 0, 0, publisher.position, False, set()
        while True:
            message = replication.read_message()
            if message is None and commits:
                with contextlib.suppress(TimeoutError):
                    publisher.flush(1)  # raises errors of the publisher
            elif message is None:
                select.select([replication], [], [], 1)
            else:
                r = Reader(message.payload)
                kind = r.take(1)
                if kind == b"B":
                    commit, nth, within = r.number(8), 0, True
                elif kind == b"C":
                    r.take(9)
                    commits.append((sent, r.number(8)))
                    within = False
                elif kind == b"R":
                    number, table, columns = relation(r)
                    tables[number] = (table, columns)
                elif kind == b"I":
                    table, columns = tables[r.number(4)]
                    if table == args.table:
                        r.take(3)
                        row = {column: r.value() for column in columns}
                        nth += 1
                        if (commit, nth) > last:
                            try:
                                publisher.send(document(row, args) | {"id": f"{row[args.key]}@{commit:X}/{nth}"})
                                sent = publisher.position
                            except loaderd.InvalidDocumentError as error:  # too large, for instance
                                logging.warning("skipped %s/%s: %s", args.table, row[args.key], error)
                elif kind in b"UDT" and kind not in passed_over:
                    passed_over.add(kind)
                    logging.warning(
                        "ignored %s: published documents do not change",
                        {b"U": "UPDATE", b"D": "DELETE", b"T": "TRUNCATE"}[kind],
                    )
            while commits and commits[0][0] <= publisher.published.position:
                # Stored by JetStream: the server may discard it.
                replication.send_feedback(flush_lsn=commits.popleft()[1])
            if message is None and not commits and not within:
                # Otherwise the server retains its log indefinitely for an idle table.
                replication.send_feedback(flush_lsn=replication.wal_end)


def place_of(id: str) -> tuple[int, int]:
    """Returns the position in a document's id: its transaction's commit in the log, and the number of the row in the
    transaction.
    """
    commit, _, nth = id.rpartition("@")[2].partition("/")
    return (int(commit, 16), int(nth)) if commit else (0, 0)


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--postgres", default="dbname=postgres", help="connection string of the server (libpq)")
    flags.add_argument("--table", default="public.articles", help="schema and table")
    flags.add_argument("--key", default="id", help="column of the primary key")
    flags.add_argument("--text", default="body", help="column of the text")
    flags.add_argument(
        "--meta", default=[], type=lambda names: names.split(","), help="columns to store in meta, as strings"
    )
    flags.add_argument("--slot", default="articles", help="replication slot that only this program uses")
    flags.add_argument("--publication", default="articles")
    flags.add_argument("--nats", default="nats://127.0.0.1:4222")
    flags.add_argument("--source", default="articles")
    flags.add_argument(
        "--start", type=int, help="position of the next document, if the stream has released all documents of the slot"
    )
    flags.add_argument(
        "--snapshot", metavar="FILE", help="create the slot, write the existing rows to this file, and exit"
    )
    args = flags.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    opened = psycopg2.connect(args.postgres, connection_factory=LogicalReplicationConnection, client_encoding="UTF8")
    (snapshot if args.snapshot else follow)(opened, args)
