"""examples/postgres_documents.py against a real Postgres: committed rows are in the stream once and in order,
whenever the example is killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import ROOT, free_ports
from environments import site_packages
from followers import Example, content, environment, length, stored
from scale import everything
from tokenized import of_text
from waiting import wait_for

EXAMPLE = ROOT / "examples" / "postgres_documents.py"
OURS = ["--table", "public.articles", "--meta", "language"]


class Postgres:
    """A server of PyPI's pgserver, of which only the programs are used: its own start creates a user for root, and
    makes folders accessible to all users."""

    def __init__(self, site: Path, folder: Path) -> None:
        self.programs, self.folder = folder / "pgserver" / "pginstall" / "bin", folder
        self.user = "nobody" if os.geteuid() == 0 else None  # Postgres does not run as root
        for part in ("pgserver", "pgserver.libs"):  # its libraries, if they are outside it
            if (site / part).exists():
                shutil.copytree(site / part, folder / part)
        if self.user:
            folder.chmod(0o755)
        (folder / "data").mkdir()
        (folder / "sockets").mkdir()
        if self.user:
            shutil.chown(folder / "data", self.user)
            shutil.chown(folder / "sockets", self.user)
        (self.port,) = free_ports(1)
        self.where = f"host={folder}/sockets port={self.port} user=postgres dbname=postgres"
        self.run("initdb", "-D", folder / "data", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")
        settings = {
            "listen_addresses": "",
            "port": self.port,
            "unix_socket_directories": folder / "sockets",
            "wal_level": "logical",
        }
        command = [
            self.programs / "postgres",
            "-D",
            folder / "data",
            *(x for k, v in settings.items() for x in ("-c", f"{k}={v}")),
        ]
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, user=self.user, stdout=log, stderr=log)
        wait_for(
            lambda: (
                not self.run("pg_isready", "-q", "-h", folder / "sockets", "-p", str(self.port), check=False).returncode
            )
        )

    def run(
        self, program: str, *arguments: object, given: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.programs / program, *map(str, arguments)],
            input=given,
            cwd=self.folder,
            user=self.user,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def sql(self, *statements: str) -> str:
        """Runs statements, each in a separate transaction unless they contain BEGIN."""
        return self.run(
            "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.where, given=";\n".join(statements) + ";"
        ).stdout.strip()

    @contextmanager
    def open_transaction(self, statement: str) -> Iterator[None]:
        """Opens a transaction that has run a statement, and commits at the end of the block."""
        with subprocess.Popen(
            [self.programs / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=self.user,
            cwd=self.folder,
            text=True,
        ) as session:
            assert session.stdin and session.stdout
            session.stdin.write(f"BEGIN;\n{statement};\nSELECT 'open';\n")
            session.stdin.flush()
            assert session.stdout.readline() == "open\n"
            yield
            session.stdin.write("COMMIT;\n")
        assert session.returncode == 0

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)  # as pg_ctl stop -m fast
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def site() -> Path:
    """The folder of psycopg2 and Postgres."""
    return site_packages("streams")


@pytest.fixture
def postgres(site: Path) -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short, as a socket's path must be, and accessible to another user
    try:
        server = Postgres(site, folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def follows(example: Example) -> bool:
    """Reports whether the example has the slot; False if it was refused. The server takes a moment to notice that
    the slot's previous owner was killed."""
    wait_for(lambda: "following" in example.said or example.ended())
    assert "following" in example.said or "is active for PID" in example.said, example.said
    return "following" in example.said


def rows(first: int, count: int) -> str:
    """Returns a transaction that inserts `count` rows."""
    columns = "i, 'text ' || i || ' grüße \\ ' || repeat('x', 100), CASE WHEN i % 3 > 0 THEN 'de' END"
    return f"INSERT INTO articles SELECT {columns} FROM generate_series({first}, {first + count - 1}) i"


