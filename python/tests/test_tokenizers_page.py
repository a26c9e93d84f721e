"""docs/how-to/tokenizers.md: its producer of tokens works against a run without a tokenizer."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow.flight as flight
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from loaderd.fingerprint import fingerprint

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = ["the first document", "and the second one", "a third"]


def word_level(path: pathlib.Path) -> Tokenizer:
    """Writes a tokenizer that loaderd refuses."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(show_progress=False, special_tokens=["<unk>", "</s>"])
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    tokenizer.save(str(path))
    return tokenizer


def pieces(ids: list[int]) -> list[list[int]]:
    """Returns the ids up to and including each end-of-document token, without padding."""
    out: list[list[int]] = [[]]
    for i in ids:
        if i != 0:
            out[-1].append(i)
        if i == 1:
            out.append([])
    assert out.pop() == []
    return out


def test_producer_of_tokens(daemon: Callable[..., Any], loaderd: pathlib.Path, tmp_path: pathlib.Path) -> None:
    page = (ROOT / "docs" / "how-to" / "tokenizers.md").read_text(encoding="utf-8")
    [producer] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "tokenizer.json"
    tokenizer = word_level(file)
    refused = subprocess.run([loaderd, "tokenize", "--tokenizer", file], input="", capture_output=True, text=True)
    assert refused.returncode != 0
    assert 'model type "WordLevel"' in refused.stderr
    assert "docs/how-to/tokenizers.md" in refused.stderr
    running = daemon(
        {
            "tokenizer.name": "none",
            "tokenizer.fingerprint": fingerprint(file),
            "tokenizer.vocab_size": tokenizer.get_vocab_size(),
            "tokenizer.end": 1,
            "tokenizer.pad": 0,
            "packing.buckets": "[64]",
            "packing.pool": 8,
            "shuffle.window": 1,
            "steps.rows": 1,
            "stream.max_bytes": "256MiB",
            "stream.plan_bytes": "64MiB",
            "stream.dead_letter_bytes": "64MiB",
        }
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "python" / "src")}
    subprocess.run([sys.executable, "-c", producer, running.nats_url, file, *TEXTS], check=True, env=environ)
    subprocess.run([loaderd, "seal", "--daemon", running.flight_url], check=True, capture_output=True)
    got = []
    with flight.connect(running.flight_url) as client:
        for chunk in client.do_get(flight.Ticket(json.dumps({"step": 0}).encode()), running.with_token):
            got += [i for row in chunk.data["input_ids"].to_pylist() for i in row]
    documents = sorted([*tokenizer.encode(t, add_special_tokens=False).ids, 1] for t in TEXTS)
    assert sorted(pieces(got)) == documents
