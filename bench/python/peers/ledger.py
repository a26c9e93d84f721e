"""The actual output of a packer, counted from its rows and not from its own figures.

The tokens of all documents are numbered from 1 through the whole input, and 0 is padding. Each token of a row therefore
identifies its document, and each is accounted for: emitted once, several times, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Account:
    """Totals of one packer's output. tokens = slots - padding - repeated + dropped."""

    documents: int
    tokens: int  # of the input
    rows: int
    slots: int  # rows times the row length
    padding: int  # slots without a token
    repeated: int  # tokens that were emitted again
    dropped: int  # tokens that were never emitted
    cut: int  # documents that were not emitted in one piece
    cut_short: int  # of these, documents that fit into a row
    lost: int  # of these, documents without any emitted token
    oldest: (
        int  # maximum number of documents that arrived between a document's arrival and the emission of its last piece
    )


class Ledger:
    """Records rows as a packer emits them.

    Rows longer than `row` tokens, and tokens that are not in the input, are errors.
    """

    def __init__(self, lengths: np.ndarray, row: int) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.row = row
        self.starts = 1 + np.concatenate(([0], np.cumsum(self.lengths)[:-1]))
        self.tokens = int(self.lengths.sum())
        self.begins = np.zeros(self.tokens + 1, dtype=bool)  # whether a token is a document's first
        self.begins[self.starts] = True
        self.rows = 0
        self.oldest = 0
        self.runs: list[tuple[np.ndarray, np.ndarray]] = []  # first tokens and lengths of the pieces

    def add(self, values: np.ndarray, sizes: np.ndarray, arrived: np.ndarray) -> None:
        """Adds rows that are concatenated in values: row i has sizes[i] tokens and was emitted when arrived[i]
        documents had arrived.
        """
        if len(sizes) and sizes.max() > self.row:
            raise ValueError(f"a row of {sizes.max()} tokens, longer than {self.row}")
        if sizes.sum() != len(values):
            raise ValueError(f"rows of {sizes.sum()} tokens in total, but {len(values)} tokens")
        self.rows += len(sizes)
        if len(values) == 0:
            return
        if values.min() < 0 or values.max() > self.tokens:
            raise ValueError(f"tokens from {values.min()} to {values.max()}: want 1 to {self.tokens}")
        ends = np.cumsum(sizes)
        new = self.begins[values]
        new[1:] |= np.diff(values) != 1
        new[(ends - sizes)[sizes > 0]] = True
        at = np.flatnonzero(new)
        size = np.diff(at, append=len(values))
        at, size = at[values[at] > 0], size[values[at] > 0]
        if len(at) == 0:
            return
        first = values[at].astype(np.int64)
        document = np.searchsorted(self.starts, first, "right") - 1
        age = arrived[np.searchsorted(ends, at, "right")] - 1 - document
        if age.min() < 0:
            raise ValueError(f"a row contains document {document[age.argmin()] + 1} before it arrived")
        self.oldest = max(self.oldest, int(age.max()))
        self.runs.append((first, size))

    def close(self) -> Account:
        """Returns the account of all rows."""
        none = np.zeros(0, dtype=np.int64)
        first = np.concatenate([none, *(f for f, _ in self.runs)])
        size = np.concatenate([none, *(s for _, s in self.runs)])
        order = np.argsort(first, kind="stable")
        first, size = first[order], size[order]
        ends = first + size
        known = np.maximum.accumulate(np.concatenate(([0], ends)))[:-1]  # all tokens below are emitted already
        fresh = int(np.maximum(ends - np.maximum(first, known), 0).sum())
        packed = int(size.sum())
        document = np.searchsorted(self.starts, first, "right") - 1
        some, whole = np.zeros((2, len(self.lengths)), dtype=bool)
        some[document] = True
        whole[document[size == self.lengths[document]]] = True
        return Account(
            documents=len(self.lengths),
            tokens=self.tokens,
            rows=self.rows,
            slots=self.rows * self.row,
            padding=self.rows * self.row - packed,
            repeated=packed - fresh,
            dropped=self.tokens - fresh,
            cut=int((~whole).sum()),
            cut_short=int((~whole & (self.lengths <= self.row)).sum()),
            lost=int((~some).sum()),
            oldest=self.oldest,
        )
