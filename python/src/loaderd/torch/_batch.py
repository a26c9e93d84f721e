"""Converts a received step to the dict of tensors that a model takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from loaderd._array_format import check_content
from loaderd._step import Step
from loaderd.torch._buffers import KINDS, Buffers

FIELDS = (
    "input_ids",
    "labels",
    "position_ids",
    "segment_ids",
    "cu_seqlens",
    "max_seqlen",
    "num_loss_tokens",
    "num_loss_tokens_global",
)
"""All fields of a batch, in order; runs with several sources also have OF_SOURCES."""

SOURCE_FIELDS = ("sources", "num_sources")

OPTIONAL_FIELDS = ("loss_weights",)
"""Fields that a batch has only on request."""

_OF_MASKS = ("labels", "num_loss_tokens")
"""Fields that depend on which tokens have a loss."""

_OF_SEGMENTS = frozenset(FIELDS) - {"input_ids", "num_loss_tokens_global"}
"""Fields that depend on where segments end."""

IGNORED = -100
"""The label of a token that is not predicted, as in `torch.nn.functional.cross_entropy`."""

_SMALLEST_CAPACITY = 64
_Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class BatchFormat:
    """The content and the format of batches; `loaderd.torch.StepLoader` documents each."""

    fields: tuple[str, ...] = FIELDS
    dtype: torch.dtype = torch.int64
    labels: Literal["unshifted", "shifted"] = "unshifted"
    capacity: int | Literal["auto"] | None = None
    sources: bool | None = None
    """Whether a batch has fields of its sources; None: if the run has several."""
    weights: bool = False
    """Whether a batch has the loss weights of its tokens."""
    columns: tuple[str, ...] = ()
    """Additional columns of the documents."""

    @property
    def masks(self) -> bool:
        """Whether a field depends on which tokens have a loss."""
        return any(f in self.fields for f in _OF_MASKS)

    @classmethod
    def checked(
        cls,
        fields: Sequence[str] | None,
        dtype: torch.dtype,
        labels: str,
        capacity: int | str | None,
        columns: Sequence[str] = (),
    ) -> BatchFormat:
        """Returns the format for a caller's arguments.

        Raises:
            ValueError: If an argument is invalid.
        """
        everything = FIELDS + SOURCE_FIELDS + OPTIONAL_FIELDS
        check_content(everything, fields or (), labels, columns)
        if dtype not in (torch.int64, torch.int32):
            raise ValueError(f"dtype {dtype}: want torch.int64 or torch.int32")
        if (isinstance(capacity, str) and capacity != "auto") or (isinstance(capacity, int) and capacity < 2):
            raise ValueError(f'cu_seqlens_capacity {capacity!r}: want a number of values (2 or more), "auto" or None')
        chosen = FIELDS + SOURCE_FIELDS if fields is None else tuple(f for f in everything if f in fields)
        sources = None if fields is None else any(f in fields for f in SOURCE_FIELDS)
        return cls(chosen, dtype, labels, capacity, sources, "loss_weights" in chosen, tuple(columns))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a step's concatenated rows, where every row's padding is one more segment."""

    bounds: _Ints
    """0, then the end of every segment [k+1]; the last is rows * L, and no segment crosses a row's end."""
    numbers: _Ints
    """1, 2, ... within each row, 0 for padding [k]."""

    @property
    def lengths(self) -> _Ints:
        """The length of every segment in tokens [k]."""
        return np.diff(self.bounds)


def segments_of(step: Step) -> Segments:
    """Returns the segments of a step.

    A row's `cu_seqlens` are 0 and the ends of its segments; the last value is where its padding begins.
    """
    total = step.rows * step.bucket
    if total > np.iinfo(np.int32).max:
        raise ValueError(
            f"step {step.index} has {total} tokens for one rank, more than int32 can count: use more ranks"
        )
    bounds, numbers, first = [], [], 0
    for part in step.parts:
        offsets = part.offsets - part.offsets[0]
        counts = np.diff(offsets)
        rows = np.repeat(np.arange(first, first + len(counts), dtype=np.int32), counts)
        number = np.arange(1, len(part.ends) + 1, dtype=np.int32) - np.repeat(offsets[:-1], counts)
        number[offsets[1:] - 1] = 0
        inside = part.ends < step.bucket  # a full row ends where the next one begins
        bounds.append((part.ends + rows * np.int32(step.bucket))[inside])
        numbers.append(number[inside])
        first += len(counts)
    return Segments(np.concatenate([*bounds, np.array([total], np.int32)]), np.concatenate(numbers))


