"""Additional data of documents: columns with a value per token, and values of whole documents."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loaderd._arrow_views import array_view

KINDS: Mapping[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "bool": np.dtype(np.bool_),
}
"""Types of `documents.columns` in a run's configuration."""
_OF_TOKENS: Mapping[Any, np.dtype[Any]] = {pa.from_numpy_dtype(kind): kind for kind in KINDS.values()}
_OF_DOCUMENTS = (pa.int64(), pa.float64())


@dataclass(frozen=True, slots=True)
class DocumentValues:
    """Holds the document's value for every piece.

    Row i has `of_pieces[offsets[i]]` to `of_pieces[offsets[i+1] - 1]`.

    Attributes:
        offsets: int32 [rows + 1].
        of_pieces: An Arrow array of strings (a dictionary array), int64 or float64; null for a document without the
            value.
    """

    offsets: npt.NDArray[np.int32]
    of_pieces: pa.Array

    def rows(self) -> list[list[Any]]:
        """Returns a list per row with one str, int, float or None per piece."""
        values, offsets = self.of_pieces.to_pylist(), self.offsets.tolist()
        return [values[start:end] for start, end in itertools.pairwise(offsets)]


def token_column(values: pa.Array) -> npt.NDArray[Any] | None:
    """Returns a column of values per token as numpy.

    It is a view where its memory allows that, and None for an unsupported type.
    """
    kind = _OF_TOKENS.get(values.type)
    if kind is None or values.null_count:
        return None
    if kind == np.bool_ and len(values):  # Arrow packs eight booleans into a byte
        bits = np.unpackbits(np.frombuffer(values.buffers()[1], np.uint8), bitorder="little")
        return bits[values.offset : values.offset + len(values)].view(np.bool_)
    return array_view(values, kind)


def is_document_column(kind: pa.DataType) -> bool:
    """Reports whether a column of lists of this type has one value per piece."""
    return kind in _OF_DOCUMENTS or pa.types.is_dictionary(kind)


def mock_columns(
    configuration: Mapping[str, Any], names: Iterable[str], rows: int, bucket: int
) -> tuple[dict[str, Any], dict[str, DocumentValues]]:
    """Returns columns of a synthetic step whose rows have one piece each, for the names that the run has."""
    documents = configuration.get("documents") or {}
    types, meta = documents.get("columns") or {}, documents.get("meta") or {}
    columns = {n: np.full((rows, bucket), types[n]["fill"], KINDS[types[n]["type"]]) for n in names if n in types}
    offsets = np.arange(rows + 1, dtype=np.int32)
    return columns, {n: DocumentValues(offsets, pa.nulls(rows, pa.string())) for n in names if n in meta}
