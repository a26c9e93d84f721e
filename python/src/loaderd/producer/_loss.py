"""Validates a document's loss: parts of a text, tokens that have a loss, and weights (docs/reference/messages.md).

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from loaderd.producer._errors import InvalidDocumentError

LOSS = "Loaderd-Loss"
WEIGHT = "Loaderd-Weight"

_MOST = float(np.finfo(np.float32).max)
_LONGEST = np.iinfo(np.int32).max


class Part(TypedDict):
    """A part of a text, which is tokenized separately."""

    text: str
    loss: bool
    """Whether its tokens have a loss."""


def parts_of(value: object) -> list[Part]:
    """Returns parts: each {"text", "loss"}, where loss defaults to true, or (text, loss).

    Raises:
        InvalidDocumentError: If a part is invalid; the error names it.
    """
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(value, Iterable):
        raise InvalidDocumentError(
            f"parts is a {type(value).__name__}, want a list of {{'text', 'loss'}} or (text, loss)"
        )
    return [_part(part, place) for place, part in enumerate(value)]


def _part(part: object, place: int) -> Part:
    if isinstance(part, Mapping):
        if unknown := part.keys() - {"text", "loss"}:
            raise InvalidDocumentError(
                f"part {place} has unknown keys {sorted(map(str, unknown))}: a part has text and loss"
            )
        text, loss = part.get("text"), part.get("loss", True)
    elif isinstance(part, (tuple, list)) and len(part) == 2:
        text, loss = part
    else:
        raise InvalidDocumentError(f"part {place} is a {type(part).__name__}, want {{'text', 'loss'}} or (text, loss)")
    if not isinstance(text, str):
        raise InvalidDocumentError(f"part {place}: its text is a {type(text).__name__}, want str")
    if not isinstance(loss, (bool, np.bool_)):
        raise InvalidDocumentError(f"part {place}: its loss is {loss!r}, want True or False")
    return {"text": text, "loss": bool(loss)}


def mask_of(value: object, tokens: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns which of a document's tokens have a loss: bool [tokens].

    Args:
        value: Bools, or the integers 0 and 1 of other libraries' masks.
        tokens: The number of the document's tokens.

    Raises:
        InvalidDocumentError: If it has other values, or another length.
    """
    mask = _flat("loss", value, "a bool for each token")
    if mask.size == 0:
        mask = mask.astype(bool)
    if mask.dtype.kind in "iu" and ((mask == 0) | (mask == 1)).all():
        mask = mask.astype(bool)
    if mask.dtype.kind != "b":
        raise InvalidDocumentError(
            "loss has values other than True and False (1 and 0): give lengths of runs as loss_runs"
        )
    if len(mask) != tokens:
        raise InvalidDocumentError(
            f"loss has {len(mask):,} entries, the document has {tokens:,} tokens: want one for each token"
        )
    return mask


def runs_of(value: object, tokens: int) -> list[int]:
    """Returns lengths of the alternating runs of tokens with and without a loss, starting with a loss.

    Raises:
        InvalidDocumentError: If they do not add up to the document's tokens.
    """
    runs = _flat("loss_runs", value, "lengths of runs")
    if runs.size and runs.dtype.kind not in "iu":
        raise InvalidDocumentError(f"loss_runs are {runs.dtype}, want integers, the lengths of runs in tokens")
    if runs.size and (int(runs.min()) < 0 or int(runs.max()) > _LONGEST):
        raise InvalidDocumentError(
            f"loss_runs from {runs.min()} to {runs.max()}: want lengths in tokens, 0 to {_LONGEST}"
        )
    lengths = [int(n) for n in runs]
    if sum(lengths) != tokens:
        raise InvalidDocumentError(f"loss_runs add up to {sum(lengths):,}, the document has {tokens:,} tokens")
    return lengths


def _flat(what: str, value: object, want: str) -> np.ndarray[Any, np.dtype[Any]]:
    if isinstance(value, (str, bytes, Mapping)) or not (isinstance(value, Sequence) or hasattr(value, "__array__")):
        raise InvalidDocumentError(f"{what} is a {type(value).__name__}, want {want}")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InvalidDocumentError(f"{what}: {error}") from None
    if array.ndim != 1:
        raise InvalidDocumentError(f"{what} has {array.ndim} dimensions, want 1")
    return array


def runs_of_mask(mask: np.ndarray[Any, np.dtype[np.bool_]]) -> list[int]:
    """Returns lengths of the alternating runs of a mask, starting with a true one: only the first may be 0."""
    changes = np.flatnonzero(np.diff(mask)) + 1
    lengths = np.diff(np.concatenate(([0], changes, [len(mask)]))).tolist()
    return lengths if len(mask) == 0 or mask[0] else [0, *lengths]


def loss_header(runs: Sequence[int]) -> str | None:
    """Returns the header Loaderd-Loss of runs; None if every token has a loss, as without the header."""
    return ",".join(map(str, runs)) if any(runs[1::2]) else None


def weight_header(value: object) -> str | None:
    """Returns the header Loaderd-Weight; None for a weight of 1, as without the header.

    Raises:
        InvalidDocumentError: If the weight is negative, infinite or NaN.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidDocumentError(f"weight is a {type(value).__name__}, want a number")
    try:
        weight = float(value)
    except OverflowError:
        weight = math.inf
    if not 0 <= weight <= _MOST:
        raise InvalidDocumentError(f"weight is {value}: want a finite number, 0 or more")
    return None if weight == 1 else repr(weight)
