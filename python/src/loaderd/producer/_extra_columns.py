"""Additional values of documents that share a message (docs/reference/messages.md). Pure.

They are values per token, and values of the document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderd._extra_columns import KINDS
from loaderd.producer._errors import InvalidDocumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOKEN_TYPES = tuple(KINDS)
VALUE_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "int64": (int,), "float64": (int, float)}
TEXT_MOST = 1024
"""Maximum bytes of a text in meta, as the daemon accepts it."""
_OWN = frozenset(("ids", "id", "loss", "weight"))


def check_types(what: str, types: object, known: tuple[str, ...]) -> dict[str, str]:
    """Returns types of columns by name.

    Args:
        what: The name of the option in errors.
        types: The option's value.
        known: The types that it may have.

    Raises:
        ValueError: If `types` is not a dict of these types, or has a reserved name.
    """
    if not isinstance(types, Mapping):
        raise ValueError(f"{what}={types!r}: want a dict of types by name, as in the run's documents.{what}")
    for name, kind in types.items():
        if kind not in known or name in _OWN:
            raise ValueError(
                f"{what}: {name!r} is {kind!r}: want one of {', '.join(known)}, and a name other than "
                f"{', '.join(sorted(_OWN))}"
            )
    return dict(types)


def columns_of(given: object, tokens: int, types: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Returns a document's values per token, by column: [tokens] each.

    Raises:
        InvalidDocumentError: If a column is not declared, or its values have another shape or type.
    """
    if not isinstance(given, Mapping):
        raise InvalidDocumentError(f"columns is a {type(given).__name__}, want a dict of values by name")
    if unknown := given.keys() - types.keys():
        raise InvalidDocumentError(
            f"columns {sorted(map(str, unknown))}: declare them with their types where the document is published, "
            f"columns={{name: type}}"
        )
    return {
        name: _column(name, values, tokens, types[name]) for name, values in sorted(given.items()) if values is not None
    }


def _column(name: str, values: Any, tokens: int, kind: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InvalidDocumentError(f"column {name}: {error}") from None
    if array.ndim != 1 or len(array) != tokens:
        raise InvalidDocumentError(
            f"column {name} has the shape {list(array.shape)}, want one value for each of the document's {tokens:,} "
            "tokens"
        )
    wanted = np.dtype(kind)
    if array.dtype.kind not in {"f": "fiu", "i": "iu", "b": "b"}[wanted.kind] and array.size:
        raise InvalidDocumentError(f"column {name} has type {array.dtype}, want {kind}")
    if (
        wanted.kind == "i"
        and array.size
        and not np.iinfo(wanted).min <= array.min() <= array.max() <= np.iinfo(wanted).max
    ):
        raise InvalidDocumentError(
            f"column {name} has values from {array.min()} to {array.max()}, outside the range of {kind}"
        )
    if (
        wanted.kind == "f"
        and array.size
        and (np.isfinite(array) & (np.abs(array, dtype=float) > np.finfo(wanted).max)).any()
    ):
        raise InvalidDocumentError(
            f"column {name} has finite values of up to {np.abs(array).max()}, outside the range of {kind}"
        )
    return array.astype(wanted)


def values_of(text: str, types: Mapping[str, str]) -> dict[str, Any]:
    """Returns a document's meta from its JSON.

    Raises:
        InvalidDocumentError: If a key has no type, or its value another type.
    """
    values: dict[str, Any] = {name: value for name, value in json.loads(text).items() if value is not None}
    for name, value in values.items():
        if name not in types:
            raise InvalidDocumentError(
                f"meta {name!r}: declare it with its type where the document is published, meta={{name: type}}, or "
                "publish it without gather"
            )
        if isinstance(value, bool) or not isinstance(value, VALUE_TYPES[types[name]]):
            raise InvalidDocumentError(f"meta {name!r} is {value!r}, want {types[name]}")
        if isinstance(value, int) and types[name] == "int64" and not -(2**63) <= value < 2**63:
            raise InvalidDocumentError(f"meta {name!r} is {value}, outside the range of int64")
        if isinstance(value, str):
            _check_text(name, value)
        elif types[name] == "float64":
            values[name] = _number(name, value)
    return values


def _check_text(name: str, text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidDocumentError(f"meta {name!r} is {text!r}, which is not valid Unicode text") from None
    if size > TEXT_MOST:
        raise InvalidDocumentError(
            f"meta {name!r} has {size:,} bytes, more than the limit of {TEXT_MOST:,} for a value"
        )


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InvalidDocumentError(f"meta {name!r} is outside the range of float64") from None
