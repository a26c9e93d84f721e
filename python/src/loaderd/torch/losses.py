"""The losses of a batch by the sources of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from loaderd.torch._batch import IGNORED


def by_source(losses: torch.Tensor, batch: Mapping[str, Any], count: int | None = None) -> torch.Tensor:
    """Returns the sum and the number of the losses of each source, for one all-reduce over all ranks.

    After the all-reduce `sums / counts` is the mean loss of every source; both are 0 for a source without a token in
    the step. Gradients are not propagated. The call does not synchronize with the GPU.

    Args:
        losses: One value per token, as `cross_entropy(..., reduction="none")` returns them, flat or not. rows * L
            values belong to the labels of the batch. rows * (L - 1) values belong to unshifted labels without each
            row's first, as a model that shifts labels has them. Values at labels of -100 do not count.
        batch: A batch with `labels` and `sources`, [rows, L].
        count: The number of sources; None means `batch["num_sources"]`, which is the same on every rank. Sources with a
            number from `count` on are ignored.

    Returns:
        float32 [2, count]: sums, and numbers.

    Raises:
        ValueError: If `losses` has another size.
    """
    labels, sources = batch["labels"], batch["sources"]
    rows, length = sources.shape
    if losses.numel() == rows * (length - 1) and losses.numel() != rows * length:
        labels, sources = labels[:, 1:], sources[:, 1:]
    elif losses.numel() != rows * length:
        raise ValueError(
            f"{losses.numel()} losses for {rows} rows of {length} tokens: want one per token, or per token except the "
            "first of each row"
        )
    n = batch["num_sources"] if count is None else count
    used = ((labels != IGNORED) & (sources >= 0) & (sources < n)).reshape(-1)
    into = torch.where(used, sources.reshape(-1).long(), n)  # values that do not count go to bin n, which is cut off
    out = torch.zeros(2, n + 1, dtype=torch.float32, device=losses.device)
    out[0].index_add_(0, into, losses.detach().reshape(-1).float())
    out[1].index_add_(0, into, used.float())
    return out[:, :n].contiguous()
