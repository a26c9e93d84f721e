"""Sends bm25s and faiss the queries that splice sends to its own index: for every document of a pool, the most related
other one.

`bin/splice -hand` writes the pools, a folder each, with splice's own answers; the measurements are written as JSON.
Each library gets its fastest suitable index (bm25s: numba backend; faiss: a flat index of float32 inner products), one
thread, and one query at a time, because the pool changes with every row.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import bm25s
import faiss
import numpy as np


def asked(name: str, paths: list[str], best: Callable[[int], int], seconds: float) -> dict[str, str | float]:
    """Queries as many documents, evenly spaced, as the time permits; the first few warm up."""
    for i in range(3):
        best(i)
    order = np.random.default_rng(1).permutation(len(paths))
    same = n = 0
    start = time.process_time()
    for i in order:
        same += paths[best(int(i))] == paths[i]
        n += 1
        if time.process_time() - start > seconds:
            break
    return {"retriever": name, "queries_per_second": n / (time.process_time() - start), "same_file": same / n}


def of_pool(folder: Path, seconds: float) -> dict[str, object]:
    """Returns the answers of the libraries and of splice for one pool, and the machine of splice's answers."""
    documents = [json.loads(line) for line in (folder / "documents.jsonl").open()]
    paths = [d["path"] for d in documents]
    ids = [[str(i) for i in d["ids"]] for d in documents]

    model = bm25s.BM25(backend="numba")
    model.index(ids, show_progress=False)

    def by_terms(i: int) -> int:
        found, _ = model.retrieve([ids[i]], k=2, show_progress=False, n_threads=1)
        return next(int(x) for x in found[0] if x != i)

    vectors = np.fromfile(folder / "vectors.f32", np.float32).reshape(len(documents), -1)
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)

    def by_vectors(i: int) -> int:
        _, found = flat.search(vectors[i : i + 1], 2)
        return next(int(x) for x in found[0] if x != i)

    ours = json.loads((folder / "answered.json").read_text())
    libraries = (
        (f"bm25s {version('bm25s')} (numba)", "bm25", by_terms),
        (f"faiss {version('faiss-cpu')}, flat", "dense", by_vectors),
    )
    answers = {a["retriever"]: a for a in ours["answers"]}
    queries = []
    for library, retriever, best in libraries:
        theirs = asked(retriever, paths, best, seconds)
        queries.append({"pool": len(paths), "library": library, "theirs": theirs, "ours": answers[retriever]})
    return {"machine": ours["machine"], "queries": queries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=15, help="seconds per library")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    args = parser.parse_args()
    pools = [of_pool(folder, args.seconds) for folder in args.folder]
    measured = {"machine": pools[-1]["machine"], "queries": [q for pool in pools for q in pool["queries"]]}
    args.record.write_text(json.dumps(measured, indent=2) + "\n")


if __name__ == "__main__":
    main()
