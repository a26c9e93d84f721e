"""Measures how long a trainer waits for a step: one that requests it late, because it computes meanwhile, and one that
requests it immediately. Prints JSON.

    waits.py URL STEPS SECONDS-OF-COMPUTING
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch

from loaderd import Client
from loaderd.torch import StepLoader


def main(url: str, steps: int, compute: float) -> None:
    torch.set_num_threads(1)
    out = {}
    for name, pause in (("late", compute), ("at once", 0.0)):
        waits, began = [], 0.0
        with StepLoader(url, rank=0, world_size=1) as loader:
            for count in range(steps + 5):
                asked = time.perf_counter()
                next(loader)
                got = time.perf_counter()
                if count == 5:  # the first ones fill the prefetch buffer
                    began = asked
                if count >= 5:
                    waits.append(got - asked)
                if pause:
                    time.sleep(pause)
            whole = time.perf_counter() - began
        out[name] = {
            "p50": float(np.percentile(waits, 50)),
            "p99": float(np.percentile(waits, 99)),
            "most": max(waits),
            "share": sum(waits) / whole,
        }
    out["bytes"] = copied(url)
    json.dump(out, sys.stdout)


def copied(url: str) -> dict[str, float]:
    """Returns bytes per token on the client: what arrives in Arrow's buffers, and what is written into tensors."""
    with Client(url, steps=20) as client:
        steps = list(client)
    tokens = sum(s.rows * s.bucket for s in steps)
    arrived = sum(p.input_ids.nbytes + p.ends.nbytes + p.offsets.nbytes for s in steps for p in s.parts) / tokens
    written = {}
    for name, fields in (("input_ids", ["input_ids"]), ("all fields", None)):
        with StepLoader(url, rank=0, world_size=1, fields=fields) as loader:
            batches = [next(loader) for _ in range(20)]
        written[name] = sum(v.nbytes for b in batches for v in b.values() if isinstance(v, torch.Tensor)) / tokens
    return {"arrived": arrived, **written}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
