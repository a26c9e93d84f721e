"""Scenarios in which a fault stalls a training job, or seems to. test_culprits runs each until the status names the
culprit, record_culprits for three minutes.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import Daemon, free_ports, set_found_token
from loaderd import Client, RunStatus
from rank_processes import Job, lock_step, own_pace
from tokenized import SETTINGS, documents, publish_tokens
from waiting import wait_for

LIMIT = 300  # seconds until a culprit is named; docs/how-to/troubleshooting.md#rank_missing has the times
LOOK = 0.5
NAMED_RANK = re.compile(r"(?i)\branks? (\d+)")
NAMED_JOB = re.compile(r'job "([^"]+)"')
TOKENS = {name: value for name, value in SETTINGS.items() if name != "serve.stall_timeout"}
DEFAULTS = {name: value for name, value in TOKENS.items() if name.startswith("tokenizer.")}
TEXT = {name: value for name, value in TOKENS.items() if not name.startswith("tokenizer.")}
SLOW = {**TOKENS, "packing.buckets": 2048, "sources.code.weight": 1, "sources.web.weight": 1}


@dataclass(frozen=True)
class Look:
    """What a daemon's page shows at a moment; no status if the daemon does not answer."""

    at: float  # by time.time()
    daemon: int
    status: RunStatus | None

    @property
    def text(self) -> str:
        s = self.status
        return "the daemon does not answer" if s is None else f"{s.sentence}; {s.detail}; {s.do}"

    @property
    def fails(self) -> bool:
        return self.status is not None and self.status.health == "failing"


@dataclass
class Stage:
    """Daemons, jobs and publishers of one scenario, and everything that the daemons' pages show, in order."""

    binary: Path
    folder: Path
    long: bool = False  # pauses have the length that they have in training
    fault: float = 0.0  # when the fault began
    daemons: list[Daemon] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    publishers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    watch: threading.Thread | None = None

    def serve(self, settings: Mapping[str, object], *others: Mapping[str, object]) -> Daemon:
        """Starts daemons, with settings for each."""
        for each in (settings, *others):
            folder = self.folder / f"daemon-{len(self.daemons)}"
            folder.mkdir(parents=True)
            self.daemons.append(Daemon(self.binary, folder, each))
        with ThreadPoolExecutor() as pool:  # members of a cluster serve when most of them do
            list(pool.map(Daemon.start, self.daemons))
        return self.daemons[0]

    def publish(self, n: int, longest: int = 8000, source: str = "test") -> None:
        publish_tokens(self.daemons[0].nats_url, documents(n, longest=longest), source)

    def look(self) -> None:
        """Starts to poll the pages of the daemons."""
        self.watch = threading.Thread(target=self._watch)
        self.watch.start()

    def plan_ahead(self) -> None:
        """Waits until the run has planned as many steps as it does without readers, and starts to poll."""
        for d in self.daemons:
            wait_for(lambda d=d: (s := page_status(d)) and s.sentence.startswith("Waiting for ranks"), LIMIT)
        self.look()

    def publish_texts(self, n: int) -> None:
        """Starts a publisher of texts of 4 KB, and returns when it waits for room."""
        file, log = self.folder / "texts.jsonl", self.folder / "publisher.log"
        texts = ({"text": f"{i} " + "a text of some length " * 190} for i in range(n))
        file.write_text("".join(json.dumps(text) + "\n" for text in texts))
        command = [self.binary, "publish", "--daemon", self.daemons[0].nats_url, file]
        with log.open("wb") as out:
            self.publishers.append(subprocess.Popen(command, stdout=out, stderr=out))
        wait_for(lambda: "full" in log.read_text(), LIMIT)

    def job(self, program: Callable[..., None], world: int, changes: dict[str, Any], url: str = "") -> Path:
        """Starts the processes of a job, and returns their folder."""
        folder = self.folder / changes["job"]
        folder.mkdir()
        self.jobs.append(Job(program, world, folder, url or self.daemons[0].flight_url, changes))
        return folder

    def fault_at(self, file: Path) -> None:
        """Waits for a file that is created when the fault begins."""
        wait_for(file.exists, LIMIT)
        self.fault = file.stat().st_mtime

    def shows(self, pattern: str, health: str = "") -> bool:
        return any(True for _ in self.matching(pattern, health))

    def matching(self, pattern: str, health: str = "") -> Iterator[Look]:
        """Yields the polls since the fault with this health and a text that matches the pattern."""
        for look in list(self.looks):
            shown = look.status is not None and look.at >= self.fault and re.search(health, look.status.health)
            if shown and re.search(pattern, look.text):
                yield look

    def messages(self, of: Callable[[Path, int], str]) -> dict[str, str]:
        """Returns the warnings, or errors, of all ranks that have some: job/rank -> text."""
        ranks = ((job.folder, rank) for job in self.jobs for rank in range(len(job.processes)))
        return {f"{folder.name}/{rank}": text for folder, rank in ranks if (text := of(folder, rank))}

    def newest(self) -> Mapping[str, Any]:
        """Returns the figures of the last poll."""
        return next(look.status.figures for look in reversed(self.looks) if look.status)

    def close(self) -> None:
        self.over.set()
        set_found_token()
        if self.watch is not None:
            self.watch.join()
        for job in self.jobs:
            job.stop()
        for publisher in self.publishers:
            publisher.kill()
            publisher.wait()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda d: d.process is None or d.stop(), self.daemons))

    def _watch(self) -> None:
        while not self.over.wait(LOOK):
            for n, d in enumerate(self.daemons):
                self.looks.append(Look(time.time(), n, page_status(d)))