def make_batch(step: Step, form: BatchFormat, buffers: Buffers) -> dict[str, Any]:
    """Builds the batch of a step.

    Every token is copied once from the Arrow buffer into each field that holds it.
    """
    batch: dict[str, Any] = {}
    if not _OF_SEGMENTS.isdisjoint(form.fields):
        segments = segments_of(step)
        lengths = segments.lengths
        mask = step.loss_mask().reshape(-1) if step.masked and form.masks else None
    for field in form.fields:
        if field == "cu_seqlens":
            batch[field] = buffers.hold(_with_capacity(segments.bounds, form.capacity, step))
        elif field == "max_seqlen":
            batch[field] = int(lengths.max())
        elif field == "num_loss_tokens":
            firsts = segments.bounds[:-1][segments.numbers > 0]
            batch[field] = step.loss_tokens - (len(firsts) if mask is None else int(mask[firsts].sum()))
        elif field == "num_loss_tokens_global":
            batch[field] = step.step_loss_tokens - step.step_loss_segments
        elif field == "loss_weights":
            batch[field] = tensor = buffers.take(step.rows, step.bucket, torch.float32)
            weights = step.loss_weights()
            if form.labels == "shifted":
                np.copyto(tensor.numpy()[:, :-1], weights[:, 1:])
                tensor.numpy()[:, -1] = 0
            else:
                np.copyto(tensor.numpy(), weights)
        elif field in SOURCE_FIELDS:
            if step.sources is None or step.sources.number is None:  # the run has none
                continue
            if field == "num_sources":
                batch[field] = step.step_sources
                continue
            batch[field] = tensor = buffers.take(step.rows, step.bucket, torch.int32)
            np.copyto(tensor.numpy(), step.source_ids())
        else:
            dtype = torch.int32 if field == "segment_ids" else form.dtype
            batch[field] = tensor = buffers.take(step.rows, step.bucket, dtype)
            flat = tensor.numpy().reshape(-1)
            if field == "input_ids":
                _fill_ids(flat, step)
            elif field == "labels":
                _fill_labels(flat, step, segments, mask, shifted=form.labels == "shifted")
            elif field == "position_ids":
                positions = np.repeat(segments.bounds[:-1], lengths)
                np.copyto(flat, np.subtract(_ramp(len(flat)), positions, out=positions))
            else:
                np.copyto(flat, np.repeat(segments.numbers, lengths))
    for name in form.columns:
        batch[name] = _column(step, name, buffers)
    return batch


def _column(step: Step, name: str, buffers: Buffers) -> torch.Tensor | list[list[Any]]:
    """Returns an additional column: a tensor of values per token, or lists of values per piece."""
    if name in step.parts[0].values:
        return step.values(name)
    found = [p.columns[name] for p in step.parts]
    tensor = buffers.take(step.rows, step.bucket, KINDS[found[0].dtype])
    np.concatenate(found, out=tensor.numpy())
    return tensor


def _fill_ids(flat: npt.NDArray[Any], step: Step) -> None:
    at = 0
    for part in step.parts:
        ids = part.input_ids.reshape(-1)
        np.copyto(flat[at : at + len(ids)], ids)
        at += len(ids)


def _fill_labels(
    flat: npt.NDArray[Any], step: Step, segments: Segments, mask: npt.NDArray[np.bool_] | None, *, shifted: bool
) -> None:
    """Fills labels.

    In both forms one token of every segment has no loss, because the first token has no predecessor to be predicted
    from. The tokens that `mask` excludes have none either.
    """
    at = 0
    for part in step.parts:
        ids = part.input_ids.reshape(-1)
        end = at + len(ids)
        if shifted:
            np.copyto(flat[at : end - 1], ids[1:])
        else:
            np.copyto(flat[at:end], ids)
        at = end
    flat[segments.bounds[1:] - 1 if shifted else segments.bounds[:-1]] = IGNORED
    if mask is not None and shifted:
        flat[:-1][~mask[1:]] = IGNORED
    elif mask is not None:
        flat[~mask] = IGNORED
    for i in np.flatnonzero(segments.numbers == 0):
        flat[segments.bounds[i] : segments.bounds[i + 1]] = IGNORED


def _with_capacity(bounds: _Ints, capacity: int | Literal["auto"] | None, step: Step) -> _Ints:
    """Returns `bounds` padded by repetition of its last value, which adds empty segments."""
    if capacity is None:
        return bounds
    if capacity == "auto":
        capacity = max(_SMALLEST_CAPACITY, 1 << (len(bounds) - 1).bit_length())
    if len(bounds) > capacity:
        raise ValueError(
            f"step {step.index} has {len(bounds)} cu_seqlens (bucket {step.bucket}, {step.rows} rows), "
            f'cu_seqlens_capacity is {capacity}: increase it, or set it to "auto"'
        )
    return np.concatenate([bounds, np.full(capacity - len(bounds), bounds[-1], np.int32)])


@lru_cache(maxsize=16)
def _ramp(n: int) -> _Ints:
    """Returns 0, 1, ... n-1."""
    ramp = np.arange(n, dtype=np.int32)
    ramp.flags.writeable = False
    return ramp
