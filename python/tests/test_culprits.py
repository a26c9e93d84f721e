"""The rank that holds a job is named, and no other one: in the daemon's status and in the logs of the other ranks.
Every fault is made for real.
"""

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import scale
from conftest import Daemon
from rank_processes import Job, lock_step, own_pace, warnings_of
from tokenized import SETTINGS, documents, publish_tokens
from waiting import wait_for

import loaderd
from loaderd import Client, RunStatus

LIMIT = 300  # seconds until a culprit is named; docs/operations.md has the times
LOOK = 0.5
NAMED_RANK = re.compile(r"(?i)\branks? (\d+)")
NAMED_JOB = re.compile(r'job "([^"]+)"')
WRONG = ("documents", "publish", "tokenizer")


@pytest.fixture
def served(daemon: Callable[..., Daemon]) -> Daemon:
    """A run that is not short of documents."""
    d = daemon(SETTINGS)
    publish_tokens(d.nats_url, documents(4000))
    with Client(d.flight_url) as client:
        wait_for(lambda: client.status().sentence.startswith("Waiting for ranks"), LIMIT)
    return d


@dataclass
class Watcher:
    """Everything that the daemon's status has shown, in order."""

    seen: list[RunStatus] = field(default_factory=list)

    def shows(self, health: str, pattern: str) -> bool:
        """Whether the status was ever of that health, with a text of that pattern."""
        return any(re.search(health, s.health) and re.search(pattern, text(s)) for s in list(self.seen))

    def blames_only(self, rank: int, *, job: str) -> None:
        """Fails where a text names another rank or job, or documents."""
        for shown in map(text, self.seen):
            assert {int(n) for n in NAMED_RANK.findall(shown)} <= {rank}, shown
            assert set(NAMED_JOB.findall(shown)) <= {job}, shown
            assert not any(word in shown for word in WRONG), shown


def text(s: RunStatus) -> str:
    return f"{s.sentence}; {s.detail}; {s.do}"


@contextmanager
def watched(d: Daemon) -> Iterator[Watcher]:
    """Looks at the status all the time."""
    watcher, over = Watcher(), threading.Event()

    def look() -> None:
        with Client(d.flight_url) as client:
            while not over.wait(LOOK):
                watcher.seen.append(client.status())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield watcher
    finally:
        over.set()
        thread.join()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Starts jobs, which are killed at the end."""
    started: list[Job] = []

    def start(
        program: Callable[..., None], world: int, url: str, changes: dict[str, Any], folder: Path = tmp_path
    ) -> Job:
        started.append(Job(program, world, folder, url, changes))
        return started[-1]

    yield start
    for job in started:
        job.stop()


def job_of(watcher: Watcher, name: str) -> dict[str, Any]:
    """A job in the newest status."""
    [found] = [j for j in watcher.seen[-1].figures["jobs"] if j["job"] == name]
    return dict(found)


def exit_status(d: Daemon) -> int:
    """Of `loaderd status`."""
    command = [d.binary, "status", "--flight", d.flight_url]
    return subprocess.run(command, stdout=subprocess.DEVNULL).returncode


def logged(folder: Path, culprit: str, *ranks: int) -> Callable[[], bool]:
    """Whether the clients of these ranks have named the culprit in their logs."""
    return lambda: all(culprit in warnings_of(folder, rank) for rank in ranks)


def wrote(folder: Path, step: int) -> Callable[[], bool]:
    """Whether the ranks of lock_step have compared a step."""
    log = folder / "log"
    return lambda: log.exists() and f'"step": {step},' in log.read_text()


@pytest.mark.parametrize("fault", scale.quick(["freeze", "kill"], ["freeze"]))
def test_Culprit_HungOrKilledRankInLockStep(
    served: Daemon, tmp_path: Path, jobs: Callable[..., Job], fault: str
) -> None:
    """The other ranks hang in a collective. The step that is named is the one after the rank's last report."""
    name, world = f"lockstep-{fault}", {"freeze": 4, "kill": 2}[fault]
    culprit = world - 1
    job = jobs(lock_step, world, served.flight_url, {fault: [34, culprit], "hang": True, "job": name})
    wait_for(wrote(tmp_path, 34), LIMIT)
    with watched(served) as watcher:
        rank = f'ank {culprit} of {world} of job "{name}" has not consumed step '
        wait_for(lambda: watcher.shows("failing", rank), LIMIT)
        assert exit_status(served) == 2
        wait_for(logged(tmp_path, rank, *range(culprit)), LIMIT)
    watcher.blames_only(culprit, job=name)
    steps = re.findall(rf"{rank}(\d+)", " ".join(map(text, watcher.seen)))
    assert steps and all(34 - 32 <= int(step) <= 34 + 1 for step in steps)
    job.stop()


