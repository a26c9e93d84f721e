"""All figures of one library, in a separate process: JSON on standard output.

Usage:

    single.py NAME FOLDER SETTINGS: a name of mixers.MIXERS, a folder for its files, and settings as run.py makes them
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import mixers
import order_figures as figures
import two_epochs
from mixture_corpus import Corpus


def shares(
    mixer: type[mixers.Mix], corpus: Corpus, kind: str, weights: list[float], at: list[int], seeds: int
) -> list[float]:
    """Returns the worst of several seeds, if the library draws at random."""
    tokens, counted = corpus.samples(kind), corpus.weights(kind, weights)
    need = corpus.needed(kind, counted, at[-1])
    mixer = mixers.FOR_UNLIKE_WEIGHTS.get(mixer, mixer) if kind == "divided" else mixer
    out = []
    for seed in range(1, (seeds if mixer.drawn else 1) + 1):
        got = mixer([len(t) for t in tokens], counted, seed).order(need)
        length = np.array([tokens[s][k] for s, k in got])
        out.append(figures.off(got[:, 0], length, weights, at))
    return np.max(out, axis=0).tolist()


def change(mixer: type[mixers.Mix], sizes: list[int], n: int, old: list[float], new: list[float]) -> dict[str, Any]:
    """Takes n samples, resumes under other weights, and takes n more; also checks whether a resume under the same
    weights gives the same samples.
    """
    first = mixer(sizes, old)
    before, state = first.take(n), first.state()
    same = np.array_equal(first.take(n), mixer(sizes, old, state=state).take(n))
    after = mixer(sizes, new, state=state, history=[(0, old)]).take(n)
    repeated, lost = figures.repeated_and_lost(before, after)
    late = after[n // 4 :]  # after what a block or a draw had fixed
    (error,) = figures.off(late[:, 0], np.ones(len(late)), new, [len(late)])
    return {"same": bool(same), "repeated": repeated, "lost": None if mixer.shuffled else lost, "off": error}


def speed(mixer: type[mixers.Mix], sizes: list[int], weights: list[float], seconds: float) -> float:
    """Returns samples per second of processor time, all threads together."""
    mix = mixer(sizes, weights)
    mix.take(2048)
    n, began = 0, time.process_time()
    while time.process_time() - began < seconds and n + 2048 < sum(sizes) // 4:
        n += len(mix.take(2048))
    return n / (time.process_time() - began)


def measure(name: str, s: dict[str, Any]) -> dict[str, Any]:
    mixer, package, module = mixers.MIXERS[name]
    import_module(module)
    corpus = Corpus(s["means"], s["at"][-1], s["weights"])
    out: dict[str, Any] = {"name": name, "version": f"{package} {version(package)}"}
    out["shares"] = {
        kind: [x for w in s["weights"] for x in shares(mixer, corpus, kind, w, s["at"], s["seeds"])]
        for kind in s["kinds"]
    }
    out["change"] = change(mixer, [4 * s["samples"]] * len(s["means"]), s["samples"], s["weights"][0], s["weights"][1])
    out["speed"] = speed(mixer, [40 * 2048] * len(s["means"]), s["weights"][0], s["seconds"])
    out["epochs"] = {}
    for how, order in two_epochs.EPOCHS.get(name, {}).items():
        first, second = order(s["documents"])
        out["epochs"][how] = [
            figures.neighbours(first, s["near"]),
            figures.same_places(first, second),
            figures.twice(first),
        ]
    return out


if __name__ == "__main__":
    mixers.FOLDER = str(Path(sys.argv[2]))
    json.dump(measure(sys.argv[1], json.loads(sys.argv[3])), sys.stdout)
