"""Compares the ids of `loaderd tokenize` with those of Hugging Face tokenizers."""

from __future__ import annotations

import base64
import json
import pathlib
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from tokenizers import Tokenizer


def decoded(text: bytes) -> str:
    return text.decode("utf-8", errors="replace")


def run(loaderd: str, args: Sequence[str], lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    source = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([loaderd, "tokenize", *args], input=source.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def ids_of(loaderd: str, tokenizer: str | pathlib.Path, texts: Sequence[bytes], *flags: str) -> list[list[int]]:
    """Returns the ids of loaderd: text as "base64", every other valid one as "text"."""

    def lines() -> Iterator[dict[str, Any]]:
        for i, text in enumerate(texts):
            if i % 2 and decoded(text).encode() == text:
                yield {"id": i, "text": decoded(text)}
            else:
                yield {"id": i, "base64": base64.b64encode(text).decode()}

    out = run(loaderd, ["--tokenizer", str(tokenizer), *flags], lines())
    assert [line["id"] for line in out] == list(range(len(texts)))
    return [line["ids"] for line in out]


def check(texts: Sequence[bytes], got: Sequence[list[int]], want: Sequence[list[int]]) -> None:
    assert len(got) == len(want) == len(texts)
    for text, g, w in zip(texts, got, want, strict=True):
        if list(g) != list(w):
            at = next((k for k, (a, b) in enumerate(zip(g, w, strict=False)) if a != b), min(len(g), len(w)))
            pytest.fail(
                f"{text[:200]!r}: from id {at} on loaderd gives {g[at : at + 8]}, the reference {w[at : at + 8]}"
            )


def hugging_face_ids(path: pathlib.Path, texts: Sequence[bytes], special_as_text: bool = False) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = special_as_text
    encoded = tokenizer.encode_batch_fast([decoded(t) for t in texts], add_special_tokens=False)
    return [e.ids for e in encoded]
