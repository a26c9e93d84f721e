"""Figures about the order of a mixture's samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def off(sources: np.ndarray, tokens: np.ndarray, weights: Sequence[float], at: Sequence[int]) -> list[float]:
    """Returns the largest deviation of a source from its share of the tokens, after each number of tokens in `at`; NaN
    for more tokens than the order has.
    """
    target = np.asarray(weights, float) / sum(weights)
    ends = np.cumsum(tokens)
    out = []
    for n in at:
        if not len(ends) or ends[-1] < n:
            out.append(float("nan"))
            continue
        first = int(np.searchsorted(ends, n)) + 1
        shares = np.bincount(sources[:first], tokens[:first], len(target)) / ends[first - 1]
        out.append(float(np.abs(shares - target).max()))
    return out


def repeated_and_lost(before: np.ndarray, after: np.ndarray) -> tuple[int, int]:
    """Returns the numbers of samples [n, 2] that are repeated after a resume, and of those that never follow although
    later ones of their source do.
    """
    key = lambda samples: samples[:, 0] << 40 | samples[:, 1]  # noqa: E731
    repeated = np.isin(key(after), key(before)).sum()
    lost = 0
    both = np.concatenate([before, after])
    for source in np.unique(both[:, 0]):
        seen = np.unique(both[both[:, 0] == source, 1])
        lost += seen.max() + 1 - len(seen)
    return int(repeated), int(lost)


def neighbours(order: np.ndarray, size: int) -> float:
    """Returns the share of documents that follow one of the same `size` neighbours in the corpus."""
    near = order // size
    return float((near[1:] == near[:-1]).mean())


def same_places(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the share of positions that have the same document in two epochs."""
    n = min(len(first), len(second))
    return float((first[:n] == second[:n]).mean())


def twice(first: np.ndarray) -> float:
    """Returns the share of an epoch's positions that repeat an earlier document."""
    return 1 - len(np.unique(first)) / len(first)
