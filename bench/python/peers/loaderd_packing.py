"""loaderd: the packers of packonline in a Go program, which writes its rows to a pipe for the same ledger as the other
packers.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from documents import Documents
from ledger import Ledger

# Pools and maximum ages: the defaults, and the ages that are comparable with packers that hold back fewer documents:
# those of batches of 4,096 and of 1,000 documents, and of 64 open rows.
BOUNDS = [(4096, 16384), (2048, 4095), (256, 999), (32, 168)]
# Methods that the binary lacks are skipped.
SETTINGS = [(method, *bound) for method in ("bucket", "bfd") for bound in BOUNDS] + [("concat", 1, 0)]


def draw(binary: Path, documents: int, seed: int, to: Path) -> Path:
    """Writes lengths of the log-normal distribution that reproduces FineWeb-Edu's truncation figures."""
    with to.open("wb") as f:
        subprocess.run([binary, "-draw", str(documents), "-seed", str(seed)], stdout=f, check=True)
    return to


def measure(binary: Path, lengths: Path, row: int, only: str) -> Iterator[dict[str, Any]]:
    """Yields the figures of each setting whose name contains `only`."""
    documents = Documents.read(lengths)
    known = subprocess.run([binary, "-methods"], capture_output=True, text=True, check=True).stdout.split()
    for method, pool, age in SETTINGS:
        name = f"loaderd `{method}`, " + (f"pool {pool:,}, age {age:,}" if age else "no pool")
        if method not in known or only not in name:
            continue
        command = [binary, "-method", method, "-length", str(row), "-pool", str(pool), "-max-age", str(age)]
        cost = json.loads(subprocess.run([*command, lengths], capture_output=True, text=True, check=True).stdout)
        ledger = Ledger(documents.lengths, row)
        record = np.dtype([("arrived", np.int64), ("tokens", np.int32, row)])
        with subprocess.Popen([*command, "-rows", lengths], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while some := process.stdout.read(256 * record.itemsize):
                rows = np.frombuffer(some, dtype=record)
                ledger.add(rows["tokens"].reshape(-1), np.full(len(rows), row), rows["arrived"])
        if process.returncode != 0:
            raise SystemExit(f"{binary}: exited with {process.returncode}")
        yield {
            "name": name,
            "package": "loaderd",
            "online": "yes",
            "alone": len(documents) / cost["alone_cpu_seconds"],
            "moved": len(documents) / cost["moved_cpu_seconds"],
            "memory": cost["added_memory_bytes"],
            "process": cost["process_memory_bytes"],
            **asdict(ledger.close()),
        }
