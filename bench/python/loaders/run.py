"""Compares StepLoader with widely used loaders, over the same rows, and prints Markdown tables.

    make bench-loaders
    python bench/python/loaders/run.py --loaderd bin/loaderd --steps 200 --rounds 1 --only memory-mapped

loaderd.publish sends documents to a daemon. Its rows are read once and written to a file, from which the other loaders'
formats are created. Rounds alternate between all loaders, so that a busy machine slows them equally; each figure is the
median of its rounds. Daemon, server, ranks and workers share two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[2] / "python"
sys.path[:0] = [str(HERE), str(PYTHON / "src"), str(PYTHON / "tests")]

import cpu  # noqa: E402
import loaderd  # noqa: E402
import peers  # noqa: E402
from conftest import Daemon, free_ports  # noqa: E402
from data import LENGTH, ROWS, SETTINGS, TOKENIZER, documents  # noqa: E402

OURS = ("StepLoader, input_ids", "StepLoader, all fields")
# What is measured of one run, with its settings. The run that has published the documents has filled the token store.
RUNS: dict[tuple[str, ...], dict[str, object]] = {
    ("live", "planned"): {},
    ("messages",): {"serve.token_store.max_bytes": 0},
}
WARM = 10
Figures = dict[str, list[dict[str, float]]]


class Ranks:
    """The processes of all ranks of a world."""

    def __init__(self, folder: Path, world: int) -> None:
        (port,) = free_ports(1)
        self.processes = [
            subprocess.Popen(
                [sys.executable, HERE / "rank.py", folder, str(rank), str(world)],
                env=program(peers.environment(rank, world, port)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(folder / f"rank-{rank}.log").open("a"),
                text=True,
            )
            for rank in range(world)
        ]

    def do(self, what: str, **arguments: Any) -> list[dict[str, Any]]:
        for p in self.processes:
            p.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
            p.stdin.flush()
        answers = [json.loads(p.stdout.readline() or '{"error": "the process has ended"}') for p in self.processes]
        for answer in answers:
            if "error" in answer:
                raise RuntimeError(answer["error"])
        return answers

    def read(self, loader: str, steps: int, server: int | None = None, **arguments: Any) -> dict[str, float]:
        """Returns tokens per second of all ranks together, and CPU nanoseconds per token of all processes, including
        the server.
        """
        everybody = [p.pid for p in self.processes] + ([] if server is None else [server])
        self.do("open", loader=loader, warm=WARM, **arguments)
        try:
            before = cpu.seconds(everybody)
            parts = self.do("read", steps=steps - WARM)
            used = cpu.seconds(everybody) - before
        finally:
            self.do("done")
        tokens = sum(p["tokens"] for p in parts)
        return {
            "speed": tokens / (max(p["ended"] for p in parts) - min(p["began"] for p in parts)),
            "cpu": 1e9 * used / tokens,
        }

    def close(self) -> None:
        for p in self.processes:
            p.stdin.close()
            p.wait(60)


def program(environment: dict[str, str]) -> dict[str, str]:
    return environment | {"PYTHONPATH": os.pathsep.join([*sys.path[:2], environment.get("PYTHONPATH", "")])}


@contextmanager
def daemon(binary: Path, folder: Path, **settings: object) -> Iterator[Daemon]:
    d = Daemon(binary, folder, SETTINGS | settings).start()
    try:
        yield d
    finally:
        d.stop()


def fill(binary: Path, folder: Path, steps: int) -> dict[str, float]:
    """Publishes enough documents for `steps` steps, seals the stream, and writes its rows to a file."""
    tokens = (steps + 2) * ROWS * LENGTH
    with daemon(binary, folder, run="fill") as d:
        began = time.monotonic()
        done = loaderd.publish(documents(tokens), d.nats_url, source="web", name="made up", tokenizer=TOKENIZER)
        seconds = time.monotonic() - began
        with loaderd.Client(d.flight_url, steps=steps) as client, (folder / "rows.bin").open("wb") as out:
            client.seal()
            for step in client:
                out.write(np.ascontiguousarray(step.input_ids, np.uint16))
    return {
        "documents": done.documents,
        "documents_per_second": done.documents / seconds,
        "bytes_per_second": done.bytes / seconds,
    }


def measure(binary: Path, folder: Path, chosen: list[str], steps: int, rounds: int, world: int) -> Figures:
    """Returns the figures of every loader, round by round."""
    figures: Figures = {}
    ours, others = Ranks(folder, world), Ranks(folder, world)
    try:
        ours.do("ready")
        for turn in range(rounds):
            for loader in [n for n in OURS if chosen_name(n, chosen)]:
                for ways, settings in RUNS.items():
                    name = f"{ways[0]}-{world}-{turn}-{OURS.index(loader)}"
                    with daemon(binary, folder, run=name, **settings) as d:
                        with loaderd.Client(d.flight_url) as client:
                            client.seal()
                        for way in ways:
                            figures.setdefault(f"{loader}, {way}", []).append(
                                ours.read(loader, steps, d.process.pid, url=d.flight_url)
                            )
            for peer in [p for p in peers.PEERS if chosen_name(p.name, chosen)]:
                try:
                    figures.setdefault(peer.name, []).append(others.read(peer.name, steps))
                except RuntimeError as error:
                    print(f"{peer.name}, {world} ranks: {error}", file=sys.stderr)
                    figures.setdefault(peer.name, []).append({"speed": float("nan"), "cpu": float("nan")})
    finally:
        ours.close()
        others.close()
    return figures


def chosen_name(name: str, chosen: list[str]) -> bool:
    return name == peers.BASELINE or not chosen or any(part.lower() in name.lower() for part in chosen)


def check(binary: Path, folder: Path, chosen: list[str], steps: int) -> list[str]:
    """Reads everything once with every loader and compares the rows. Returns the loaders whose rows differ."""
    ranks, found = Ranks(folder, 1), {}
    for peer in [p for p in peers.PEERS if chosen_name(p.name, chosen)]:
        ranks.do("open", loader=peer.name)
        found[peer.name] = ranks.do("check")[0]
        ranks.do("done")
    ranks.close()
    return [name for name, rows in found.items() if rows != found[peers.BASELINE]]


def resume(binary: Path, folder: Path, steps: int) -> dict[str, dict[str, float]]:
    """Returns the seconds from a trainer's start to its first batch, and until a daemon that is started before it is
    ready.
    """
    out: dict[str, dict[str, float]] = {}
    d = Daemon(binary, folder, SETTINGS | {"run": "live-1-0-1"}).start()
    try:
        with loaderd.Client(d.flight_url) as client:
            info = client.info()
        state = {"version": 1, "run": info.name, "fingerprint": info.fingerprint, "step": steps // 2}
        for way in ("daemon running", "daemon started anew"):
            times: list[dict[str, float]] = []
            for _ in range(3):
                ready = {}
                if way == "daemon started anew":
                    d.stop()
                    began = time.time()
                    d.start()
                    ready = {"ready": time.time() - began}
                command = [sys.executable, HERE / "resume.py", d.flight_url, json.dumps(state), str(time.time())]
                done = subprocess.run(
                    command, env=program(dict(os.environ)), stdout=subprocess.PIPE, text=True, check=True
                )
                times.append(ready | json.loads(done.stdout))
            out[way] = {k: statistics.median(t[k] for t in times) for k in times[0]}
    finally:
        d.stop()
    return out


def waits(binary: Path, folder: Path, steps: int) -> dict[str, Any]:
    with daemon(binary, folder, run="live-1-0-1") as d:
        command = [sys.executable, HERE / "waits.py", d.flight_url, str(steps), "0.05"]
        return json.loads(
            subprocess.run(command, env=program(dict(os.environ)), stdout=subprocess.PIPE, text=True, check=True).stdout
        )


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] + ["---:"] * (len(head) - 1), *rows))


def cells(own: dict[str, float], baseline: dict[str, float]) -> tuple[str, str, str]:
    return f"{own['speed'] / 1e6:.1f}M", f"{own['speed'] / baseline['speed']:.2f}", f"{own['cpu']:.1f} ns"


def report(figures: dict[int, Figures], filled: dict[str, float], wait: dict[str, Any], resumed: dict[str, Any]) -> str:
    worlds = sorted(figures)
    middle = {
        w: {n: {k: statistics.median(r[k] for r in v) for k in v[0]} for n, v in f.items()} for w, f in figures.items()
    }
    head = ["loader"] + [
        c for w in worlds for c in (f"{w} rank{'s' * (w > 1)}: tokens/s", "of the baseline", "CPU a token")
    ]
    rows = [
        [n] + [c for w in worlds for c in cells(middle[w][n], middle[w][peers.BASELINE])] for n in middle[worlds[0]]
    ]
    blocks = [f"Baseline: {peers.BASELINE}.\n\n" + table(head, rows)]
    ms = [
        [
            f"asks {name}",
            *(f"{1e3 * wait[name][k]:.2f} ms" for k in ("p50", "p99", "most")),
            f"{100 * wait[name]['share']:.2f} %",
        ]
        for name in ("late", "at once")
    ]
    blocks.append(table(["a trainer that", "waits for a step: p50", "p99", "most", "of its time"], ms))
    b = wait["bytes"]
    blocks.append(
        table(
            ["bytes a token on the client", ""],
            [
                ["arrive, in Arrow's buffers", f"{b['arrived']:.2f}"],
                ["are written, input_ids alone", f"{b['input_ids']:.2f}"],
                ["are written, all fields", f"{b['all fields']:.2f}"],
            ],
        )
    )
    head = [
        "first batch in the middle of a run",
        "daemon: ready after",
        "trainer: torch imported after",
        "loaderd.torch after",
        "first batch after",
    ]
    rows = [
        [way, *(f"{t[k]:.2f} s" if k in t else "-" for k in ("ready", "torch", "imports", "first"))]
        for way, t in resumed.items()
    ]
    blocks.append(table(head, rows))
    blocks.append(
        f"Publishing: {filled['documents']:,.0f} documents, {filled['documents_per_second'] / 1e3:.1f}k documents/s, "
        f"{filled['bytes_per_second'] / 1e6:.0f} MB/s."
    )
    names = ("torch", "datasets", "mosaicml-streaming", "litdata", "pyarrow", "nats-py")
    blocks.append("Versions: " + ", ".join(f"{n} {version(n)}" for n in names) + ".")
    return "\n\n".join(blocks)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument(
        "--loaderd", type=Path, default=os.environ.get("LOADERD_BIN", "bin/loaderd"), help="the daemon's binary"
    )
    p.add_argument("--steps", type=int, default=500, help=f"steps of {ROWS} rows of {LENGTH} tokens")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--worlds", default="1,2", help="numbers of ranks, separated by commas")
    p.add_argument(
        "--only", action="append", default=[], help="part of a loader's name; may be repeated; the baseline always runs"
    )
    p.add_argument("--json", type=Path, help="also write all figures to this file")
    p.add_argument(
        "--speed", action="store_true", help="measure only speed, for --json: no waits, no resuming, no tables"
    )
    a = p.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    binary = Path(a.loaderd).resolve()
    folder = Path(tempfile.mkdtemp(prefix="loaders-"))
    try:
        began = time.monotonic()
        note(began, f"documents of {a.steps} steps into {folder}")
        filled = fill(binary, folder, a.steps)
        for peer in [p for p in peers.PEERS if chosen_name(p.name, a.only)]:
            peer.prepare(folder)
        note(began, "every loader once, to see that the rows are the same")
        for name in check(binary, folder, a.only, a.steps):
            print(f"{name} and the file have different rows", file=sys.stderr)
        figures = {}
        for world in map(int, a.worlds.split(",")):
            note(began, f"{world} rank(s)")
            figures[world] = measure(binary, folder, a.only, a.steps, a.rounds, world)
        if a.speed:
            a.json.write_text(json.dumps({"figures": figures, "publish": filled}, indent=2))
            return
        note(began, "waits")
        wait = waits(binary, folder, min(100, a.steps - 10))
        note(began, "resume")
        resumed = resume(binary, folder, a.steps)
        note(began, "done")
        if a.json:
            a.json.write_text(
                json.dumps({"figures": figures, "publish": filled, "waits": wait, "resume": resumed}, indent=2)
            )
        print(report(figures, filled, wait, resumed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def note(began: float, text: str) -> None:
    print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
