"""A run of synthetic token documents: known in advance, quick to publish, of two row lengths."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nats
import numpy as np

TOKENIZER = "sha256:" + "5e" * 32
VOCABULARY = 1000
SETTINGS = {
    "tokenizer.name": "none",
    "tokenizer.fingerprint": TOKENIZER,
    "tokenizer.vocab_size": VOCABULARY,
    "tokenizer.end": VOCABULARY - 1,
    "tokenizer.pad": 0,
    "packing.buckets": "64,128",
    "packing.pool": 64,
    "packing.max_age": 256,
    "shuffle.window": 32,
    "steps.rows": 8,
    "serve.stall_timeout": "1s",
    "serve.checkpoint_steps": 20,
    "log.level": "warn",
}


def documents(n: int, seed: int = 1, longest: int = 200) -> list[np.ndarray]:
    """Returns documents of 1 to `longest` tokens."""
    rng = np.random.default_rng(seed)
    return [rng.integers(1, VOCABULARY - 1, int(length), dtype=np.int32) for length in rng.integers(1, longest + 1, n)]


def publish_tokens(nats_url: str, tokens: list[np.ndarray], source: str = "test") -> None:
    """Publishes them as any NATS client would."""
    headers = {"Content-Type": "application/vnd.loaderd.tokens", "Loaderd-Tokenizer": TOKENIZER}

    async def run() -> None:
        nc = await nats.connect(nats_url)
        js = nc.jetstream(publish_async_max_pending=4096)
        futures = [await js.publish_async(f"docs.{source}", t.astype("<i4").tobytes(), headers=headers) for t in tokens]
        await asyncio.gather(*futures)
        await nc.close()

    asyncio.run(run())


def of_text(tokenizer: Any, folder: Path) -> dict[str, object]:
    """Returns settings of a run of texts."""
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    named = {
        "tokenizer.name": folder / "tokenizer.json",
        "tokenizer.fingerprint": "",
        "tokenizer.vocab_size": 0,
        "tokenizer.end": "auto",
    }
    return {**SETTINGS, **named}
