"""Only the culprit that stalls a job is named: on the pages of the daemons, by `loaderd status` and in the logs of
the other ranks. Every fault is real; docs/results/culprits.md has what is shown in the minutes after it.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import culprit_scenes as scenes
import loaderd
import scale
from conftest import Daemon
from culprit_scenes import LIMIT, Scene, Stage
from loaderd import Client
from rank_processes import error_of, warnings_of
from waiting import wait_for

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "culprits.md"


@pytest.fixture
def stage(loaderd: Path, tmp_path: Path) -> Iterator[Stage]:
    with scenes.staged(loaderd, tmp_path) as made:
        yield made


def play(scene: Scene, stage: Stage) -> None:
    """Runs a scenario until the culprit is named. No other one may be named at any time."""
    scene.play(stage)
    wait_for(lambda: scene.is_named(stage), LIMIT)
    assert not scene.wrong(stage)


def exit_status(d: Daemon) -> int:
    """Returns the exit status of `loaderd status`."""
    command = [d.binary, "status", "--daemon", d.flight_url]
    return subprocess.run(command, stdout=subprocess.DEVNULL).returncode


def logged(stage: Stage, scene: Scene, *ranks: int) -> Callable[[], bool]:
    """Returns a check that the clients of these ranks have named the culprit in their logs."""
    return lambda: all(re.search(scene.culprit, warnings_of(stage.folder / scene.job, rank)) for rank in ranks)


def job_of(stage: Stage, name: str) -> dict[str, Any]:
    """Returns a job in the newest status."""
    [found] = [j for j in stage.newest()["jobs"] if j["job"] == name]
    return dict(found)


@pytest.mark.parametrize("scene", scale.quick([scenes.HUNG, scenes.KILLED], [scenes.HUNG]), ids=lambda s: s.name)
def test_Culprit_RankInLockStep(stage: Stage, scene: Scene) -> None:
    """The other ranks hang in a collective: they hold step 35, or 34 if that was the culprit's last report."""
    play(scene, stage)
    assert exit_status(stage.daemons[0]) == 5
    wait_for(logged(stage, scene, *range(scene.rank or 0)), LIMIT)
    steps = {step for look in stage.looks for step in re.findall(r"has not consumed step (\d+)", look.text)}
    assert steps and steps <= {"34", "35"}


def test_Culprit_RankThatNeverConnected(stage: Stage) -> None:
    play(scenes.ABSENT, stage)
    assert (row := job_of(stage, "absent"))["missing"] == [2] and (row["present"], row["world"]) == (3, 4)
    wait_for(logged(stage, scenes.ABSENT, 0, 1, 3), LIMIT)


@scale.everything
def test_Culprit_SecondClientOfARank(stage: Stage) -> None:
    """The second client is refused, so that the rank whose number it should have had is missing."""
    play(scenes.TWINS, stage)
    assert sorted(p.is_alive() for p in stage.jobs[0].processes) == [False, True]
    assert all(text.startswith("DuplicateRankError: ") for text in stage.messages(error_of).values())


def test_Culprit_DuplicateRankIsRefused(stage: Stage) -> None:
    served = scenes.run_of_tokens(stage)
    with Client(served.flight_url, rank=0, world_size=2, job="first") as first:
        next(first)
        with Client(served.flight_url, rank=0, world_size=2, job="first") as second:
            with pytest.raises(loaderd.DuplicateRankError) as caught:
                next(second)
        assert caught.value.facts.items() >= {"job": "first", "rank": "0", "world": "2"}.items()
        with Client(served.flight_url, rank=0, world_size=2, job="first", peer=1) as peer:
            assert next(peer).index == 0
        assert next(first).index == 1


@scale.everything
def test_Culprit_OneJobOfTwo(stage: Stage) -> None:
    """The other job continues to read."""
    play(scenes.TWO_JOBS, stage)
    wait_for(logged(stage, scenes.TWO_JOBS, 0, 2, 3), LIMIT)
    assert job_of(stage, "pretrain")["failing"] and job_of(stage, "eval")["state"] == "reading"
    at = job_of(stage, "eval")["least"]
    wait_for(lambda: job_of(stage, "eval")["least"] > at)
    assert "pretrain" not in warnings_of(stage.folder / "eval", 0)


@scale.everything
def test_Culprit_RankOfACluster(stage: Stage) -> None:
    """Every daemon names the rank that one of them has served."""
    play(scenes.CLUSTER, stage)
    for n in range(3):
        wait_for(lambda n=n: any(look.daemon == n for look in stage.matching(scenes.CLUSTER.culprit, "failing")), LIMIT)
    assert not scenes.CLUSTER.wrong(stage)


@scale.everything
@pytest.mark.parametrize(
    "scene",
    [scenes.SLOW_RANK, scenes.HUNG_ALONE, scenes.FULL_KEEP, scenes.FULL_PURGE, scenes.SMALL],
    ids=lambda s: s.name,
)
def test_Culprit_IsNamed(stage: Stage, scene: Scene) -> None:
    play(scene, stage)


def test_Culprit_EndedRunWithATrainerBehind(stage: Stage) -> None:
    """The run has ended when the trainer has received the last step, not when it is sent."""
    play(scenes.BEHIND, stage)
    (stage.folder / "trainer" / "hurry").touch()
    wait_for(lambda: stage.shows("^Ended at step", "running"), LIMIT)


@scale.everything
@pytest.mark.parametrize("scene", scenes.PAUSES, ids=lambda s: s.name)
def test_Culprit_PauseIsNoFault(stage: Stage, scene: Scene) -> None:
    """No rank is named in red."""
    scene.play(stage)
    wait_for(scenes.steps_taken(stage.folder / "pretrain", 300), LIMIT)
    assert not scene.wrong(stage)


def test_Page_HasEveryScene() -> None:
    """The page was written with all scenarios, and none of them showed a wrong culprit."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    named = {row[0]: row for row in rows if len(row) == 7}
    for scene in scenes.FAULTS + scenes.PAUSES:
        assert named[scene.name][-1] == "none"
        assert scene.culprit or named[scene.name][3] == "never"
        assert [row[:2] for row in rows].count([scene.name, "5 s"]) == 1
