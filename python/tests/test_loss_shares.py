"""Shares of tokens with a loss (mix.share), of chats with masks among texts, from the publisher to the batches."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import numpy as np
import pytest

import loaderd
from chat_tokenizers import with_template
from chats import chat
from loaderd import Chat, documents, publish
from loaderd.torch import StepLoader
from loaderd.torch.log import Log
from published_tokenizers import published
from waiting import wait_for

WORDS = "the daemon packs documents of many sources into rows and gives every rank the same step again".split()
SOURCES = ("chats", "tokens", "web")
WEIGHTS = {"chats": 0.25, "tokens": 0.25, "web": 0.5}
SETTINGS = {
    "packing.buckets": "256",
    "packing.pool": 64,
    "packing.max_age": 256,
    "shuffle.window": 32,
    "steps.rows": 4,
    "log.level": "warn",
    "documents.dedupe": 0,
    "mix.share": "loss_tokens",
    **{f"sources.{name}.weight": weight for name, weight in WEIGHTS.items()},
}
STEPS = 50


def text(rng: np.random.Generator, low: int, high: int) -> str:
    return " ".join(rng.choice(WORDS, int(rng.integers(low, high))))


def chats_of(rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    """Returns chats with long questions and short answers."""
    return [{"messages": chat(text(rng, 30, 90), text(rng, 3, 20))} for _ in range(n)]


@pytest.fixture(scope="module")
def mixed(module_daemon: Any) -> Any:
    """A run of chats as texts in parts, of chats as tokens, and of texts without masks."""
    tokenizer, rng = with_template("qwen3", "qwen3_instruct_2507"), np.random.default_rng(3)
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    fingerprint = Chat(tokenizer).fingerprint
    d = module_daemon(
        {**SETTINGS, "tokenizer.name": published("qwen3"), "tokenizer.end": end, "tokenizer.fingerprint": fingerprint}
    )
    publish(documents(chats_of(rng, 500), messages="messages", chat=tokenizer), d.nats_url, source="chats")
    as_tokens = Chat(tokenizer, as_tokens=True)
    publish(documents(chats_of(rng, 500), messages="messages", chat=as_tokens), d.nats_url, source="tokens")
    publish([{"text": text(rng, 5, 60)} for _ in range(500)], d.nats_url, source="web")
    return d


def read(url: str, steps: int) -> tuple[list[np.ndarray], list[dict[str, float]], Any]:
    """Reads the first steps. It returns their labels, the metrics of the logger, and the counts."""
    labels, lines = [], []
    with StepLoader(url) as loader:
        log = Log(loader, lambda metrics, _: lines.append(metrics), every=10)
        found = dict.fromkeys(SOURCES, 0)
        for _ in range(steps):
            batch = next(loader)
            labels.append(batch["labels"].numpy().copy())
            for number, name in enumerate(loader.sources):
                found[name] += int(((batch["sources"] == number) & (batch["labels"] != -100)).sum())
            log()
        counts = loader.counts
    assert all(
        found[name] == counts.loss_sources[name] for name in ("chats", "tokens")
    )  # their first tokens are masked
    assert 0 < found["web"] <= counts.loss_sources["web"] == counts.sources["web"]
    return labels, lines, counts


def test_steps_have_the_shares(mixed: Any) -> None:
    labels, lines, counts = read(mixed.flight_url, STEPS)
    total = sum(counts.loss_sources.values())
    for name, weight in WEIGHTS.items():
        assert counts.loss_sources[name] / total == pytest.approx(weight, abs=0.02)
        assert np.mean([line[f"loaderd/share/{name}"] for line in lines]) == pytest.approx(weight, abs=0.03)
    assert counts.sources["chats"] > 2 * counts.sources["web"]
    mixed.kill()
    mixed.start()
    again, _, _ = read(mixed.flight_url, STEPS)
    assert all(np.array_equal(a, b) for a, b in zip(labels, again, strict=True))


def command(d: Any, *arguments: str) -> str:
    """Returns the output of a command of loaderd about a daemon's run. Status 4 is a run that is not healthy."""
    done = subprocess.run([d.binary, *arguments], capture_output=True, check=False, text=True)
    assert done.returncode in (0, 4), done.stderr
    return done.stdout


def test_reports_name_the_unit(mixed: Any) -> None:
    client = loaderd.Client(mixed.flight_url)
    assert client.info().configuration["mix"]["share"] == "loss_tokens"
    state = client.mix()
    assert state["share_unit"] == "loss_tokens"
    with mixed.open("/metrics") as response:
        metrics = response.read().decode()
    for source in state["sources"]:
        assert source["target"] == WEIGHTS[source["name"]]
        assert source["share"] == pytest.approx(source["target"], abs=0.02)
        assert source["recent_share"] == pytest.approx(source["target"], abs=0.03)
        assert 0 < source["loss_tokens"] <= source["tokens"]
        assert (source["loss_tokens"] == source["tokens"]) == (source["name"] == "web")
        line = next(m for m in metrics.splitlines() if re.match(rf'loaderd_source_share.*"{source["name"]}"', m))
        assert float(line.split()[-1]) == pytest.approx(source["share"], abs=0.02)

    def status() -> Any:
        return json.loads(command(mixed, "status", "--daemon", mixed.flight_url, "--json"))

    wait_for(lambda: "sources" in status())  # a restarted daemon updates its status every second
    assert status()["share_unit"] == "loss_tokens"
    for source in status()["sources"]:
        assert source["share"] == pytest.approx(source["target"], abs=0.02)
        assert source["recent_share"] == pytest.approx(source["target"], abs=0.03)
    assert "LOSS TARGET" in command(mixed, "status", "--daemon", mixed.flight_url)
    assert "shares are of tokens with a loss" in command(mixed, "mix", "--daemon", mixed.flight_url)
    changed = client.mix({"chats": 0.1, "tokens": 0.1, "web": 0.8}, dry_run=True)
    assert changed["share_unit"] == "loss_tokens" and changed["target"]["web"] == pytest.approx(0.8)


def test_audit_of_the_ended_run(mixed: Any) -> None:
    with loaderd.Client(mixed.flight_url) as client:
        client.seal()
    with StepLoader(mixed.flight_url) as loader:
        steps = sum(1 for _ in loader)
    assert re.search(rf"\b{steps} steps\b", command(mixed, "run", "audit", *mixed.flags))