def test_Culprit_RankThatNeverCame(served: Daemon, tmp_path: Path, jobs: Callable[..., Job]) -> None:
    job = jobs(own_pace, 4, served.flight_url, {"seconds": 0.5, "absent": 2, "job": "absent"})
    with watched(served) as watcher:
        wait_for(lambda: watcher.shows("failing", 'Rank 2 of 4 of job "absent" has not connected'), LIMIT)
        assert (row := job_of(watcher, "absent"))["missing"] == [2] and (row["present"], row["world"]) == (3, 4)
        wait_for(logged(tmp_path, 'ank 2 of 4 of job "absent"', 0, 1, 3), LIMIT)
    watcher.blames_only(2, job="absent")
    job.stop()


@scale.everything
def test_Culprit_SecondClientOfARank(served: Daemon, tmp_path: Path, jobs: Callable[..., Job]) -> None:
    """The second one is refused, so that the rank whose number it should have had is missing."""
    job = jobs(own_pace, 2, served.flight_url, {"seconds": 0.5, "twin": [1, 0], "job": "twins"})
    with watched(served) as watcher:
        wait_for(lambda: any(p.exitcode for p in job.processes), LIMIT)
        assert sorted(p.is_alive() for p in job.processes) == [False, True]
        wait_for(lambda: watcher.shows("failing", 'Rank 1 of 2 of job "twins" has not connected'), LIMIT)
    watcher.blames_only(1, job="twins")
    job.stop()


def test_Culprit_DuplicateRankIsRefused(served: Daemon) -> None:
    with Client(served.flight_url, rank=0, world=2, job="first") as first:
        next(first)
        with Client(served.flight_url, rank=0, world=2, job="first") as second:
            with pytest.raises(loaderd.DuplicateRank) as caught:
                next(second)
        assert caught.value.facts.items() >= {"job": "first", "rank": "0", "world": "2"}.items()
        with Client(served.flight_url, rank=0, world=2, job="first", peer=1) as peer:
            assert next(peer).index == 0
        assert next(first).index == 1


@scale.everything
def test_Culprit_SlowRankBehindFullBuffers(served: Daemon, tmp_path: Path, jobs: Callable[..., Job]) -> None:
    """Its connection could hold all steps of the run, which are small."""
    job = jobs(own_pace, 4, served.flight_url, {"seconds": 0.02, "slow": [3, 0.3], "job": "slow"})
    with watched(served) as watcher:
        wait_for(lambda: watcher.shows("running|waiting", "rank 3 of 4"), LIMIT)
    watcher.blames_only(3, job="slow")
    job.stop()


@scale.everything
def test_Culprit_OneJobOfTwo(served: Daemon, tmp_path: Path, jobs: Callable[..., Job]) -> None:
    """The other job reads on."""
    (tmp_path / "eval").mkdir()
    stuck = jobs(lock_step, 4, served.flight_url, {"freeze": [20, 1], "job": "pretrain"})
    reading = jobs(own_pace, 2, served.flight_url, {"seconds": 0.3, "job": "eval"}, tmp_path / "eval")
    wait_for(wrote(tmp_path, 20), LIMIT)
    with watched(served) as watcher:
        wait_for(lambda: watcher.shows("failing", 'Rank 1 of 4 of job "pretrain" has not consumed step '), LIMIT)
        wait_for(logged(tmp_path, 'ank 1 of 4 of job "pretrain"', 0, 2, 3), LIMIT)
        assert job_of(watcher, "pretrain")["failing"] and job_of(watcher, "eval")["state"] == "reading"
        at = job_of(watcher, "eval")["least"]
        wait_for(lambda: job_of(watcher, "eval")["least"] > at)
    watcher.blames_only(1, job="pretrain")
    assert "pretrain" not in warnings_of(tmp_path / "eval", 0)
    stuck.stop()
    reading.stop()


def test_Culprit_EndedRunWithATrainerBehind(daemon: Callable[..., Daemon]) -> None:
    """It has ended when the trainer has the last step, not when that is sent."""
    d = daemon(SETTINGS)
    publish_tokens(d.nats_url, documents(300))
    with Client(d.flight_url) as client:
        next(client)
        wait_for(lambda: [r["unit"] for r in client.status().figures["ranks"]] == ["read"], LIMIT)
        client.seal()
        wait_for(lambda: client.status().ended)
        with watched(d) as watcher:
            wait_for(lambda: watcher.shows("running|waiting", r"rank 0 of 1 .*has consumed (0|1)\b"), LIMIT)
            assert not watcher.shows("", "^Ended")
            for _ in client:
                pass
            wait_for(lambda: watcher.shows("running", "^Ended at step"), LIMIT)
