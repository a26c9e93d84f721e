"""Synthetic steps, which a trainer uses to measure or to compile before the first real step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loaderd._extra_columns import mock_columns
from loaderd._step import Part, Sources, Step
from loaderd._wire import RunInfo


def mock_step(
    info: RunInfo, bucket: int, rows: int, world_size: int, columns: Sequence[str] = (), sources: bool = False
) -> Step:
    """Returns a step whose rows are one segment of `bucket` tokens each.

    Args:
        info: The run, whose vocabulary the token ids have.
        bucket: The row length in tokens.
        rows: This rank's rows.
        world_size: The number of ranks.
        columns: Columns of the run, which get their fill.
        sources: Whether the step has the numbers of sources.
    """
    ids = np.arange(rows * bucket) % max(1, info.vocab_size)
    ends = np.tile(np.array([0, bucket], np.int32), rows)
    each = np.arange(rows + 1, dtype=np.int32)
    whole = np.full(rows, bucket, np.int32)
    number = np.zeros(rows, np.uint16) if sources else None
    pieces = Sources(
        each, each[1:].astype(np.uint64), np.zeros(rows, np.int32), whole, number, np.ones(rows, np.float32)
    )
    part = Part(
        ids.astype(np.int32).reshape(rows, bucket),
        ends,
        np.arange(0, 2 * rows + 1, 2, dtype=np.int32),
        pieces,
        None,
        *mock_columns(info.configuration, columns, rows, bucket),
    )
    return Step(
        run=info.name,
        index=0,
        bucket=bucket,
        rows=rows,
        tokens=rows * bucket,
        loss_tokens=rows * bucket,
        documents=rows,
        max_seqlen=bucket,
        step_tokens=world_size * rows * bucket,
        step_segments=world_size * rows,
        parts=(part,),
        step_sources=len(info.sources),
        step_loss_tokens=world_size * rows * bucket,
        step_loss_segments=world_size * rows,
    )
