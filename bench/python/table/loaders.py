"""StepLoader, compared with a memory-mapped DataLoader with two workers, over the same rows."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator

from bench import Bench, python
from measures import Measure

BASELINE = "DataLoader, memory-mapped file, 2 workers"
OURS = "StepLoader, input_ids"
WAYS = {"live": "planned while read", "planned": "planned before", "messages": "planned while read from messages"}


def loaders(bench: Bench) -> Iterator[Measure]:
    """One rank and two, into tensors, from a daemon that packs at the same time, with a token store or from messages,
    and from one that reads the documents of its plan again.
    """
    found = bench.folder / "loaders.json"
    size = ["--steps", 20, "--rounds", 1, "--worlds", "1"] if bench.moment else ["--steps", 300, "--rounds", 3]
    command = [
        python(),
        bench.script("loaders/run.py"),
        "--loaderd",
        bench.program("loaderd"),
        "--json",
        found,
        "--speed",
    ]
    bench.say([*command, "--only", "input_ids", "--only", BASELINE, *size])
    for world, loader in json.loads(found.read_text())["figures"].items():
        ranks = "one rank" if world == "1" else f"{world} ranks"
        for way, planned in WAYS.items():
            ours, theirs = (
                statistics.median(r["speed"] for r in loader[name]) / 1e6 for name in (f"{OURS}, {way}", BASELINE)
            )
            yield Measure(f"StepLoader into tensors, {planned}, {ranks}", ours, "M tokens/s", theirs, BASELINE)