@contextmanager
def staged(binary: Path, folder: Path, long: bool = False) -> Iterator[Stage]:
    stage = Stage(binary, folder, long)
    try:
        yield stage
    finally:
        stage.close()


def page_status(d: Daemon) -> RunStatus | None:
    """Returns what the live page of a daemon shows; None while it does not answer."""
    try:
        with d.open("/api/status", timeout=2) as response:
            return RunStatus.decode(json.load(response))
    except OSError:
        return None


@dataclass(frozen=True)
class Scene:
    """A scenario whose `play` returns once the fault has begun. `culprit` is a pattern of the text that names the
    culprit, when the status has a `health`. `innocent` is a pattern of texts that no page may show in the scenario.
    `job` and `rank` are those that it may name. `outcome` describes the job's result."""

    name: str
    happens: str
    play: Callable[[Stage], None]
    culprit: str = ""
    health: str = "failing"
    job: str = ""
    rank: int | None = None
    innocent: str = "documents|publish|tokenizer"
    outcome: Callable[[Stage], str] = lambda _: ""

    @property
    def mention(self) -> str:
        """A pattern of the culprit's name, which is shown before it certainly blocks the other ranks."""
        return self.culprit if self.rank is None else f'(?i)rank {self.rank} of \\d+ of job "{self.job}"'

    def is_named(self, stage: Stage) -> bool:
        return stage.shows(self.culprit, self.health)

    def wrong(self, stage: Stage) -> list[str]:
        """Returns texts that name another rank or job, or another cause; without a fault, red texts with a rank."""
        looks = list(stage.looks)
        if not self.culprit:
            return [look.text for look in looks if look.fails and NAMED_RANK.search(look.text)]
        ranks, jobs = {self.rank} - {None}, {self.job} - {""}
        return [
            look.text
            for look in looks
            if {int(n) for n in NAMED_RANK.findall(look.text)} - ranks
            or set(NAMED_JOB.findall(look.text)) - jobs
            or re.search(self.innocent, look.text)
        ]


# --- ranks -----------------------------------------------------------------------------------------------------------


def run_of_tokens(stage: Stage) -> Daemon:
    """Serves a run with sufficient documents: each document makes five steps."""
    d = stage.serve(TOKENS)
    stage.publish(1000 if stage.long else 200)
    stage.plan_ahead()
    return d


def hung_rank(stage: Stage) -> None:
    run_of_tokens(stage)
    changes = {"job": "hung", "freeze": [34, 3], "hang": True, "seconds": 0.05}
    stage.fault_at(stage.job(lock_step, 4, changes) / "fault")


def hung_rank_alone(stage: Stage) -> None:
    run_of_tokens(stage)
    stage.fault_at(stage.job(own_pace, 4, {"job": "alone", "freeze": [34, 3], "seconds": 0.05}) / "fault")


def killed_rank(stage: Stage) -> None:
    run_of_tokens(stage)
    changes = {"job": "killed", "kill": [34, 1], "hang": True, "seconds": 0.05}
    stage.fault_at(stage.job(lock_step, 2, changes) / "fault")


def slow_rank(stage: Stage) -> None:
    stage.serve(SLOW)
    for source in ("code", "web"):
        stage.publish(900 if stage.long else 300, source=source)
    stage.plan_ahead()
    stage.fault_at(stage.job(own_pace, 4, {"job": "slow", "seconds": 0.1, "slow": [3, 0.8]}) / "stepped-3")


def absent_rank(stage: Stage) -> None:
    run_of_tokens(stage)
    stage.fault_at(stage.job(own_pace, 4, {"job": "absent", "absent": 2, "seconds": 0.05}) / "stepped-0")


