"""Documents of rows of token ids: columns of TRL, packed rows of TRL and Megatron-Bridge, documents of OLMo-core.

Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loaderd.producer import InvalidDocumentError

_MASKS = ("completion_mask", "assistant_masks", "labels_mask")
_IGNORED = -100


def token_documents(row: Mapping[str, Any], vocabulary: int | None) -> list[dict[str, Any]]:
    """Returns the documents of a row with `input_ids`.

    A token has a loss if all of `completion_mask`, `assistant_masks`, `labels_mask`, `loss_mask` and `labels` (other
    than -100) of the row give it one. Rows with `seq_start_id` are those of Megatron-Bridge, whose `loss_mask` belongs
    to the next token.

    Args:
        row: `input_ids`, optionally with masks, `attention_mask`, and the documents' starts (`seq_start_id`) or lengths
            (`seq_lengths`).
        vocabulary: The number of token ids.

    Raises:
        InvalidDocumentError: If the columns do not fit together.
    """
    ids = _column(row, "input_ids", None)
    if not len(ids):
        raise InvalidDocumentError("its input_ids are empty")
    if ids.min() < 0 or (vocabulary is not None and ids.max() >= vocabulary):
        raise InvalidDocumentError(
            f"its input_ids are from {ids.min()} to {ids.max()}, want 0 to {(vocabulary or 1 << 31) - 1}"
        )
    loss = np.ones(len(ids), bool)
    for name in _MASKS:
        if name in row:
            loss &= _flags(row, name, len(ids))
    if "labels" in row:
        labels = _column(row, "labels", len(ids))
        learnt = labels != _IGNORED
        if (labels[learnt] != ids[learnt]).any():
            raise InvalidDocumentError("its labels are neither its input_ids nor -100 (labels are not shifted)")
        loss &= learnt
    starts = _starts(row, len(ids))
    if "loss_mask" in row:
        mask = _flags(row, "loss_mask", len(ids))
        if "seq_start_id" in row:
            mask = np.concatenate(([False], mask[:-1]))
            mask[starts[:-1]] = False
        loss &= mask
    kept = _flags(row, "attention_mask", len(ids)) if "attention_mask" in row else np.ones(len(ids), bool)
    spans = [slice(a, b) for a, b in itertools.pairwise(starts)]
    found = [{"ids": ids[span][kept[span]].astype(np.int32), "loss": loss[span][kept[span]]} for span in spans]
    if not all(len(document["ids"]) for document in found):
        raise InvalidDocumentError("one of its documents has no tokens")
    return found


def _starts(row: Mapping[str, Any], tokens: int) -> Sequence[int]:
    """Returns the starts of the documents, and the number of tokens."""
    if "seq_start_id" in row:
        starts = _column(row, "seq_start_id", None).tolist()
        if not starts or starts[0] != 0 or any(a >= b for a, b in itertools.pairwise([*starts, tokens])):
            raise InvalidDocumentError("its seq_start_id are not increasing positions of input_ids, starting with 0")
        return [*starts, tokens]
    if "seq_lengths" in row:
        lengths = _column(row, "seq_lengths", None)
        if not len(lengths) or lengths.min() < 1 or lengths.sum() != tokens:
            raise InvalidDocumentError(f"its seq_lengths do not add up to its {tokens:,} input_ids")
        return [0, *np.cumsum(lengths).tolist()]
    return [0, tokens]


def _flags(row: Mapping[str, Any], name: str, tokens: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    values = _column(row, name, tokens)
    if not ((values == 0) | (values == 1)).all():
        raise InvalidDocumentError(f"its {name} has values other than 0 and 1")
    return values.astype(bool)


def _column(row: Mapping[str, Any], name: str, tokens: int | None) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns a column of integers: int64 [tokens]."""
    try:
        values = np.asarray(row[name])
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidDocumentError(f"its {name}: {error}") from None
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iub"):
        raise InvalidDocumentError(f"its {name} is not an array of integers")
    if tokens is not None and len(values) != tokens:
        raise InvalidDocumentError(f"its {name} has {len(values):,} values, its input_ids have {tokens:,}")
    if values.size and values.dtype.kind == "u" and values.max() > np.iinfo(np.int64).max:
        raise InvalidDocumentError(f"its {name} has values above 2^63")
    return values.astype(np.int64)
