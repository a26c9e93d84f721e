"""Training jobs of several processes: in lock step, killed, resumed, resumed with another world."""

import json
import random

import numpy as np
import pytest
import torch

from jobs import BLOCK, ROOT
from loaderd import Client, publish
from rank_processes import Job, error_of, lock_step, mesh_peers, read_alone, snippet_gradients
from tokenized import SETTINGS, TOKENIZER, VOCABULARY, documents, publish_tokens
from waiting import wait_for


@pytest.fixture(scope="module")
def served(module_daemon):
    """A sealed run of about 90 steps, and its content."""
    d = module_daemon(SETTINGS)
    publish_tokens(d.nats_url, documents(800))
    with Client(d.flight_url) as client:
        client.seal()
    steps = read_alone(d.flight_url)
    assert len(steps) > 80 and {s["bucket"] for s in steps} == {64, 128}
    return d, steps


def written(folder):
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def same(got, want):
    """Compares a step that rank 0 wrote down with the undisturbed one."""
    return all(got[k] == want[k] for k in ("step", "bucket", "rows"))


@pytest.mark.parametrize("world", [2, 4])
def test_lock_step(served, tmp_path, world):
    """Every rank has the same step, bucket and shape; together they have the rows that a world of one has."""
    d, steps = served
    assert Job(lock_step, world, tmp_path, d.flight_url, {}).join() == [0] * world
    got = written(tmp_path)
    assert len(got) == len(steps) and all(map(same, got, steps))


SNIPPETS = {
    "README": ("README.md", 0),
    "ten lines": ("docs/how-to/pytorch.md", 0),
    "accumulation": ("docs/how-to/pytorch.md", 1),
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_Loss_GradientsEqualOnAnyNumberOfRanks(daemon, tmp_path, name):
    """The loops of the pages: alone, and with DDP and FSDP on 2 and 4 ranks, which have different numbers of labels."""
    d = daemon(SETTINGS | {"packing.pool": 16, "packing.holdback": 0, "shuffle.window": 4})
    masked = [
        {"ids": ids, "loss": (np.arange(len(ids)) >= len(ids) * (i % 3) / 2).tolist()}
        for i, ids in enumerate(documents(120))
    ]
    publish(masked, d.nats_url, source="web", tokenizer=TOKENIZER)
    with Client(d.flight_url) as client:
        client.seal()
    page, number = SNIPPETS[name]
    snippet = [
        block for source, block in BLOCK.findall((ROOT / page).read_text()) if not source and "loss_sum" in block
    ][number]
    prelude = (
        "import torch\nfrom torch.nn.functional import cross_entropy\nfrom loaderd.torch import StepLoader\nfrom "
        "loaderd.torch.masks import dense_mask\n"
    )
    for wrapper, world in (("none", 1), ("ddp", 1), ("ddp", 2), ("ddp", 4), ("fsdp", 2)):
        job = Job(snippet_gradients, world, tmp_path, d.flight_url, (prelude + snippet, wrapper, VOCABULARY))
        assert job.join() == [0] * world
    alone = torch.load(tmp_path / "none-1.pt")
    assert len(alone) > 1 and alone.abs().sum(1).min() > 0
    for file in tmp_path.glob("*-*.pt"):
        torch.testing.assert_close(torch.load(file), alone, rtol=1e-9, atol=1e-12)


def test_other_world_sizes(served, tmp_path):
    """A job of 4 ranks, then 2, then 4 again, each from the previous checkpoint."""
    d, steps = served
    ends = [len(steps) // 3, 2 * len(steps) // 3, len(steps)]
    for world, stop in zip((4, 2, 4), ends, strict=True):
        assert Job(lock_step, world, tmp_path, d.flight_url, {"stop": stop}).join() == [0] * world
    got = written(tmp_path)
    assert [g["world"] for g in got] == [4] * ends[0] + [2] * (ends[1] - ends[0]) + [4] * (ends[2] - ends[1])
    assert len(got) == len(steps) and all(map(same, got, steps))


def test_killed_ranks_and_daemons(served, tmp_path):
    """A rank is killed by SIGKILL, the job restarts from its last checkpoint, and meanwhile the daemon is killed
    too."""
    d, steps = served
    rng = random.Random(6)
    begin, expected = 0, []
    for _ in range(3):
        kill, victim, every = rng.randrange(begin + 5, begin + 25), rng.randrange(2), rng.randrange(3, 9)
        ask = rng.randrange(begin, kill)
        for name in ("question", "answer"):
            (tmp_path / name).unlink(missing_ok=True)
        job = Job(lock_step, 2, tmp_path, d.flight_url, {"every": every, "kill": [kill, victim], "ask": ask})
        wait_for((tmp_path / "question").exists)
        d.kill()
        (tmp_path / "answer").touch()
        d.start()
        statuses = job.join()
        assert statuses[victim] == -9 and statuses[1 - victim] not in (0, None)
        expected += range(begin, kill + 1)
        begin = max([begin] + [s for s in range(begin + 1, kill + 1) if s % every == 0])
    assert Job(lock_step, 2, tmp_path, d.flight_url, {}).join() == [0, 0]
    expected += range(begin, len(steps))
    got = written(tmp_path)
    assert [g["step"] for g in got] == expected
    assert all(same(g, steps[g["step"]]) for g in got)


def test_Skip_KilledAndResumed(served, tmp_path):
    """Two ranks skip 30 steps and are killed; two, then four resumed ranks leave out the same steps."""
    d, steps = served
    want = steps[:20] + steps[50:]
    changes = {"every": 5, "skip": [20, 30], "job": "skip"}
    job = Job(lock_step, 2, tmp_path, d.flight_url, changes | {"kill": [52, 1]})
    assert job.join()[1] != 0
    assert [s["step"] for s in written(tmp_path)] == [*range(20), 50, 51, 52]
    assert Job(lock_step, 2, tmp_path, d.flight_url, {"every": 5, "stop": 60, "job": "skip"}).join() == [0, 0]
    assert Job(lock_step, 4, tmp_path, d.flight_url, {"every": 5, "job": "skip"}).join() == [0] * 4
    got = {s["step"]: s for s in written(tmp_path)}
    assert [s["step"] for s in written(tmp_path)][:26] == [*range(20), 50, 51, 52, 50, 51, 52]
    assert list(got) == [s["step"] for s in want] and all(map(same, got.values(), want))
    with Client(d.flight_url) as client:
        committed = len(steps) // 5 * 5
        assert client.info().commits["skip"] == committed
        found = {"job": "skip", "step": committed, "skipped": 30}
        wait_for(lambda: found in client.status().figures["commits"])  # the status is later than the commit


def test_Skip_RanksDiffer(served, tmp_path):
    d, _ = served
    Job(lock_step, 2, tmp_path, d.flight_url, {"skip": [3, 5], "skip_elsewhere": 6}).join()
    raised = error_of(tmp_path, 0) + error_of(tmp_path, 1)
    assert raised.count("skip the same steps on every rank, at the same step") == 1, raised


def test_mesh(served, tmp_path):
    """On a 2 by 2 mesh, tensor-parallel peers read the same rows, and the two data-parallel ranks divide a step's
    rows."""
    d, steps = served
    assert Job(mesh_peers, 4, tmp_path, d.flight_url, 6).join() == [0] * 4
    ranks = [[json.loads(line) for line in (tmp_path / f"rank-{r}").read_text().splitlines()] for r in range(4)]
    assert ranks[0] == ranks[1] and ranks[2] == ranks[3]
    assert [a + b for a, b in zip(ranks[0], ranks[2], strict=True)] == [s["rows"] for s in steps[:6]]
