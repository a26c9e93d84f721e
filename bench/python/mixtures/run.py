"""Compares how libraries and loaderd mix sources, and prints Markdown tables.

    make bench-mixtures
    python bench/python/mixtures/run.py --loaderd bin/mixing --quick --only Grain

Every library is measured in a separate process; one that cannot be imported is listed with its error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))
import marked

import mixers
import mixture_tables
import order_figures as figures
from mixture_corpus import Corpus

HERE = Path(__file__).resolve().parent
SETTINGS: dict[str, Any] = {
    "means": [80, 400, 1500, 6000, 20000],
    "weights": [[0.2, 0.2, 0.2, 0.2, 0.2], [0.4, 0.3, 0.2, 0.05, 0.05]],
    "at": [1_000_000, 10_000_000, 100_000_000],
    "kinds": ["documents", "divided", "rows"],
    "seeds": 3,
    "samples": 8192,  # before a change of weights, and after it
    "documents": 131_072,  # of the source whose epochs are compared
    "near": 1024,  # documents of a neighbourhood
    "seconds": 5.0,
}
QUICK = {"at": [100_000, 1_000_000], "seeds": 1, "samples": 4096, "documents": 16_384, "seconds": 0.5}


class Loaderd:
    """The Go program of this benchmark, on the same lengths."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder

    def mix(
        self,
        lengths: list[np.ndarray],
        weights: list[list[float]],
        steps: bool = True,
        written: bool = True,
        **more: Any,
    ) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
        """Returns documents in order [n, 2]; pieces in steps [m, 3]: source, document, tokens; and the cost."""
        request = {"lengths": [x.tolist() for x in lengths], "weights": weights, "changes": [], **more}
        paths = [self.folder / "taken", self.folder / "steps"]
        flags = [f"-taken={paths[0]}", *([f"-steps={paths[1]}"] if steps else [])] if written else []
        done = subprocess.run(
            [self.program, *flags], input=json.dumps(request), capture_output=True, text=True, check=True
        )

        def read(path: str, width: int, there: object) -> np.ndarray:
            return (np.fromfile(path, "<u4") if there else np.zeros(0)).astype(np.int64).reshape(-1, width)

        return read(paths[0], 2, written), read(paths[1], 3, steps and written), json.loads(done.stdout)

    def measure(self, s: dict[str, Any]) -> dict[str, Any]:
        tokens = int(1.2 * s["at"][-1]) + 20_000_000  # some remain in the pool and the window
        corpus = Corpus(s["means"], tokens, s["weights"])
        out: dict[str, Any] = {
            "name": "loaderd",
            "version": "loaderd",
            "shares": {"taken": [], "steps": []},
            "epochs": {},
        }
        for weights in s["weights"]:
            runs = []
            for seed in range(s["seeds"]):
                taken, steps, _ = self.mix(corpus.lengths, [weights], tokens=tokens, seed=seed)
                length = np.array([corpus.lengths[i][k] for i, k in taken])
                runs.append(
                    (
                        figures.off(taken[:, 0], length, weights, s["at"]),
                        figures.off(steps[:, 0], steps[:, 2], weights, s["at"]),
                    )
                )
            for kind, i in (("taken", 0), ("steps", 1)):
                out["shares"][kind] += np.max([r[i] for r in runs], axis=0).tolist()
        out["change"] = self.change(corpus, s)
        pace = [np.full(400_000, 1000)] * len(s["means"])
        costs = [self.mix(pace, [s["weights"][0]], tokens=2_000_000_000, written=False)[2] for _ in range(3)]
        out["speed"] = max(c["documents"] / c["cpu_seconds"] for c in costs)
        one = [np.full(s["documents"], 1000)]
        for block in (32, 16):
            taken, _, _ = self.mix(one, [[1.0]], steps=False, epochs=2, block=block)
            first, second = taken[: s["documents"], 1], taken[s["documents"] :, 1]
            out["epochs"][f"`epochs: 2`, `block: {block}`{' (default)' if block == 32 else ''}"] = [
                figures.neighbours(first, s["near"]),
                figures.same_places(first, second),
                figures.twice(first),
            ]
        return out

    def change(self, corpus: Corpus, s: dict[str, Any]) -> dict[str, Any]:
        """As single.change: `documents` documents, a restart under other weights, as many more.

        Shares are of tokens, as weights are.
        """
        old, new = s["weights"]
        at, lengths = s["at"][-2], corpus.lengths
        plain, _, _ = self.mix(lengths, [old], tokens=2 * at)
        same, _, _ = self.mix(lengths, [old, old], changes=[at], restart=True, tokens=2 * at)
        taken, _, _ = self.mix(lengths, [old, new], changes=[at], restart=True, tokens=2 * at)
        tokens = np.array([lengths[i][k] for i, k in taken])
        n = int(np.searchsorted(np.cumsum(tokens), at)) + 1
        repeated, lost = figures.repeated_and_lost(taken[:n], taken[n:])
        late = slice(n + (len(taken) - n) // 4, None)
        (error,) = figures.off(taken[late, 0], tokens[late], new, [int(tokens[late].sum())])
        return {"same": bool(np.array_equal(plain, same)), "repeated": repeated, "lost": lost, "off": error}


def peer(name: str, folder: Path, s: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", HERE / "single.py", name, folder, json.dumps(s)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"name": name, "error": done.stderr.strip().splitlines()[-1][:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--loaderd", type=Path, required=True, help="program of bench/mixing")
    flags.add_argument("--only", default="", help="only libraries whose name contains this")
    flags.add_argument("--quick", action="store_true", help="few samples, to check that it runs")
    flags.add_argument("--json", type=Path, help="file for all figures")
    flags.add_argument("--page", type=Path, help="page whose tables are replaced, if all libraries run")
    args = flags.parse_args()
    if args.page and (args.only or args.quick):
        flags.error("--page needs all libraries and samples: it excludes --only and --quick")
    s = SETTINGS | (QUICK if args.quick else {})
    with tempfile.TemporaryDirectory() as folder:
        results = [Loaderd(args.loaderd.resolve(), Path(folder)).measure(s)]
        for name in mixers.MIXERS:
            if args.only.lower() in name.lower():
                print(f"measuring {name}", file=sys.stderr, flush=True)
                results.append(peer(name, Path(folder), s))
    if args.json:
        args.json.write_text(json.dumps({"settings": s, "results": results}, indent=1))
    print(mixture_tables.markdown(results, s))
    if args.page:
        if any("error" in r for r in results):
            sys.exit(f"{args.page} is unchanged: not all libraries ran")
        marked.write(args.page, mixture_tables.tables(results, s))


if __name__ == "__main__":
    main()
