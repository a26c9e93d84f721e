"""Synthetic steps, and the batch of a step built in the obvious way: row by row, token by token."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from loaderd import Part, Sources, Step
from loaderd._step import LossRuns

Rows = list[list[list[int]]]
"""Rows of segments of token ids; the rest of the bucket's length is padding."""
Masks = list[list[list[bool]]]
"""Whether each of these tokens has a loss."""
Weights = list[list[float]]
"""The loss weight of each segment."""


def random_masks(rng: np.random.Generator, rows: Rows) -> Masks:
    """Returns runs of tokens with and without a loss, and segments with only one of them."""

    def mask(n: int) -> list[bool]:
        kind, made = rng.integers(4), []
        while len(made) < n:
            made += [bool(kind == 0 or (kind > 1 and len(made) % 2 == 0))] * int(rng.integers(1, 6))
        return made[:n]

    return [[mask(len(segment)) for segment in row] for row in rows]


def random_weights(rng: np.random.Generator, rows: Rows) -> Weights:
    return [[float(rng.choice([0, 0.5, 1, 3])) for _ in row] for row in rows]


def _runs(mask: list[bool]) -> list[int]:
    runs = [0]
    for loss in mask:
        if loss != (len(runs) % 2 == 1):
            runs.append(0)
        runs[-1] += 1
    return runs


def random_rows(
    rng: np.random.Generator, rows: int, bucket: int, *, vocabulary: int = 50_000, row_attention: bool = False
) -> Rows:
    """Returns rows of every kind: full, padded, only padding, one segment, segments of one token."""
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
    rows: Rows,
    bucket: int,
    *,
    dtype: type = np.int32,
    parts: int = 1,
    pad: int = 0,
    index: int = 0,
    ranks: int = 1,
    masks: Masks | None = None,
    weights: Weights | None = None,
) -> Step:
    """Returns the Step as received over the wire, with read-only arrays like those of Arrow. `ranks` ranks have the
    same. Without `masks` it is one of a daemon that does not send loss runs."""
    cuts = np.linspace(0, len(rows), parts + 1).astype(int)
    made = []
    for a, b in itertools.pairwise(cuts):
        ids = np.full((b - a, bucket), pad, dtype)
        ends: list[int] = []
        offsets = [0]
        for i, row in enumerate(rows[a:b]):
            tokens = [t for segment in row for t in segment]
            ids[i, : len(tokens)] = tokens
            ends += np.cumsum([0] + [len(s) for s in row]).tolist()
            offsets.append(len(ends))
        runs = None
        if masks is not None:
            each = [_runs([loss for segment in row for loss in segment]) for row in masks[a:b]]
            runs = LossRuns(
                np.cumsum([0] + [len(r) for r in each], dtype=np.int32),
                np.array([n for r in each for n in r], np.int32),
            )
        sources = None
        if weights is not None:
            lengths = np.array([len(s) for row in rows[a:b] for s in row], np.int32)
            of_rows = np.cumsum([0] + [len(row) for row in rows[a:b]], dtype=np.int32)
            factors = np.array([w for row in weights[a:b] for w in row], np.float32)
            sources = Sources(of_rows, lengths.astype(np.uint64), 0 * lengths, lengths, weight=factors)
        part = Part(ids, np.array(ends, np.int32), np.array(offsets, np.int32), sources, runs)
        for array in (part.input_ids, part.ends, part.offsets):
            array.flags.writeable = False
        made.append(part)
    tokens = sum(len(s) for row in rows for s in row)
    segments = sum(len(row) for row in rows)
    flags = masks if masks is not None else [[[True] * len(s) for s in row] for row in rows]
    losses = sum(sum(s) for row in flags for s in row)
    return Step(
        run="made-up",
        index=index,
        bucket=bucket,
        rows=len(rows),
        tokens=tokens,
        loss_tokens=losses,
        documents=segments,
        max_seqlen=max((len(s) for row in rows for s in row), default=0),
        step_tokens=tokens * ranks,
        step_segments=segments * ranks,
        parts=tuple(made),
        step_loss_tokens=losses * ranks,
        step_loss_segments=sum(s[0] for row in flags for s in row) * ranks,
        weighted=weights is not None,
    )


def obvious_batch(
    rows: Rows,
    bucket: int,
    *,
    dtype: torch.dtype,
    shifted: bool,
    pad: int = 0,
    ranks: int = 1,
    masks: Masks | None = None,
    weights: Weights | None = None,
) -> dict:
    """Returns the expected batch of these rows."""
    ids, labels, positions, numbers, factors = [], [], [], [], []
    cu = [0]
    longest = losses = 0
    for r, row in enumerate(rows):
        padding = bucket - sum(len(s) for s in row)
        for number, segment in [*enumerate(row, 1), (0, [pad] * padding)]:
            if not segment:
                continue
            factor = weights[r][number - 1] if weights is not None and number else float(number > 0)
            factors += [factor] * len(segment)
            ids += segment
            numbers += [number] * len(segment)
            positions += range(len(segment))
            cu.append(len(ids))
            longest = max(longest, len(segment))
            if number == 0:
                labels += [-100] * len(segment)
            else:
                mask = masks[r][number - 1] if masks is not None else [True] * len(segment)
                predicted = [t if loss else -100 for t, loss in zip(segment, mask, strict=True)][1:]
                labels += [*predicted, -100] if shifted else [-100, *predicted]
    losses = sum(x != -100 for x in labels)

    def table(values: list[int] | list[float], kind: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=kind).reshape(len(rows), bucket)

    batch = {
        "input_ids": table(ids, dtype),
        "labels": table(labels, dtype),
        "position_ids": table(positions, dtype),
        "segment_ids": table(numbers, torch.int32),
        "cu_seqlens": torch.tensor(cu, dtype=torch.int32),
        "max_seqlen": longest,
        "num_loss_tokens": losses,
        "num_loss_tokens_global": losses * ranks,
    }
    if weights is not None:
        of_tokens = table(factors, torch.float32)
        batch["loss_weights"] = torch.nn.functional.pad(of_tokens[:, 1:], (0, 1)) if shifted else of_tokens
    return batch


def assert_same(got: dict, want: dict) -> None:
    """Checks that keys and their order, types, shapes and values are equal."""
    assert list(got) == list(want)
    for key, value in want.items():
        assert type(got[key]) is type(value), key
        if isinstance(value, torch.Tensor):
            assert (got[key].dtype, got[key].shape, got[key].device) == (value.dtype, value.shape, value.device), key
            assert torch.equal(got[key], value), key
        else:
            assert got[key] == value, key
