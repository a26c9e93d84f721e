"""Asks bm25s and faiss the questions that splice asks its own index: for every document of a pool, the most related other one.

The pool comes from `bin/splice -hand FOLDER`, with splice's own figures in it. Each library gets the index it is best at (bm25s: numba
backend; faiss: a flat index of float32 inner products), one thread, and one question at a time, since the pool changes with every row.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import bm25s  # noqa: E402
import faiss  # noqa: E402
import numpy as np  # noqa: E402


def asked(name: str, paths: list[str], best: Callable[[int], int], seconds: float) -> dict[str, object]:
    """Questions for as many documents, evenly chosen, as there is time for; the first few warm up."""
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
    return {"retriever": name, "pool": len(paths), "queries_per_second": n / (time.process_time() - start), "same_file": same / n}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=15, help="for each library")
    args = parser.parse_args()
    documents = [json.loads(line) for line in (args.folder / "documents.jsonl").open()]
    paths = [d["path"] for d in documents]
    ids = [[str(i) for i in d["ids"]] for d in documents]

    model = bm25s.BM25(backend="numba")
    model.index(ids, show_progress=False)

    def by_terms(i: int) -> int:
        found, _ = model.retrieve([ids[i]], k=2, show_progress=False, n_threads=1)
        return next(int(x) for x in found[0] if x != i)

    vectors = np.fromfile(args.folder / "vectors.f32", np.float32).reshape(len(documents), -1)
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)

    def by_vectors(i: int) -> int:
        _, found = flat.search(vectors[i : i + 1], 2)
        return next(int(x) for x in found[0] if x != i)

    ours = {a["retriever"]: a for a in json.loads((args.folder / "answered.json").read_text())}
    print("| pool | | queries/s | same file | loaderd queries/s | same file | ratio |\n|---|---|---|---|---|---|---|")
    for name, key, best in (("bm25s (numba)", "bm25", by_terms), ("faiss flat", "dense", by_vectors)):
        theirs, own = asked(name, paths, best, args.seconds), ours[key]
        print(
            f"| {len(paths)} | {name} | {theirs['queries_per_second']:.0f} | {100 * theirs['same_file']:.1f} % "
            f"| {own['queries_per_second']:.0f} | {100 * own['same_file']:.1f} % "
            f"| {own['queries_per_second'] / theirs['queries_per_second']:.0f} |"
        )


if __name__ == "__main__":
    main()
