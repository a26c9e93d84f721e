"""What reports of consumption cost: processor time per step of client and daemon, compared with the same steps read without reports.

A sealed run of tokens is read whole by one Client, in turn with and without reports, after a first time that is not counted. A trainer that does nothing
reads as fast as it can; with `--pause` it takes so long per step. Each pair of readings gives a ratio; their median is printed, with the least and the most.
The last two columns are reports/s times the cost of one report, of many made one after the other, as a share of the processor time per second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent / "tests")]

import numpy as np  # noqa: E402
from conftest import Daemon, daemons  # noqa: E402
from tokenized import SETTINGS, publish_tokens  # noqa: E402

import loaderd  # noqa: E402
from loaderd.consumption import Reporter  # noqa: E402
from loaderd.wire import RunInfo  # noqa: E402

SIZES = {"512 tokens": (512, 1), "16,384 tokens": (2048, 8)}  # row length, rows per step
PUBLISHED_AT_ONCE = 250
TICK = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    client: float  # processor seconds
    daemon: float
    steps: int
    seconds: float
    reports: int


def processor_seconds(d: Daemon) -> float:
    assert d.process is not None
    fields = Path(f"/proc/{d.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@contextmanager
def counted_reports(enabled: bool) -> Iterator[list[None]]:
    """Counts reports; when they are not enabled, daemons seem to take none."""
    made: list[None] = []
    decode, report = RunInfo.decode, Reporter._report

    def counting(self: Reporter, timeout: float) -> None:
        made.append(None)
        report(self, timeout)

    with mock.patch.object(RunInfo, "decode", lambda body: replace(decode(body), reports=enabled)), mock.patch.object(Reporter, "_report", counting):
        yield made


def read(d: Daemon, enabled: bool, pause: float) -> Reading:
    with counted_reports(enabled) as made:
        began, client, daemon, steps = time.monotonic(), time.process_time(), processor_seconds(d), 0
        with loaderd.Client(d.flight_url) as reader:
            for _ in reader:
                steps += 1
                if pause:
                    time.sleep(pause)
        return Reading(time.process_time() - client, processor_seconds(d) - daemon, steps, time.monotonic() - began, len(made))


def report_cost(d: Daemon, reports: int) -> tuple[float, float]:
    """Processor seconds of client and daemon for one report, of many that are made one after the other."""
    with loaderd.Client(d.flight_url) as client:
        reader = client.stream(0)
        next(reader)
        own, daemon = time.process_time(), processor_seconds(d)
        for _ in range(reports):
            reader._reporter._report(timeout=5)
        cost = (time.process_time() - own) / reports, (processor_seconds(d) - daemon) / reports
        reader.cancel()
        return cost


def compare(size: str, steps: int, rounds: int, pause: float) -> str:
    length, rows = SIZES[size]
    settings = {**SETTINGS, "packing.buckets": str(length), "steps.rows": rows, "packing.method": "concat", "serve.stall_timeout": "30s"}
    draw = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder, daemons(Path(os.environ["LOADERD_BIN"]), Path(folder)) as start:
        d = start(settings)
        for _ in range(0, steps, PUBLISHED_AT_ONCE):
            publish_tokens(d.nats_url, [draw.integers(1, 900, length * rows - 1, dtype=np.int32) for _ in range(PUBLISHED_AT_ONCE)])
        with loaderd.Client(d.flight_url) as client:
            client.seal()
        read(d, True, 0)
        pairs = []
        for i in range(rounds):
            order = (True, False) if i % 2 else (False, True)
            found = {enabled: read(d, enabled, pause) for enabled in order}
            pairs.append((found[True], found[False]))
        costs = report_cost(d, 20 * rounds * PUBLISHED_AT_ONCE)

    def ratio(part: str) -> str:
        ratios = [(getattr(a, part) / a.steps) / (getattr(b, part) / b.steps) for a, b in pairs]
        return f"{statistics.median(ratios):.3f} ({min(ratios):.2f}-{max(ratios):.2f})"

    def per_second(part: str, of: int) -> float:
        return statistics.median(getattr(pair[of], part) / pair[of].seconds for pair in pairs)

    shares = [per_second("reports", 0) * cost / per_second(part, 1) for cost, part in zip(costs, ("client", "daemon"), strict=True)]
    figures = [f"{per_second('steps', 0):,.0f}", f"{per_second('reports', 0):.1f}", ratio("client"), ratio("daemon"), *(f"{100 * x:.2f} %" for x in shares)]
    print(f"{size}: one report takes {1e6 * costs[0]:.0f} us of the client and {1e6 * costs[1]:.0f} us of the daemon", file=sys.stderr)
    return f"| {size} | {' | '.join(figures)} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--steps", type=int, default=8000)
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--pause", type=float, default=0, help="seconds that the trainer takes for a step")
    a = p.parse_args()
    print("| step | steps/s | reports/s | client, of that without | daemon, of that without | client, share | daemon, share |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in SIZES:
        print(compare(size, a.steps, a.rounds, a.pause))


if __name__ == "__main__":
    main()
