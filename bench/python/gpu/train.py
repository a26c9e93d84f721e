"""Trains a GPT of 124M parameters on a GPU from a daemon that receives text meanwhile, and, as the baseline, from one
preloaded batch.

    make bench-gpu
    python bench/python/gpu/train.py --loaderd bin/loaderd --text "$(go env GOROOT)/src"

Baseline and stream alternate. Text is published, tokenized (gpt2), packed and shuffled while the GPU trains. A wait is
the time that the trainer spends in taking a batch. Prints one JSON object.
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
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask, flex_attention

PYTHON = Path(__file__).resolve().parents[3] / "python"
sys.path[:0] = [str(PYTHON / "src"), str(PYTHON / "tests")]

from conftest import daemons  # noqa: E402
from loaderd.torch import StepLoader  # noqa: E402
from loaderd.torch.masks import block_mask  # noqa: E402

ROWS, LENGTH = 16, 2048
WIDTH, LAYERS, HEADS = 768, 12, 12
WARM = 5  # steps that compile kernels and fill the prefetch buffer

Batch = dict[str, Any]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, mask: BlockMask) -> Tensor:
        q, k, v = (
            t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.before_attention(x)).chunk(3, -1)
        )
        x = x + self.out(flex_attention(q, k, v, block_mask=mask).transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, input_ids: Tensor, position_ids: Tensor, labels: Tensor, mask: BlockMask) -> Tensor:
        x = self.tokens(input_ids) + self.positions(position_ids)
        for block in self.blocks:
            x = block(x, mask)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=-100)


class Trainer:
    def __init__(self, vocabulary: int) -> None:
        torch.manual_seed(0)
        self.model = GPT(vocabulary).cuda()
        self.compiled = torch.compile(self.model, dynamic=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=6e-4, fused=True)

    def steps(self, batches: Iterator[Batch], n: int) -> dict[str, float]:
        """Trains n steps; returns tokens per second, and the waits for a batch in ms."""
        waits, tokens, losses = [], 0, []
        began = time.perf_counter()
        for _ in range(n):
            asked = time.perf_counter()
            batch = next(batches)
            waits.append(time.perf_counter() - asked)
            tokens += batch["input_ids"].numel()
            with torch.autocast("cuda", torch.bfloat16):
                loss = self.compiled(
                    batch["input_ids"], batch["position_ids"], batch["labels"], block_mask(batch["segment_ids"])
                )
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.detach())
            if len(losses) > 2:
                losses[-3].item()  # the host is at most two steps ahead of the GPU, as a trainer that logs
        torch.cuda.synchronize()
        whole = time.perf_counter() - began
        p50, p99, most = (1e3 * float(x) for x in np.percentile(waits, [50, 99, 100]))
        return {
            "tokens_per_second": tokens / whole,
            "p50_ms": p50,
            "p99_ms": p99,
            "most_ms": most,
            "waiting_share": sum(waits) / whole,
            "loss": losses[-1].item(),
        }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--loaderd", type=Path, required=True)
    p.add_argument("--text", type=Path, required=True, help="folder of text files")
    p.add_argument("--steps", type=int, default=100, help="steps per round")
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    torch.set_float32_matmul_precision("high")
    rounds = []
    with (
        tempfile.TemporaryDirectory(prefix="loaderd-gpu-") as folder,
        daemons(a.loaderd.resolve(), Path(folder)) as start,
    ):
        d = start({"tokenizer.name": "gpt2", "packing.buckets": LENGTH, "steps.rows": ROWS, "log.level": "error"})
        command = [
            a.loaderd.resolve(),
            "publish",
            "--daemon",
            d.nats_url,
            "--source",
            "text",
            "--format",
            "text",
            "--skip-too-large",
            a.text,
        ]
        with (
            subprocess.Popen(command, stdout=subprocess.DEVNULL) as publishing,
            StepLoader(d.flight_url, device="cuda", labels="shifted") as loader,
        ):
            trainer, first = Trainer(loader.info.vocab_size), next(loader)
            trainer.steps(repeat(first), WARM)
            for _ in range(a.rounds):
                there = trainer.steps(repeat(first), a.steps)
                trainer.steps(loader, WARM)
                rounds.append({"there": there, "stream": trainer.steps(loader, a.steps)})
            publishing.terminate()
    json.dump(
        {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cores": len(os.sched_getaffinity(0)),
            "rounds": rounds,
        },
        sys.stdout,
        indent=1,
    )


if __name__ == "__main__":
    main()
