"""The number of steps of a run, as a trainer requests it."""

import time

import pytest
import torch

import loaderd
from loaderd import RunLength
from loaderd.torch import StepLoader
from tokenized import SETTINGS, documents, publish_tokens

SHORT = {
    **SETTINGS,
    "packing.pool": 16,
    "packing.max_age": 64,
    "shuffle.window": 8,
    "serve.ahead": 2,
    "serve.forecast": "1s",
}
MIXED = {**SHORT, "sources.code.weight": 1, "sources.web.weight": 3, "sources.web.epochs": 2}


def test_a_schedule_over_a_sealed_corpus(daemon):
    """While a source is open no number exists; once all are sealed it is the number of the remaining steps."""
    d = daemon(MIXED | {"serve.measure_tokens": 0})
    publish_tokens(d.nats_url, documents(300, 1), "code")
    publish_tokens(d.nats_url, documents(200, 2), "web")
    with StepLoader(d.flight_url, timeout=30) as loader, loaderd.Client(d.flight_url) as client:
        assert loader.total_steps is None
        with pytest.raises(loaderd.InvalidTicketError, match="may get more documents"):
            loader.measure()
        client.seal("web")
        with pytest.raises(loaderd.InvalidTicketError, match=r"\[code\]"):
            loader.measure()
        client.seal()
        assert loader.total_steps is None  # too long to be measured without a request
        total = loader.measure(timeout=60)
        assert loader.total_steps == total and loader.length == RunLength(total, exact=True)
        weight = torch.nn.Parameter(torch.zeros(1))
        schedule = torch.optim.lr_scheduler.OneCycleLR(torch.optim.SGD([weight], lr=1), max_lr=1, total_steps=total)
        steps = 0
        for _ in loader:
            schedule.optimizer.step()
            steps += 1
            if steps < total:
                schedule.step()
        assert steps == total == loader.measure()
        assert schedule.get_last_lr()[0] == pytest.approx(4e-6)  # the cycle is complete


def test_a_short_run_is_measured_by_itself(daemon):
    d = daemon(SHORT)
    publish_tokens(d.nats_url, documents(300))
    with StepLoader(d.flight_url, timeout=30) as loader, loaderd.Client(d.flight_url) as client:
        # The first may be of the empty stream.
        estimate = wait(lambda: (length := loader.length) and length.steps and length)
        assert not estimate.exact and estimate.open == ("docs",) and estimate.error > 0 and loader.total_steps is None
        client.seal()
        total = wait(lambda: loader.total_steps)
        assert len(list(loader)) == total


def test_a_run_without_an_end_has_no_number(daemon):
    d = daemon(MIXED | {"sources.web.epochs": "forever"})
    publish_tokens(d.nats_url, documents(30, 1), "code")
    publish_tokens(d.nats_url, documents(20, 2), "web")
    with StepLoader(d.flight_url, timeout=30) as loader, loaderd.Client(d.flight_url) as client:
        client.seal()
        assert wait(lambda: loader.length and loader.length.endless)
        assert loader.total_steps is None
        with pytest.raises(loaderd.InvalidTicketError, match="no end"):
            loader.measure()


def wait(value):
    """Returns the value once it is available."""
    for _ in range(3000):
        if found := value():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come")


def test_lengths_are_decoded():
    full = {
        "steps": 9,
        "error": 2,
        "exact": False,
        "endless": False,
        "idle": True,
        "open": ["a", "b"],
        "measured": 0.5,
        "more": 1,
    }
    assert RunLength.decode(full) == RunLength(9, 2, False, False, True, ("a", "b"), 0.5)
    assert RunLength.decode({"steps": 9, "error": 0, "exact": True}) == RunLength(9, exact=True)
    assert RunLength.decode(None) is None