def duplicate_rank(stage: Stage) -> None:
    run_of_tokens(stage)
    stage.fault_at(stage.job(own_pace, 2, {"job": "twins", "twin": [1, 0], "seconds": 0.05}) / "connected-1")


def two_jobs(stage: Stage) -> None:
    run_of_tokens(stage)
    stage.job(own_pace, 1, {"job": "eval", "seconds": 0.1})
    changes = {"job": "pretrain", "freeze": [34, 1], "hang": True, "seconds": 0.05}
    stage.fault_at(stage.job(lock_step, 4, changes) / "fault")


def lost_rank_of_a_cluster(stage: Stage) -> None:
    cluster(stage)
    urls = ",".join(d.flight_url for d in stage.daemons)
    changes = {"job": "spread", "kill": [34, 2], "hang": True, "seconds": 0.05}
    stage.fault_at(stage.job(lock_step, 4, changes, urls) / "fault")


def cluster(stage: Stage) -> None:
    """Starts three daemons, whose NATS servers form a cluster."""
    secret = stage.folder / "secret"
    secret.write_text("the-secret-of-all-members\n")
    secret.chmod(0o600)
    routes = [f"127.0.0.1:{port}" for port in free_ports(3)]
    shared = {**TOKENS, "stream.cluster.name": "scene", "stream.cluster.peers": ",".join(routes)}
    shared |= {"stream.cluster.secret_file": secret, "stream.replicas": 3, "stream.max_bytes": "1GiB"}
    shared |= {"stream.dead_letter_bytes": "64MiB", "stream.plan_bytes": "256MiB"}
    set_found_token(stage.serve(*({**shared, "stream.cluster.listen": route} for route in routes)).token)
    stage.publish(500 if stage.long else 200)
    stage.plan_ahead()


# --- documents --------------------------------------------------------------------------------------------------------


def full_stream(stage: Stage, **settings: object) -> None:
    stage.serve({**TEXT, "stream.max_bytes": "1MiB", **settings})
    stage.job(own_pace, 1, {"job": "trainer", "seconds": 0.05, "commit": 1})
    stage.publish_texts(1000)
    stage.fault = time.time()
    stage.look()


def full_stream_keep(stage: Stage) -> None:
    full_stream(stage)


def full_stream_purge(stage: Stage) -> None:
    full_stream(stage, **{"serve.retention": "purge", "serve.checkpoint_steps": 4})


def small_corpus(stage: Stage) -> None:
    stage.serve(DEFAULTS)
    stage.publish(300, longest=2000)
    stage.look()
    stage.fault_at(stage.job(own_pace, 1, {"job": "trainer", "seconds": 0.1}) / "connected-0")


def trainer_behind(stage: Stage) -> None:
    d = stage.serve({**TOKENS, "packing.buckets": 512})
    stage.publish(300, longest=2000)
    stage.job(own_pace, 1, {"job": "trainer", "seconds": 3.0})
    wait_for(lambda: (s := page_status(d)) and [r["unit"] for r in s.figures["ranks"]] == ["read"], LIMIT)
    with Client(d.flight_url, job="seal") as client:
        client.seal()
        wait_for(lambda: client.status().ended, LIMIT)
    stage.fault = time.time()
    stage.look()


# --- no faults --------------------------------------------------------------------------------------------------------


def evaluation(stage: Stage) -> None:
    run_of_tokens(stage)
    changes = {"job": "pretrain", "pause": [40, [0], 90 if stage.long else 12], "seconds": 0.1}
    stage.fault_at(stage.job(lock_step, 4, changes) / "fault")


def checkpoint(stage: Stage) -> None:
    run_of_tokens(stage)
    changes = {"job": "pretrain", "pause": [40, range(4), 25 if stage.long else 12], "seconds": 0.1}
    stage.fault_at(stage.job(lock_step, 4, changes) / "fault")


def restart(stage: Stage) -> None:
    d = run_of_tokens(stage)
    changes = {"job": "pretrain", "seconds": 0.1}
    wait_for(steps_taken(stage.job(lock_step, 4, changes), 40), LIMIT)
    stage.fault = time.time()
    d.stop()
    d.start()


def takeover(stage: Stage) -> None:
    cluster(stage)
    urls = ",".join(d.flight_url for d in stage.daemons)
    wait_for(steps_taken(stage.job(lock_step, 4, {"job": "pretrain", "seconds": 0.1}, urls), 40), LIMIT)
    leader = next(d["name"] for d in stage.newest()["daemons"] if d.get("leads"))
    [lost] = [d for d in stage.daemons if (s := page_status(d)) and s.figures["daemon"] == leader]
    stage.fault = time.time()
    lost.kill()


