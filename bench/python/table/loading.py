"""Loading a tokenizer on one core, compared with the reference with the same vocabulary: built-in ones and published
files.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import PYTHON, Bench, python
from measures import Measure

sys.path.append(str(PYTHON / "tests"))
from published_tokenizers import published

BUILTIN = {"gpt2": "gpt2", "cl100k": "cl100k_base", "o200k": "o200k_base"}
FILES = ("llama3", "deepseek_v3", "gemma3")
REFERENCE = """
import sys, time
from tokenizers import Tokenizer
began = time.perf_counter()
Tokenizer.from_file(sys.argv[1])
print(time.perf_counter() - began)
"""


def loading(bench: Bench) -> Iterator[Measure]:
    for name in ("gpt2",) if bench.moment else (*BUILTIN, *FILES):
        yield one(bench, name)


def one(bench: Bench, name: str) -> Measure:
    """Returns the medians of alternating processes."""
    title = f"loading {name}, {'built in' if name in BUILTIN else 'tokenizer.json'}, one core"
    try:
        file = built_in(bench, name) if name in BUILTIN else published(name)
    except RuntimeError as error:  # npm cannot download it
        return Measure(title, better="lower", note=str(error))
    ours, theirs = [], []
    nothing = bench.folder / "nothing"
    nothing.write_bytes(b"\0")
    for _ in range(1 if bench.moment else 3):
        command = [bench.program("tokenizers"), "-tokenizer", BUILTIN.get(name, file), "-rounds", 0, nothing]
        ours.append(bench.ask(command, cores=1)["load_seconds"])
        theirs.append(float(bench.say([python(), "-c", REFERENCE, file], cores=1)))
    return Measure(title, statistics.median(ours), "s", statistics.median(theirs), "tokenizers", better="lower")


def built_in(bench: Bench, name: str) -> Path:
    """Returns the same vocabulary as tokenizer.json."""
    path = bench.kept / "tokenizers.data" / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write = (
            "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import encoders; "
            "encoders.write_builtin(sys.argv[2], pathlib.Path(sys.argv[3]))"
        )
        bench.say([python(), "-c", write, bench.script("tokenizers"), BUILTIN[name], path])
    return path
