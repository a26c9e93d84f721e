"""Encodes the same documents with loaderd's tokenizer and with widely used ones, and prints Markdown tables.

    make bench-tokenizers
    python bench/python/tokenizers/run.py --loaderd bin/tokenizers --vocabularies gpt2,cl100k --only gigatoken
    python bench/python/tokenizers/run.py --loaderd bin/tokenizers --hostile

Each library runs in a separate process, bound to one core and then to two, loads its vocabulary, and encodes all
documents several times: the first round is cold, the median of the later ones is warm. The libraries alternate, so that
a machine that slows down slows all of them. The ids are then compared, document by document, with those of Hugging Face
tokenizers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import corpus
import hostile
import table
from encoders import ENCODERS, SLOW, UnsupportedError, Vocabulary
from vocabularies import NAMES, vocabulary

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from measure import Memory

REFERENCE = "tokenizers"
OURS = "loaderd"
Result = dict[str, Any]
KEPT = ("bytes", "tokens", "memory_bytes", "load_seconds", "wrong", "documents")


def measure(library: str, vocab: Vocabulary, documents: Path, cores: int, rounds: int, ids: Path | None) -> Result:
    """Returns the figures of one library, measured in this process."""
    text = documents.read_bytes()
    began = time.perf_counter()
    try:
        encoder = ENCODERS[library](vocab, cores)
    except UnsupportedError as error:
        return {"refused": str(error)}
    result: Result = {"load_seconds": time.perf_counter() - began, "bytes": len(text) - text.count(b"\0")}
    result |= {"wall_seconds": [], "cpu_seconds": []}
    prepared, memory = encoder.prepare(text), Memory()
    encoded = None
    for _ in range(rounds):
        del encoded
        wall, cpu = time.perf_counter(), time.process_time()
        encoded = encoder.encode(prepared)
        result["wall_seconds"].append(time.perf_counter() - wall)
        result["cpu_seconds"].append(time.process_time() - cpu)
    result["memory_bytes"] = memory.peak() - memory.before
    lists = encoder.ids(encoded)
    result["tokens"] = sum(map(len, lists))
    if ids:
        with ids.open("wb") as file:
            for one in lists:
                np.asarray([len(one)], np.uint32).tofile(file)
                np.asarray(one, np.uint32).tofile(file)
    return result


def apart(
    library: str, vocab: Vocabulary, documents: Path, cores: int, options: argparse.Namespace, ids: Path | None
) -> Result:
    """Returns the figures of one library or of loaderd, measured in a separate process that is bound to the first
    cores.
    """
    rounds = min(2, options.passes) if library in SLOW else options.passes
    parallel = "true" if cores > 1 else "false"
    environment = os.environ | {"RAYON_NUM_THREADS": str(cores), "TOKENIZERS_PARALLELISM": parallel}
    if library == OURS:
        command = [options.loaderd, "-tokenizer", vocab.builtin or vocab.file, "-workers", cores, "-rounds", rounds]
        command += ["-ids", ids] if ids else []
        command.append(documents)
    else:
        command = [sys.executable, __file__, "--library", library, "--vocabularies", vocab.name, "--cores", cores]
        command += ["--passes", rounds, "--folder", options.folder, "--documents", documents]
        command += ["--ids", ids] if ids else []
    pinned = ["taskset", "--cpu-list", ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores])), *map(str, command)]
    try:
        done = subprocess.run(pinned, env=environment, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return {"refused": f"not done after {options.timeout} s"}
    if done.returncode != 0:
        return {"refused": (done.stderr.strip().splitlines() or [f"exited with {done.returncode}"])[-1][:200]}
    result: Result = json.loads(done.stdout)
    return result


def read_ids(path: Path) -> list[np.ndarray[Any, Any]]:
    flat = np.fromfile(path, np.uint32)
    out, at = [], 0
    while at < len(flat):
        out.append(flat[at + 1 : at + 1 + int(flat[at])])
        at += 1 + int(flat[at])
    return out


def wrong(want: list[Any], have: list[Any]) -> int:
    """Returns the number of documents whose ids differ."""
    return abs(len(want) - len(have)) + sum(not np.array_equal(a, b) for a, b in zip(want, have, strict=False))


def compare(vocab: Vocabulary, documents: Path, cores: int, options: argparse.Namespace) -> Iterator[Result]:
    """Yields the results of all libraries for a vocabulary, with the number of documents that each encodes wrongly."""
    libraries = [REFERENCE, OURS, *(e for e in ENCODERS if e != REFERENCE)]
    libraries = [e for e in libraries if not options.only or e in (OURS, REFERENCE, *options.only.split(","))]
    if options.speed and REFERENCE not in options.only.split(","):
        libraries.remove(REFERENCE)
    runs: dict[str, list[Result]] = {library: [] for library in libraries}
    with tempfile.TemporaryDirectory() as folder:
        want: list[Any] | None = None
        for turn in range(options.rounds):
            for library in libraries:
                if turn and (library in SLOW or "refused" in runs[library][0]):
                    continue
                ids = Path(folder, "ids") if turn == 0 and not options.speed else None
                result = apart(library, vocab, documents, cores, options, ids)
                if ids and "refused" not in result:
                    have = read_ids(ids)
                    want = have if library == REFERENCE else want
                    result["wrong"] = wrong(want, have) if want is not None else None
                    result["documents"] = len(have)
                runs[library].append(result)
                print(f"{vocab.name} {documents.name}, {cores} cores: {library} {brief(result)}", file=sys.stderr)
    for library in libraries:
        package = "loaderd" if library == OURS else f"{library} {version(library.replace('_', '-'))}"
        of = {"library": library, "package": package, "vocabulary": vocab.name, "text": documents.name, "cores": cores}
        yield {**of, **joined(runs[library])}


def joined(runs: list[Result]) -> Result:
    """Returns the medians of several processes: of their first rounds, and of all later ones."""
    first = runs[0]
    if "refused" in first:
        return first
    size = first["bytes"] / 1e6
    out: Result = {k: first[k] for k in KEPT if k in first}
    for clock in ("wall", "cpu"):
        times = [r[f"{clock}_seconds"] for r in runs if "refused" not in r]
        out[f"cold_{clock}"] = size / statistics.median(t[0] for t in times)
        out[f"warm_{clock}"] = size / statistics.median(x for t in times for x in (t[1:] or t))
    return out


def brief(r: Result) -> str:
    if "refused" in r:
        return str(r["refused"])
    speeds = [f"{r['bytes'] / 1e6 / s:.0f}" for s in r["wall_seconds"]]
    return f"{' '.join(speeds)} MB/s; {r.get('wrong', '-')} wrong"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--loaderd", type=Path, default=Path("bin/tokenizers"), help="the program of bench/tokenizers")
    p.add_argument(
        "--folder", type=Path, default=Path("bin/tokenizers.data"), help="folder for documents and vocabularies"
    )
    p.add_argument("--vocabularies", default=",".join(NAMES))
    p.add_argument("--only", default="", help="libraries to measure in addition to loaderd and the reference")
    p.add_argument(
        "--speed",
        action="store_true",
        help="omit the reference, which is slow, unless --only names it: ids are not compared",
    )
    p.add_argument("--cores", default="1,2")
    p.add_argument("--rounds", type=int, default=3, help="processes per library, except the slow ones")
    p.add_argument("--passes", type=int, default=4, help="how often each process encodes all documents")
    p.add_argument("--timeout", type=float, default=900, help="seconds for one process")
    p.add_argument("--hostile", action="store_true", help="measure texts of one kind instead, each a single document")
    p.add_argument("--json", type=Path, help="write all figures to this file")
    p.add_argument("--library", help=argparse.SUPPRESS)
    p.add_argument("--documents", type=Path, help="file of documents to use instead, each ended by a NUL byte")
    p.add_argument("--ids", type=Path, help=argparse.SUPPRESS)
    options = p.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    names = options.vocabularies.split(",")
    if options.library:
        vocab = vocabulary(names[0], options.folder)
        cores = int(options.cores)
        print(json.dumps(measure(options.library, vocab, options.documents, cores, options.passes, options.ids)))
        return
    results: list[Result] = []
    for cores in map(int, options.cores.split(",")):
        for name in names:
            for documents in texts(options):
                results += compare(vocabulary(name, options.folder), documents, cores, options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print(table.hostile(results) if options.hostile else table.markdown(results))


def texts(options: argparse.Namespace) -> list[Path]:
    if options.hostile:
        return hostile.build(options.folder / "hostile")
    if options.documents:
        return [options.documents]
    path: Path = options.folder / "documents"
    if not path.exists():
        corpus.build(path)
    return [path]


if __name__ == "__main__":
    main()