def steps_taken(job: Path, step: int) -> Callable[[], bool]:
    """Returns a check that the ranks of lock_step have compared a step."""
    log = job / "log"
    return lambda: log.exists() and f'"step": {step},' in log.read_text()


def first_step(stage: Stage) -> str:
    stepped = stage.folder / "trainer" / "stepped-0"
    return f"first step after {stepped.stat().st_mtime - stage.fault:.0f} s" if stepped.exists() else "no step"


def last_step(stage: Stage) -> str:
    last = (stage.folder / "pretrain" / "log").read_text().splitlines()[-1]
    return f"step {json.loads(last)['step']} at the end"


def missing(rank: int, world: int, job: str, state: str) -> str:
    return f'Rank {rank} of {world} of job "{job}" has not {state}'


HUNG = Scene(
    "hung",
    "Rank 3 of 4, in lock step, is stopped (SIGSTOP)",
    hung_rank,
    missing(3, 4, "hung", "consumed"),
    job="hung",
    rank=3,
)
HUNG_ALONE = Scene(
    "hung, no lock step",
    "Rank 3 of 4 is stopped; the others read up to the end of its window",
    hung_rank_alone,
    missing(3, 4, "alone", "consumed"),
    job="alone",
    rank=3,
)
KILLED = Scene(
    "killed",
    "Rank 1 of 2, in lock step, is killed (kill -9)",
    killed_rank,
    missing(1, 2, "killed", "consumed"),
    job="killed",
    rank=1,
)
SLOW_RANK = Scene(
    "slow", "Rank 3 of 4 takes .8 s per step, the others .1 s", slow_rank, "rank 3 of 4", "running|waiting", "slow", 3
)
ABSENT = Scene(
    "absent", "Rank 2 of 4 never connects", absent_rank, missing(2, 4, "absent", "connected"), job="absent", rank=2
)
TWINS = Scene(
    "duplicate",
    "Both processes of 2 read as rank 0",
    duplicate_rank,
    missing(1, 2, "twins", "connected"),
    job="twins",
    rank=1,
)
TWO_JOBS = Scene(
    "two jobs",
    "Rank 1 of 4 of job pretrain, in lock step, is stopped; job eval reads on",
    two_jobs,
    missing(1, 4, "pretrain", "consumed"),
    job="pretrain",
    rank=1,
)
CLUSTER = Scene(
    "cluster",
    "Three daemons serve 4 ranks in lock step; rank 2 is killed",
    lost_rank_of_a_cluster,
    missing(2, 4, "spread", "consumed"),
    job="spread",
    rank=2,
)
FULL_KEEP = Scene(
    "full, keep",
    "The document stream (1 MiB) is full, `serve.retention: keep`",
    full_stream_keep,
    "is full .*raise stream.max_bytes",
    innocent="(?i)rank \\d|publish more",
)
FULL_PURGE = Scene(
    "full, purge",
    "The same with `purge`; the job committed once",
    full_stream_purge,
    'is full .*let job "trainer" commit',
    job="trainer",
    innocent="(?i)rank \\d|publish more",
)
SMALL = Scene(
    "small corpus",
    "300 documents at the defaults, and a trainer",
    small_corpus,
    "^First step in about",
    "waiting",
    "trainer",
    innocent="(?i)rank \\d",
    outcome=first_step,
)
BEHIND = Scene(
    "trainer behind",
    "All steps are planned, the trainer takes 3 s per step",
    trainer_behind,
    "^All .* are planned: rank 0 of 1 .*has consumed",
    "running",
    "trainer",
    0,
    innocent="^Ended",
)
EVALUATION = Scene(
    "evaluation", "Rank 0 evaluates for 90 s, the others wait in a collective", evaluation, outcome=last_step
)
CHECKPOINT = Scene("checkpoint", "All ranks write a checkpoint for 25 s", checkpoint, outcome=last_step)
RESTART = Scene("restart", "The daemon is restarted", restart, outcome=last_step)
TAKEOVER = Scene("takeover", "The leader of three daemons is killed, with its NATS server", takeover, outcome=last_step)

FAULTS = [SLOW_RANK, HUNG, HUNG_ALONE, KILLED, ABSENT, TWINS, TWO_JOBS, CLUSTER, FULL_KEEP, FULL_PURGE, SMALL, BEHIND]
PAUSES = [EVALUATION, CHECKPOINT, RESTART, TAKEOVER]
