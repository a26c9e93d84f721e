"""A trainer's view of its data: the run's status, its counts, and lines for its logger."""

import csv
import json

import pytest
from lightning.pytorch.loggers import CSVLogger

import loaderd
from loaderd.torch import StepLoader
from loaderd.torch._counts import BatchCounts
from loaderd.torch.log import Log, writer
from tokenized import SETTINGS, documents, publish_tokens
from waiting import wait_for

SHORT = {**SETTINGS, "packing.pool": 16, "packing.max_age": 64, "shuffle.window": 8, "serve.ahead": 2}
MIXED = {**SHORT, "sources.code.weight": 1, "sources.web.weight": 3}


@pytest.fixture(scope="module")
def url(module_daemon):
    """A sealed run of two sources."""
    d = module_daemon(MIXED)
    publish_tokens(d.nats_url, documents(200, 1), "code")
    publish_tokens(d.nats_url, documents(600, 2), "web")
    with loaderd.Client(d.flight_url) as client:
        client.seal()
    return d.flight_url


def test_what_was_seen_is_what_the_batches_hold(url):
    with StepLoader(url) as loader:
        tokens, padding, sources, steps = 0, 0, dict.fromkeys(("code", "web"), 0), 0
        assert loader.counts == BatchCounts()
        for batch in loader:
            real = batch["segment_ids"] > 0
            tokens, padding, steps = tokens + int(real.sum()), padding + int((~real).sum()), steps + 1
            for number, name in enumerate(loader.sources):
                sources[name] += int((batch["sources"] == number).sum())
        counts = loader.counts
        assert (counts.steps, counts.tokens, counts.padding, dict(counts.sources)) == (steps, tokens, padding, sources)
        assert sum(counts.buckets.values()) == steps and 0 < counts.waited < 60


def test_lines_for_a_logger(url):
    lines = []
    with StepLoader(url) as loader:
        log = Log(loader, lambda metrics, step: lines.append((step, metrics)), every=3)
        for _ in range(10):
            next(loader)
            log()
        assert [step for step, _ in lines] == [3, 6, 9]
        log.flush()
        log.flush()  # nothing new to write
        assert [step for step, _ in lines] == [3, 6, 9, 10]
        last = lines[-1][1]
        assert (
            last["loaderd/tokens"] == loader.counts.tokens == last["loaderd/tokens/code"] + last["loaderd/tokens/web"]
        )
        assert all(m["loaderd/share/code"] + m["loaderd/share/web"] == pytest.approx(1) for _, m in lines)
        assert all(
            0 <= m["loaderd/padding"] < 0.5 and 0 <= m["loaderd/wait_share"] <= 1 and m["loaderd/tokens_per_second"] > 0
            for _, m in lines
        )
        assert last["loaderd/wait_seconds"] == pytest.approx(loader.counts.waited)


def test_counts_go_on_behind_a_resume(url):
    with StepLoader(url) as loader:
        whole: list[dict] = []
        log = Log(loader, lambda metrics, step: whole.append(metrics), every=1)
        for _ in range(8):
            next(loader)
            log()
            if loader.step == 5:
                state = json.loads(json.dumps({"loader": loader.state_dict(), "log": log.state_dict()}))
    with StepLoader(url) as loader:
        next(loader)  # the position differs before the state is loaded
        loader.load_state_dict(state["loader"])
        lines: list[dict] = []
        log = Log(loader, lambda metrics, step: lines.append(metrics), every=1)
        log.load_state_dict(state["log"])
        for _ in range(3):
            next(loader)
            log()
    counts = [
        k
        for k in whole[-1]
        if k.startswith(("loaderd/tokens", "loaderd/share", "loaderd/padding")) and "second" not in k
    ]
    assert len(counts) == 6
    assert [{k: m[k] for k in counts} for m in lines] == [{k: m[k] for k in counts} for m in whole[5:]]


class SummaryWriter:
    def __init__(self):
        self.rows = []

    def add_scalar(self, tag, value, global_step=None):
        self.rows.append((tag, value, global_step))


class Wandb:
    def __init__(self):
        self.rows = []

    def log(self, data, step=None):
        self.rows.append((data, step))


def test_loggers_of_others(url, tmp_path):
    board, wandb, lightning = SummaryWriter(), Wandb(), CSVLogger(tmp_path)
    with StepLoader(url) as loader:
        logs = [Log(loader, logger, every=2, prefix="data/") for logger in (board, wandb, lightning, None)]
        for _ in range(4):
            next(loader)
            for log in logs:
                log()
    lightning.save()
    assert [step for _, step in wandb.rows] == [2, 4] and wandb.rows[0][0]["data/tokens"] > 0
    assert {step for _, _, step in board.rows} == {2, 4} and {tag for tag, _, _ in board.rows} == set(wandb.rows[0][0])
    with open(f"{lightning.log_dir}/metrics.csv") as f:
        rows = list(csv.DictReader(f))
    assert [int(r["step"]) for r in rows] == [2, 4] and float(rows[1]["data/tokens"]) == wandb.rows[1][0]["data/tokens"]


def test_what_is_no_logger(url):
    with pytest.raises(TypeError, match="int is not a logger"):
        writer(3)
    with StepLoader(url) as loader, pytest.raises(ValueError, match="every 0"):
        Log(loader, every=0)


def test_the_status_of_a_run(url):
    with StepLoader(url) as loader:
        next(loader)
        status = loader.status()
        assert status.run == loader.run and status.health in ("running", "waiting") and status.sentence
        assert [s["name"] for s in status.figures["sources"]] == ["code", "web"] and status.figures["commits"] == []
        for _ in loader:
            pass
        # The daemon evaluates its status once per second.
        wait_for(lambda: loader.status().sentence.startswith("Ended at step "))
        ended = loader.status()
        assert ended.health == "running" and ended.ended and ended.planned == loader.step
        assert str(ended).startswith(ended.sentence)


def test_a_run_that_waits_says_so_in_the_same_words(daemon):
    d = daemon({**SHORT, "serve.stall_timeout": "12s"})
    with StepLoader(d.flight_url, timeout=20) as loader:
        with pytest.raises(loaderd.SourceDryError) as told:
            next(loader)
        status = loader.status()
        assert (
            status.health == "waiting"
            and status.sentence.startswith("Waiting for documents, ")
            and status.reason == "SOURCE_DRY"
        )
        assert "Waiting for documents, " in str(told.value) and status.limits == "published"
