"""examples/online_mixing.py: a trainer whose losses change the mixture, killed and resumed."""

import json
import os
import re
import subprocess

import numpy as np
import pytest

import loaderd
from jobs import killed, losses, run, started
from scale import everything
from tokenized import SETTINGS, publish_tokens

MIXED = {
    **SETTINGS,
    "packing.pool": 16,
    "packing.max_age": 64,
    "shuffle.window": 8,
    "sources.code.weight": 1,
    "sources.web.weight": 1,
    "steps.rows": 16,
    "packing.buckets": 256,
    "serve.ahead": 2,
    "serve.checkpoint_steps": 5,
    "serve.stall_timeout": "30s",
}
STEPS, SAVE, MIX = 45, 10, 4
UNTIL = ("step 6 ", "step 12 ", "mix 16 ", "step 20 ", "step 33 ")  # the last line of a trainer before it is killed
MIXTURE = re.compile(r"^mix (\d+) from step (\d+) on: code=(\S+) web=(\S+?)( \(again\))?$", re.M)
AUDITED = re.compile(r'mix behind arrival .*"decided":(\d+)')


def long_documents(low: int, high: int) -> list[np.ndarray]:
    """Returns far more tokens than a test's connections buffer, which the daemon has planned before a trainer reads
    them."""
    rng = np.random.default_rng(low)
    return [rng.integers(low, high, 1000, dtype=np.int32) for _ in range(4000)]


def told(output: str) -> tuple[dict[int, str], dict[int, tuple[str, ...]]]:
    """Returns what a trainer printed for every step, and for every change of the mixture except whether it was the
    first to request it."""
    steps = {int(line.split()[1]): line for line in output.splitlines() if line.startswith("step ")}
    return steps, {int(m[1]): m.groups()[1:4] for m in MIXTURE.finditer(output)}


@everything
def test_killed_and_resumed_with_the_same_weights_and_batches(daemon, tmp_path):
    """The following are equal to the last printed digit: the loss of every step and the tokens of each source in it,
    the weights after every decision and the first step that can differ by it. One trainer is killed with SIGKILL
    several times: before its first checkpoint, while it requests a change, after a change that no checkpoint covers,
    while it saves, and with the daemon. The other one trains over the same recorded plan without an interruption,
    from the first step. The plan has each decision once. (A trainer that was never killed, over its own plan,
    decides at the same steps. The steps at which its changes take effect depend on how far ahead the daemon has
    planned.)
    """
    d = daemon(MIXED)
    publish_tokens(d.nats_url, long_documents(1, 6), "code")  # learned quickly
    publish_tokens(d.nats_url, long_documents(500, 999), "web")
    args = ("--url", d.flight_url, "--steps", STEPS, "--mix-every", MIX, "--rate", 0.4, "--reference", "code=0.5")
    saving = (*args, "--save-every", SAVE, "--checkpoint", tmp_path / "run.pt")
    outputs = []
    for until in UNTIL:
        outputs.append(killed("online_mixing.py", *saving, until=until))
        if until == UNTIL[-1]:
            d.kill()
            d.start()
    outputs.append(run("online_mixing.py", *saving))
    begun = [re.match(r"resumed at step (\d+)\n", o) for o in outputs]
    begins = [int(b[1]) if b else 0 for b in begun]
    assert begins[:3] == [0, 0, SAVE] and begins[-1] == 3 * SAVE and begins == sorted(begins)
    undisturbed = run("online_mixing.py", *args)

    steps, mixtures = told(undisturbed)
    assert list(steps) == list(range(1, STEPS + 1)) and list(mixtures) == list(range(MIX, STEPS, MIX))
    assert all(m[5] for m in MIXTURE.finditer(undisturbed))  # it requested only changes that the plan had
    seen_steps, seen_mixtures = {}, {}
    for output in outputs:
        some, changes = told(output)
        assert some and some.items() <= steps.items() and changes.items() <= mixtures.items(), output
        seen_steps |= some
        seen_mixtures |= changes
    assert seen_steps == steps and seen_mixtures == mixtures
    assert sum(bool(m[5]) for o in outputs for m in MIXTURE.finditer(o)) >= 2  # repeated decisions
    web = [float(shares[2]) for shares in mixtures.values()]
    assert web[-1] > 0.6 and len(set(web)) == len(web)  # web lags in its loss, and gets more weight
    assert losses(undisturbed)[STEPS] < losses(undisturbed)[1]
    with loaderd.Client(
        d.flight_url, sources=True, step=int(mixtures[max(mixtures)][0]), steps=80, job="later", timeout=60
    ) as client:
        counts = [step.source_counts for step in client][60:]
        assert client.info().sources == ("code", "web") and client.mix()["target"]["web"] == pytest.approx(web[-1])
    of_web = sum(c["web"].tokens for c in counts) / sum(n.tokens for c in counts for n in c.values())
    assert of_web == pytest.approx(web[-1], abs=0.05)  # the steps follow

    # On two ranks the order of additions differs, but the weights are those of the plan.
    two, mixtures_of_two = told(run("online_mixing.py", *args, world=2))
    assert mixtures_of_two == mixtures and {s: line.split(" loss")[0] for s, line in two.items()} == {
        s: line.split(" loss")[0] for s, line in steps.items()
    }
    assert [float(line.split()[-1]) for line in two.values()] == pytest.approx(
        [float(line.split()[-1]) for line in steps.values()], rel=1e-2
    )
    d.stop()
    audit = subprocess.run(
        [d.binary, "run", "audit", "--run", "default", *d.flags, "--json"],
        cwd=d.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    decided = [int(m[1]) for c in json.loads(audit.stdout)["controls"] if (m := AUDITED.search(c["what"]))]
    assert decided == list(mixtures)


@everything
def test_online_mixing_memory_of_a_step_is_bounded(daemon):
    """8,192 tokens of a vocabulary of 50,257 have 1.6 GB of logits, of which training holds several copies."""
    d = daemon({**MIXED, "tokenizer.vocab_size": 50_257, "packing.buckets": 512})
    for source in ("code", "web"):
        publish_tokens(d.nats_url, long_documents(1, 999)[:200], source)
    with started("online_mixing.py", "--url", d.flight_url, "--steps", 1) as job:
        printed = job.stdout.read()
        _, status, usage = os.wait4(job.pid, 0)
    assert status == 0 and losses(printed).keys() == {1}
    assert usage.ru_maxrss < 2_000_000  # kB
