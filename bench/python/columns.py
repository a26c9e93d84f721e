"""The cost of document columns: the bytes that a rank reads, and the daemon's processor time and memory, compared with
the same tokens without columns.

JetStream holds documents of 300 synthetic tokens, 64 in a message; a daemon starts cold and one client reads the whole
run. The lines alternate over several rounds; each has the minimum of its processor times.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

PYTHON = Path(__file__).resolve().parents[2] / "python"
sys.path[:0] = [str(PYTHON / "src"), str(PYTHON / "tests")]

import nats  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

import loaderd  # noqa: E402
from conftest import daemons  # noqa: E402
from tokenized import SETTINGS, TOKENIZER  # noqa: E402

DOCUMENTS, TOKENS = 64, 300
PLAIN = {
    **SETTINGS,
    "packing.buckets": "2048",
    "packing.pool": 4096,
    "packing.max_age": 16384,
    "steps.rows": 64,
    "shuffle.window": 256,
    "documents.multiple_per_message": True,
}
DECLARED = {
    **PLAIN,
    "documents.columns.half.type": "float16",
    "documents.columns.flag.type": "bool",
    "documents.meta.lang": "string",
}
HEADERS = {"Content-Type": "application/vnd.apache.arrow.stream", "Loaderd-Tokenizer": TOKENIZER}


def message(draw: np.random.Generator, brought: bool) -> bytes:
    columns: dict[str, Any] = {
        "ids": pa.array([draw.integers(1, 900, TOKENS, dtype=np.int32) for _ in range(DOCUMENTS)], pa.list_(pa.int32()))
    }
    if brought:
        columns["half"] = pa.array(
            [draw.random(TOKENS).astype(np.float16) for _ in range(DOCUMENTS)], pa.list_(pa.float16())
        )
        columns["flag"] = pa.array([draw.random(TOKENS) < 0.5 for _ in range(DOCUMENTS)], pa.list_(pa.bool_()))
        columns["lang"] = pa.array(np.array(["de", "en", "fr"])[draw.integers(0, 3, DOCUMENTS)])
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


async def publish(url: str, messages: int, brought: bool) -> None:
    nc, draw = await nats.connect(url), np.random.default_rng(1)
    for _ in range(messages):
        await nc.jetstream().publish("docs.web", message(draw, brought), headers=HEADERS)
    await nc.close()


def measure(
    settings: dict[str, Any], messages: int, brought: bool, asked: list[str]
) -> tuple[float, float, float, int]:
    """Returns bytes per slot, processor seconds, peak MB and tokens of one run."""
    with tempfile.TemporaryDirectory() as folder, daemons(Path(os.environ["LOADERD_BIN"]), Path(folder)) as start:
        d = start(settings)
        asyncio.run(publish(d.nats_url, messages, brought))
        d.stop()
        d.start()
        tokens = slots = 0
        with loaderd.Client(d.flight_url, columns=asked) as client:
            client.seal()
            for step in client:
                tokens, slots = tokens + step.tokens, slots + step.rows * step.bucket
        process = Path(f"/proc/{d.process.pid}")
        ticks = (process / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
        peak = next(
            int(line.split()[1]) for line in (process / "status").read_text().splitlines() if line.startswith("VmHWM")
        )
        return (
            d.metric("loaderd_flight_bytes_total") / slots,
            sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"),
            peak / 1024,
            tokens,
        )


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--messages", type=int, default=1200)
    p.add_argument("--rounds", type=int, default=4)
    a = p.parse_args()
    lines: list[tuple[str, dict[str, Any], bool, list[str]]] = [
        ("none", PLAIN, False, []),
        ("declared, none sent", DECLARED, False, []),
        ("declared and sent, none asked for", DECLARED, True, []),
        ("half asked for", DECLARED, True, ["half"]),
        ("half, flag and lang asked for", DECLARED, True, ["half", "flag", "lang"]),
    ]
    found: list[list[tuple[float, float, float, int]]] = [[] for _ in lines]
    for _ in range(a.rounds):
        for i, (_, settings, brought, asked) in enumerate(lines):
            found[i].append(measure(settings, a.messages, brought, asked))
    base = min(cpu for _, cpu, _, _ in found[0])
    print(
        "| columns: half float16, flag bool, lang string | bytes a slot | processor, ns a token | of that without | "
        "peak MB |\n| --- | ---: | ---: | ---: | ---: |"
    )
    for (name, *_), runs in zip(lines, found, strict=True):
        cpu, tokens = min(c for _, c, _, _ in runs), runs[0][3]
        print(
            f"| {name} | {runs[0][0]:.3f} | {1e9 * cpu / tokens:.0f} | {cpu / base:.2f} | "
            f"{min(m for _, _, m, _ in runs):.0f} |"
        )


if __name__ == "__main__":
    main()
