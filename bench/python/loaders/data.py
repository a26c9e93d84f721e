"""The benchmark's documents: token arrays with the lengths of web text, equal in every run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

ROWS, LENGTH = 64, 2048
VOCABULARY = 50_257
END = VOCABULARY - 1
TOKENIZER = "sha256:" + "b1" * 32

# Mean and standard deviation of FineWeb-Edu's log lengths in tokens.
MU, SIGMA = 6.363, 1.0235

SETTINGS = {
    "tokenizer.name": "none",
    "tokenizer.fingerprint": TOKENIZER,
    "tokenizer.vocab_size": VOCABULARY,
    "tokenizer.end": END,
    "tokenizer.pad": END,
    "packing.buckets": LENGTH,
    "steps.rows": ROWS,
    "log.level": "error",
}


def documents(tokens: int, seed: int = 7) -> Iterator[np.ndarray]:
    """Yields documents with at least `tokens` tokens in total, each uint16 [n], without the end-of-document token that
    the daemon appends.
    """
    rng = np.random.default_rng(seed)
    while tokens > 0:
        lengths = np.maximum(1, rng.lognormal(MU, SIGMA, 1024).astype(np.int64))
        ids = rng.integers(0, END, int(lengths.sum()), dtype=np.uint16)
        for document in np.split(ids, np.cumsum(lengths)[:-1]):
            if tokens <= 0:
                return
            tokens -= len(document) + 1
            yield document
