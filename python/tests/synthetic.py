"""Steps made up by tests, and the batch of a step built the obvious way: row by row, token by token."""

from __future__ import annotations

import numpy as np
import torch

from loaderd.step import Part, Step

Rows = list[list[list[int]]]
"""Rows of segments of token ids; what is missing to the bucket's length is padding."""


def random_rows(
    rng: np.random.Generator, rows: int, bucket: int, *, vocabulary: int = 50_000, row_attention: bool = False
) -> Rows:
    """Rows of every kind: full, padded, of padding alone, of one segment, of segments of one token."""
    made: Rows = []
    for _ in range(rows):
        kind = rng.integers(6)
        used = 0 if kind == 0 else bucket if kind < 4 else int(rng.integers(1, bucket + 1))
        lengths: list[int] = []
        while (left := used - sum(lengths)) > 0:
            whole = row_attention or rng.random() < 0.1
            lengths.append(left if whole else min(left, int(rng.geometric(min(1.0, 4 / bucket)))))
        made.append([[int(t) for t in rng.integers(0, vocabulary, n)] for n in lengths])
    return made


def step_of_rows(
    rows: Rows, bucket: int, *, dtype: type = np.int32, parts: int = 1, pad: int = 0, index: int = 0, ranks: int = 1
) -> Step:
    """The Step that the wire would bring, its arrays read-only as those of Arrow are. `ranks` ranks have the same."""
    cuts = np.linspace(0, len(rows), parts + 1).astype(int)
    made = []
    for a, b in zip(cuts[:-1], cuts[1:], strict=True):
        ids = np.full((b - a, bucket), pad, dtype)
        ends: list[int] = []
        offsets = [0]
        for i, row in enumerate(rows[a:b]):
            tokens = [t for segment in row for t in segment]
            ids[i, : len(tokens)] = tokens
            ends += np.cumsum([0] + [len(s) for s in row]).tolist()
            offsets.append(len(ends))
        part = Part(ids, np.array(ends, np.int32), np.array(offsets, np.int32))
        for array in (part.input_ids, part.ends, part.offsets):
            array.flags.writeable = False
        made.append(part)
    tokens = sum(len(s) for row in rows for s in row)
    segments = sum(len(row) for row in rows)
    return Step(
        run="made-up",
        index=index,
        bucket=bucket,
        rows=len(rows),
        tokens=tokens,
        loss_tokens=tokens,
        documents=segments,
        max_seqlen=max((len(s) for row in rows for s in row), default=0),
        step_tokens=tokens * ranks,
        step_segments=segments * ranks,
        parts=tuple(made),
    )


def obvious_batch(rows: Rows, bucket: int, *, dtype: torch.dtype, shifted: bool, pad: int = 0, ranks: int = 1) -> dict:
    """What a batch of these rows is."""
    ids, labels, positions, numbers = [], [], [], []
    cu = [0]
    longest = losses = 0
    for row in rows:
        padding = bucket - sum(len(s) for s in row)
        for number, segment in [*enumerate(row, 1), (0, [pad] * padding)]:
            if not segment:
                continue
            ids += segment
            numbers += [number] * len(segment)
            positions += range(len(segment))
            cu.append(len(ids))
            longest = max(longest, len(segment))
            if number == 0:
                labels += [-100] * len(segment)
            elif shifted:
                labels += [*segment[1:], -100]
            else:
                labels += [-100, *segment[1:]]
    losses = sum(x != -100 for x in labels)

    def table(values: list[int], kind: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=kind).reshape(len(rows), bucket)

    return {
        "input_ids": table(ids, dtype),
        "labels": table(labels, dtype),
        "position_ids": table(positions, dtype),
        "segment_ids": table(numbers, torch.int32),
        "cu_seqlens": torch.tensor(cu, dtype=torch.int32),
        "max_seqlen": longest,
        "num_loss_tokens": losses,
        "num_loss_tokens_global": losses * ranks,
    }


def assert_same(got: dict, want: dict) -> None:
    """The same keys in the same order, the same types, shapes and values."""
    assert list(got) == list(want)
    for key, value in want.items():
        assert type(got[key]) is type(value), key
        if isinstance(value, torch.Tensor):
            assert (got[key].dtype, got[key].shape, got[key].device) == (value.dtype, value.shape, value.device), key
            assert torch.equal(got[key], value), key
        else:
            assert got[key] == value, key
