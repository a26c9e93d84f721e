"""Measures the speed and size goals of loaderd, each line with its baseline from the same run, and prints one table.

    make bench
    python3 bench/python/table/run.py --only flight --only splice

Programs are those of `make bench-programs`. An entry that fails has a line with the error, the remaining ones run, and
the exit status is 1. An entry without a peer that can be installed has a line with the reason and is not a failure.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import chats
import cores
import daemon
import encoding
import flight
import ingest
import loaders
import loading
import packing
from bench import ROOT, Bench, MissingInputError, first_cores
from measures import Measure, combine
from render import Run, page, text

Entry = Callable[[Bench], Iterable[Measure]]
ENTRIES: dict[str, Entry] = {
    "encoding": encoding.text,
    "random": encoding.noise,
    "models": encoding.models,
    "loading": loading.loading,
    "flight": flight.flight,
    "waits": daemon.waits,
    "ingest": ingest.ingest,
    "chats": chats.chats,
    "endtoend": daemon.end_to_end,
    "loaders": loaders.loaders,
    "demo": daemon.demo,
    "idle": daemon.idle,
    "splice": packing.splice,
    "cores": cores.cores,
}


def measure(entries: dict[str, Entry], bench: Bench, failed: list[str]) -> Iterator[Measure]:
    """Yields the lines of all entries; adds the names of failed entries to failed."""
    began = time.monotonic()
    for name, entry in entries.items():
        print(f"{time.monotonic() - began:5.0f} s  {name}", file=sys.stderr)
        try:
            yield from entry(bench)
        except MissingInputError as missing:
            yield Measure(name, note=str(missing))
        except Exception as error:
            failed.append(name)
            yield Measure(name, note=f"failed: {type(error).__name__}: {error}")


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    go = subprocess.run(["go", "version"], stdout=subprocess.PIPE, text=True).stdout.split()
    return (
        f"{len(first_cores(1 << 16))} cores of {model or platform.machine()}, {go[2] if len(go) > 2 else 'no go'}, "
        f"Python {platform.python_version()}"
    )


def revision() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() or "unknown"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "--moment",
        action="store_true",
        help="shortest run that shows that everything works; the figures are meaningless",
    )
    p.add_argument("--only", action="append", choices=list(ENTRIES), help="an entry; may be repeated")
    p.add_argument("--runs", type=int, default=1, help="how often everything is measured; the median ratio counts")
    p.add_argument(
        "--out",
        type=Path,
        default=ROOT / "bin" / "bench",
        help="file to store the run in, to which .json and .md are appended",
    )
    a = p.parse_args()
    began, failed, measured = time.monotonic(), list[str](), revision()
    chosen = {k: v for k, v in ENTRIES.items() if not a.only or k in a.only}
    runs = list[list[Measure]]()
    for _ in range(max(1, a.runs)):
        with tempfile.TemporaryDirectory(prefix="loaderd-bench-") as folder:
            runs.append(list(measure(chosen, Bench(Path(folder), a.moment), failed)))
        # After each run, so that an interrupted command leaves the runs before it.
        run: Run = {
            "moment": a.moment,
            "left_out": [k for k in ENTRIES if k not in chosen],
            "machine": machine(),
            "date": datetime.date.today().isoformat(),
            "revision": measured,
            "runs": len(runs),
            "seconds": time.monotonic() - began,
            "measures": [m.json() for m in combine(runs)],
        }
        a.out.with_suffix(".json").write_text(json.dumps(run, indent=1) + "\n")
        a.out.with_suffix(".md").write_text(page(run))
    print(text(run))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
