"""Figures about the order in which a mixture gives its samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def off(sources: np.ndarray, tokens: np.ndarray, weights: Sequence[float], at: Sequence[int]) -> list[float]:
    """How far the worst source is off its share of the tokens when so many have come, for each number in `at`; NaN where fewer come."""
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
    """Samples [n, 2] that come after a resume though they came before it; and those that never come, though later ones of their source do."""
    key = lambda samples: samples[:, 0] << 40 | samples[:, 1]  # noqa: E731
    repeated = np.isin(key(after), key(before)).sum()
    lost = 0
    both = np.concatenate([before, after])
    for source in np.unique(both[:, 0]):
        seen = np.unique(both[both[:, 0] == source, 1])
        lost += seen.max() + 1 - len(seen)
    return int(repeated), int(lost)


def neighbours(order: np.ndarray, size: int) -> float:
    """How many documents of an order have one of the same `size` neighbours in the corpus just before them."""
    near = order // size
    return float((near[1:] == near[:-1]).mean())


def same_places(first: np.ndarray, second: np.ndarray) -> float:
    """How many places of two epochs have the same document."""
    n = min(len(first), len(second))
    return float((first[:n] == second[:n]).mean())


def twice(first: np.ndarray) -> float:
    """How many of an epoch's places have a document that came before in it."""
    return 1 - len(np.unique(first)) / len(first)
