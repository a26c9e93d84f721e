"""The figures and tables of the comparison of mixtures, on hand-made orders, and for the installed libraries."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "python" / "mixtures"))
import mixers
import mixture_tables
import order_figures as figures
from mixture_corpus import Corpus


def test_off() -> None:
    sources, tokens = np.array([0, 1, 0, 0]), np.array([10, 10, 20, 40])
    assert figures.off(sources, tokens, [1, 1], [10, 20, 21, 80]) == [0.5, 0.0, 0.25, pytest.approx(70 / 80 - 0.5)]
    assert (
        np.isnan(figures.off(sources, tokens, [1, 1], [81])).all()
        and np.isnan(figures.off(sources[:0], tokens[:0], [1, 1], [1])).all()
    )
    assert figures.off(sources, tokens, [3, 1, 4], [20]) == [0.5]  # the source without tokens


def test_repeated_and_lost() -> None:
    before = np.array([[0, 0], [1, 0], [0, 1]])
    assert figures.repeated_and_lost(before, np.array([[0, 2], [1, 1]])) == (0, 0)
    # 1 of 0 and 0 of 1; 1 and 2 of 1.
    assert figures.repeated_and_lost(before, np.array([[0, 1], [1, 3], [1, 0]])) == (
        2,
        2,
    )


def test_epochs() -> None:
    assert figures.neighbours(np.array([0, 1, 9, 8, 3]), 4) == 0.5
    assert figures.same_places(np.array([1, 2, 3, 4, 5]), np.array([1, 3, 2, 4, 5])) == 0.6
    assert figures.twice(np.array([1, 2, 1, 3])) == 0.25


def test_samples_have_the_tokens() -> None:
    """The samples have enough documents for all weights, and document weights that give the shares of tokens."""
    corpus = Corpus([100, 10_000], 1_000_000, [[0.5, 0.5], [0.9, 0.1]])
    for weights in ([0.5, 0.5], [0.9, 0.1]):
        for kind in ("documents", "divided", "rows"):
            counted, samples = corpus.weights(kind, weights), corpus.samples(kind)
            need = [int(corpus.needed(kind, counted, corpus.tokens) * w) for w in counted]
            tokens = [s[:n].sum() for s, n in zip(samples, need, strict=True)]
            assert all(n <= len(s) for s, n in zip(samples, need, strict=True)) and sum(tokens) >= corpus.tokens
            if kind != "documents":
                assert tokens[0] / sum(tokens) == pytest.approx(weights[0], abs=0.02)


@pytest.mark.parametrize("name", ["HF interleave_datasets", "torchdata MultiNodeWeightedSampler"])
def test_libraries_that_are_here(name: str) -> None:
    mixer, _, _ = mixers.MIXERS[name]
    first = mixer([500, 500], [0.8, 0.2])
    before, state = first.take(300), first.state()
    assert 0.7 < (before[:, 0] == 0).mean() < 0.9 and figures.repeated_and_lost(before[:0], before) == (0, 0)
    assert np.array_equal(first.take(50), mixer([500, 500], [0.8, 0.2], state=state).take(50))


def test_tables() -> None:
    ours = {
        "name": "loaderd",
        "version": "loaderd",
        "speed": 2e6,
        "shares": {"taken": [0.001, float("nan")]},
        "epochs": {"drawn": [0.01, 0, 0]},
        "change": {"same": True, "repeated": 0, "lost": 0, "off": 0.0001},
    }
    theirs = ours | {
        "name": "x",
        "version": "x 1",
        "speed": 5e5,
        "shares": {"rows": [0.5, 0.2]},
        "change": {"same": False, "repeated": 1234, "lost": None, "off": 0.3},
    }
    text = mixture_tables.markdown([ours, theirs, {"name": "y", "error": "No module named 'y'"}], {"at": [1_000_000]})
    for line in (
        "| loaderd: documents, as planned | 0.10 % | - |",
        "| x: rows of one source, cut in advance | 50 % | 20 % |",
        "| x | other samples | 1,234 | unknown | 30 % |",
        "| x | 500,000 | 0.25 |",
        "y did not run: No module named 'y'",
        "Versions: x 1.",
    ):
        assert line in text, text
