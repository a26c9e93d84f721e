"""Packs the same documents with loaderd and with widely used packers, and prints a Markdown table.

    make bench-peers
    python bench/python/peers/run.py --loaderd bin/peers --documents 20000 --only grain

Each packer runs in a separate process: with tokens, its rows discarded as they are emitted; on the lengths alone, if it
can; and once more without a clock, where a ledger accounts for every token of its rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))
import marked

import loaderd_packing
import table
from documents import Documents
from ledger import Account, Ledger
from measure import Memory, cpu
from packers import Packer, Ready

MODULES = ("trl_packing", "grain_packing", "olmo_packing", "foundry_packing", "axolotl_packing", "torchtune_packing")

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def packers() -> Iterator[Packer]:
    for module in MODULES:
        yield from import_module(module).PACKERS


def measure(packer: Packer, lengths: Path, row: int) -> dict[str, Any]:
    """Returns the figures of one packer, measured in this process."""
    documents = Documents.read(lengths, packer.limit)
    ready = packer.prepare(documents, row)
    limited = f"({packer.limit:,} documents)" if packer.limit == len(documents) else ""
    figures: dict[str, Any] = {
        "name": " ".join(filter(None, (packer.name, ready.note, limited))),
        "online": packer.online,
        "package": f"{packer.package} {version(packer.package)}",
    }
    memory, began = Memory(), cpu()
    for _ in ready.rows():
        pass
    figures |= {
        "moved": len(documents) / (cpu() - began),
        "memory": memory.peak() - memory.before,
        "process": memory.peak() - documents.tokens.nbytes,
    }
    if ready.alone:
        began = cpu()
        ready.alone()
        figures["alone"] = len(documents) / (cpu() - began)
    return figures | asdict(check(ready, documents, row))


def check(ready: Ready, documents: Documents, row: int) -> Account:
    """Returns the account of the output, which is added to the ledger many rows at a time."""
    ledger = Ledger(documents.lengths, row)
    rows = (
        (values, sizes, np.full(len(sizes), documents.arrived)) for values, sizes in (ready.counted or ready.rows)()
    )
    while some := list(islice(rows, 256)):
        ledger.add(*(np.concatenate(parts) for parts in zip(*some, strict=False)))
    return ledger.close()


def apart(name: str, lengths: Path, row: int) -> dict[str, Any]:
    """Returns the figures of one packer, measured in a separate process."""
    with tempfile.NamedTemporaryFile("r") as out:
        command = [
            sys.executable,
            __file__,
            "--packer",
            name,
            "--lengths",
            lengths,
            "--row",
            str(row),
            "--json",
            out.name,
        ]
        done = subprocess.run(
            command, env=os.environ | ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode != 0:
            raise SystemExit(f"{name}: exited with {done.returncode}:\n{done.stdout[-4000:]}")
        return json.load(out)


def compare(loaderd: Path, lengths: Path, row: int, only: str) -> Iterator[dict[str, Any]]:
    """Yields the figures of loaderd and of the packers whose names contain `only`."""
    yield from loaderd_packing.measure(loaderd, lengths, row, only)
    for packer in packers():
        if only in packer.name.lower():
            yield apart(packer.name, lengths, row)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--loaderd", type=Path, default=Path("bin/peers"), help="program of bench/peers")
    p.add_argument("--documents", type=int, default=100_000)
    p.add_argument("--lengths", type=Path, help="file with one document length per line, instead of random lengths")
    p.add_argument("--seed", type=int, default=1, help="seed of the lengths")
    p.add_argument("--row", type=int, default=2048, help="row length in tokens")
    p.add_argument("--only", default="", help="only packers whose name contains this, ignoring case")
    p.add_argument("--json", type=Path, help="also write the figures to this file, after each packer")
    p.add_argument("--page", type=Path, help="page whose tables are replaced")
    p.add_argument("--packer", help="print no table: measure this packer alone, in this process")
    a = p.parse_args()
    if a.page and a.only:
        p.error("--page needs all packers: it excludes --only")
    if a.packer:
        packer = next(x for x in packers() if x.name == a.packer)
        a.json.write_text(json.dumps(measure(packer, a.lengths, a.row)))
        return

    results = []
    with tempfile.TemporaryDirectory() as folder:
        lengths = a.lengths or loaderd_packing.draw(a.loaderd.resolve(), a.documents, a.seed, Path(folder) / "lengths")
        began = time.monotonic()
        for result in compare(a.loaderd.resolve(), lengths, a.row, a.only.lower()):
            results.append(result)
            print(f"{time.monotonic() - began:5.0f} s  {result['name']}", file=sys.stderr)
            if a.json:
                a.json.write_text(json.dumps(results, indent=2) + "\n")
    print(table.markdown(results))
    if a.page:
        marked.write(a.page, table.tables(results))


if __name__ == "__main__":
    main()
