"""Encoding text, compared with the fastest of the other tokenizers: every vocabulary, one core and two, warm and cold;
and random bytes.
"""

from __future__ import annotations

import itertools
import json
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from bench import Bench, MissingInputError, python
from measures import Measure

OURS = "loaderd"
PEERS = ("gigatoken", "fastokens", "tiktoken")
RANDOM = 4_000_000  # bytes
Results = list[dict[str, object]]


def text(bench: Bench) -> Iterator[Measure]:
    """A corpus of prose, code and many languages; `moment` uses none, and one vocabulary."""
    options: list[object] = ["--rounds", 2, "--passes", 4, "--cores", "1,2", "--only", "gigatoken,fastokens"]
    if bench.moment:
        options = ["--rounds", 1, "--passes", 2, "--cores", "1", "--vocabularies", "gpt2", "--only", "gigatoken"]
        options += ["--documents", write(bench.folder / "words", b"a few words, and a few more. " * 2000)]
    results, note = measured(bench, options)
    for vocabulary, cores in dict.fromkeys((str(r["vocabulary"]), int(str(r["cores"]))) for r in results):
        for when in ("warm", "cold"):
            name = f"encoding {vocabulary}, {'one core' if cores == 1 else 'two cores'}, {when}"
            these = [r for r in results if r["vocabulary"] == vocabulary and r["cores"] == cores]
            yield beside_the_fastest(name, these, f"{when}_wall", note)


def noise(bench: Bench) -> Iterator[Measure]:
    """Random bytes as one document, by cold encoders."""
    size = 20_000 if bench.moment else RANDOM
    path = write(bench.folder / "random", bytes(b or 1 for b in random.Random(1).randbytes(size)))
    vocabularies = "gpt2" if bench.moment else "gpt2,cl100k,o200k"
    options = [
        "--rounds",
        1,
        "--passes",
        1,
        "--cores",
        "1",
        "--vocabularies",
        vocabularies,
        "--only",
        ",".join(PEERS),
        "--documents",
        path,
    ]
    results, note = measured(bench, options)
    for vocabulary in dict.fromkeys(str(r["vocabulary"]) for r in results):
        these = [r for r in results if r["vocabulary"] == vocabulary]
        yield beside_the_fastest(f"encoding random bytes, {vocabulary}, one core", these, "cold_wall", note)


def models(bench: Bench) -> Iterator[Measure]:
    """Models without merges by rank, on Python's library, compared with the library that trained them."""
    limit = 20_000 if bench.moment else 8_000_000
    files = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    texts = [
        f.read_bytes().replace(b"\0", b"") for f in files[:: max(1, len(files) // 500)] if f.stat().st_size < 1 << 18
    ]
    sizes = itertools.accumulate(map(len, texts))
    path = bench.folder / "library"
    path.write_bytes(b"".join(t + b"\0" for t, size in zip(texts, sizes, strict=True) if size < limit or t is texts[0]))
    names = ["wordpiece", "unigram", "sentencepiece-unigram", "sentencepiece-bpe"]
    options = [
        "--rounds",
        1,
        "--passes",
        3,
        "--cores",
        "1",
        "--vocabularies",
        ",".join(names[: 1 if bench.moment else 4]),
    ]
    results, note = measured(bench, [*options, "--only", "tokenizers,sentencepiece", "--documents", path], "test")
    for name in dict.fromkeys(str(r["vocabulary"]) for r in results):
        these = [r for r in results if r["vocabulary"] == name]
        for when in ("warm", "cold"):
            yield beside_the_fastest(f"encoding {name}, one core, {when}", these, f"{when}_wall", note)


def write(path: Path, document: bytes) -> Path:
    path.write_bytes(document + b"\0")
    return path


def measured(bench: Bench, options: list[object], group: str = "tokenizers") -> tuple[Results, str]:
    """Returns the figures of bench/tokenizers.

    If the other libraries cannot be installed, they are of loaderd alone, with the reason.
    """
    note = ""
    try:
        interpreter = python(group)
    except MissingInputError as missing:
        interpreter, note = python(), str(missing)
        options = [*options, "--only", OURS]
    found = bench.folder / "encoding.json"
    run = [
        interpreter,
        bench.script("tokenizers/run.py"),
        "--loaderd",
        bench.program("tokenizers"),
        "--folder",
        bench.kept / "tokenizers.data",
    ]
    bench.say([*run, "--speed", "--json", found, *options])
    return json.loads(found.read_text()), note


def beside_the_fastest(name: str, results: Results, speed: str, note: str) -> Measure:
    own = next(r for r in results if r["library"] == OURS)
    if "refused" in own:
        raise RuntimeError(f"{name}: {own['refused']}")
    peers = [r for r in results if r["library"] != OURS and "refused" not in r]
    if not peers:
        return Measure(name, float(str(own[speed])), "MB/s", note=note or "every other library refused")
    best = max(peers, key=lambda r: float(str(r[speed])))
    return Measure(name, float(str(own[speed])), "MB/s", float(str(best[speed])), str(best["package"]), note=note)