@everything
def test_committed_rows_of_postgres_once_and_in_commit_order(daemon, loaderd, postgres, site, tokenizer, tmp_path):
    d = daemon(of_text(tokenizer, tmp_path))
    surroundings = environment(site)
    command = [sys.executable, EXAMPLE, "--postgres", postgres.where, "--nats", d.nats_url, *OURS]
    running: list[Example] = []

    def started() -> Example:
        while True:
            running.append(Example(command, tmp_path, surroundings))
            if follows(running[-1]):
                return running[-1]

    def has(count: int) -> None:
        running[-1].has_published(d.nats_url, count)

    try:
        postgres.sql(
            "CREATE TABLE articles (id bigint PRIMARY KEY, body text, language text)",
            "CREATE TABLE others (id bigint PRIMARY KEY, body text)",
            "CREATE PUBLICATION articles FOR TABLE articles, others",
            rows(1, 500),
        )
        subprocess.run([*command, "--snapshot", "articles.jsonl"], cwd=tmp_path, env=surroundings, check=True)
        expected = [*range(1, 501)]
        # Before the example follows.
        postgres.sql(rows(100_001, 10), "BEGIN", rows(200_001, 10), "ROLLBACK", "INSERT INTO others VALUES (1, 'x')")
        expected += range(100_001, 100_011)
        snapshot = [
            loaderd,
            "publish",
            "--daemon",
            d.nats_url,
            "--source",
            "articles",
            "--meta",
            "language",
            tmp_path / "articles.jsonl",
        ]
        subprocess.run(snapshot, check=True, capture_output=True)
        assert asyncio.run(length(d.nats_url)) == 500

        follower = started()
        has(510)
        second = Example(command, tmp_path, surroundings)
        assert not follows(second) and second.process.wait(60) != 0

        # Rows that JetStream does not have are not confirmed, however often the follower reports to the server.
        d.stop()
        postgres.sql(rows(300_001, 10))
        expected += range(300_001, 300_011)
        at, now = postgres.sql("SELECT pg_current_wal_flush_lsn(), now()").split("|")
        heard = (
            f"SELECT sent_lsn >= '{at}' AND reply_time > timestamptz '{now}' + interval '3 s' FROM pg_stat_replication"
        )
        wait_for(lambda: postgres.sql(heard) == "t")
        assert postgres.sql(f"SELECT confirmed_flush_lsn < '{at}' FROM pg_replication_slots") == "t"
        follower.kill()
        d.start()
        follower = started()
        has(len(expected))

        # In the middle of one large transaction, so that the server sends all of it again regardless of what was
        # confirmed.
        killed_amid = 0
        for k in range(1, 4):
            first = k * 1_000_000
            postgres.sql(rows(first, 20_000))
            before = len(expected)
            expected += range(first, first + 20_000)
            has(before + 1)
            follower.kill()
            killed_amid += before < asyncio.run(length(d.nats_url)) < len(expected)
            follower = started()
            has(len(expected))
        assert killed_amid

        # Order is by commit, even if a transaction began later and has higher keys. A row that is inserted again is a
        # new document.
        with postgres.open_transaction(rows(5_000_001, 3)):
            postgres.sql(
                "BEGIN", rows(6_000_001, 3), "SAVEPOINT part", rows(7_000_001, 3), "ROLLBACK TO part", "COMMIT"
            )
        postgres.sql(
            "UPDATE articles SET body = 'another' WHERE id = 1",
            "DELETE FROM articles WHERE id = 5000001",
            rows(5_000_001, 1),
        )
        expected += [6_000_001, 6_000_002, 6_000_003, 5_000_001, 5_000_002, 5_000_003, 5_000_001]
        has(len(expected))
        wait_for(lambda: "ignored DELETE" in follower.said)
        lag = "SELECT confirmed_flush_lsn >= {} FROM pg_replication_slots"
        at = postgres.sql("SELECT pg_current_wal_flush_lsn()")
        wait_for(lambda: postgres.sql(lag.format(f"'{at}'")) == "t")  # also after changes that are not documents
        follower.process.terminate()
        assert follower.process.wait(60) == 0, follower.said

        found = asyncio.run(stored(d.operator_url))
        assert [headers["Loaderd-Path"] for _, headers, _ in found] == [f"public.articles/{key}" for key in expected]
        followed = found[500:]
        assert [int(headers["Loaderd-Input"].partition(" ")[0]) for _, headers, _ in followed] == [
            *range(len(expected) - 500)
        ]
        for key, message in zip(expected[500:], followed, strict=True):
            assert content(message) == (f"text {key} grüße \\ " + "x" * 100, {"language": "de"} if key % 3 else {})
            assert message[1]["Nats-Msg-Id"].startswith(f"{key}@")
    finally:
        for example in running:
            example.kill()
