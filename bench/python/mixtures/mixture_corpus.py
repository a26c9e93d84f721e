"""The sources of the comparison: lengths of documents, and the samples in each way of using a library that mixes
samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ROW = 2048
KINDS = {
    "documents": "documents",
    "divided": "documents, weights divided by mean lengths",
    "rows": "rows of 2,048 tokens of one source, cut beforehand",
}


class Corpus:
    """Sources whose documents are half to one and a half times their mean length, in tokens."""

    def __init__(self, means: Sequence[int], tokens: int, weights: Sequence[Sequence[float]]) -> None:
        """`tokens` is the number that a run takes, `weights` has those of all runs."""
        self.means, self.tokens = means, tokens
        most = np.zeros(len(means))
        for kind in ("documents", "divided"):
            for counted in (self.weights(kind, w) for w in weights):
                most = np.maximum(most, self.needed(kind, counted, tokens) * np.array(counted) * 1.2 + 5000)
        self.lengths = [
            np.random.default_rng(i).integers(mean // 2, mean * 3 // 2 + 1, int(n))
            for i, (mean, n) in enumerate(zip(means, most, strict=True))
        ]

    def samples(self, kind: str) -> list[np.ndarray]:
        """Returns the tokens of the samples of each source."""
        if kind == "rows":
            return [np.full(int(1.2 * self.tokens / ROW) + 300, ROW) for _ in self.means]
        return self.lengths

    def weights(self, kind: str, weights: Sequence[float]) -> list[float]:
        """Returns the library's weights that make its samples approximate these shares of tokens."""
        if kind == "divided":
            parts = [w / m for w, m in zip(weights, self.means, strict=True)]
            return [p / sum(parts) for p in parts]
        return list(weights)

    def needed(self, kind: str, counted: Sequence[float], tokens: int) -> int:
        """Returns the number of samples that have `tokens` tokens."""
        means = [ROW] * len(self.means) if kind == "rows" else self.means
        mean = sum(w * m for w, m in zip(counted, means, strict=True)) / sum(counted)
        return int(1.05 * tokens / mean) + 200
