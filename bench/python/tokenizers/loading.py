"""Loads the same tokenizers with loaderd and with Hugging Face tokenizers, and prints a Markdown table.

    make bench-loading
    python bench/python/tokenizers/loading.py --loaderd bin/tokenizers --vocabularies gemma3,o200k --rounds 9

Each load runs in a new process that is bound to one core, and the two alternate. The figures are medians in seconds of
processor time, which other load on the machine affects least. Work that loaderd defers until it is needed has separate
columns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from encoders import Vocabulary
from table import table
from vocabularies import vocabulary

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "tests"))
from published_tokenizers import published

PUBLISHED = {"gemma3": "gemma3", "llama3": "llama3", "deepseek": "deepseek_v3", "qwen3": "qwen3"}
BUILTIN = ("gpt2", "cl100k", "o200k")
PARTS = ("load", "encoder", "long_word", "fingerprint")
HEAD = (
    "vocabulary",
    "from",
    "tokenizers",
    "loaderd",
    "ratio",
    "encoder and first text",
    "first long word",
    "fingerprint",
)


def reference(path: str) -> None:
    """Makes one load by the reference, in this process."""
    from tokenizers import Tokenizer

    began = time.process_time()
    Tokenizer.from_file(path)
    print(json.dumps(time.process_time() - began))


def apart(*command: object) -> Any:
    """Returns the output of a process on one core."""
    core = min(os.sched_getaffinity(0))
    pinned = ["taskset", "--cpu-list", str(core), *map(str, command)]
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false"}
    return json.loads(subprocess.run(pinned, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def compare(of: Vocabulary, options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Returns the rows of a vocabulary: from its file, and if it is built in, also from the program."""
    ways = {"file": of.file} | ({"built in": of.builtin} if of.builtin else {})
    theirs: list[float] = []
    ours: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        theirs.append(apart(sys.executable, __file__, "--reference", of.file))
        for way, name in ways.items():
            figures = apart(options.loaderd, "-load", "-tokenizer", name)
            ours[way].append({part: figures[part]["cpu_seconds"] for part in PARTS})
    rows = []
    for way, runs in ours.items():
        load, *later = (statistics.median(r[part] for r in runs) for part in PARTS)
        base = statistics.median(theirs)
        rows.append((of.name, way, f"{base:.2f}", f"{load:.3f}", f"{load / base:.2f}", *(f"{x:.3f}" for x in later)))
    return rows


def find(name: str, folder: Path) -> Vocabulary:
    """Returns the vocabulary of that name."""
    return Vocabulary(name, published(PUBLISHED[name])) if name in PUBLISHED else vocabulary(name, folder)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--loaderd", type=Path, default=Path("bin/tokenizers"), help="the program of bench/tokenizers")
    p.add_argument(
        "--folder", type=Path, default=Path("bin/tokenizers.data"), help="folder for the files of built-in vocabularies"
    )
    p.add_argument("--vocabularies", default=",".join((*PUBLISHED, *BUILTIN)))
    p.add_argument("--rounds", type=int, default=5, help="processes per library and vocabulary")
    p.add_argument("--reference", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.reference:
        reference(options.reference)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    names = options.vocabularies.split(",")
    print(table(HEAD, (row for name in names for row in compare(find(name, options.folder), options))))


if __name__ == "__main__":
    main()
