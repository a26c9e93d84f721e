"""Documents of token ids that share a message: record batches whose rows are documents (docs/reference/messages.md).

Pure.

The grouping follows from the input alone: a message ends when it has the maximum number of documents, or when the next
one would make it too large. So an input that is published again, or continued after a stored message, is grouped as
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from loaderd.producer._errors import InvalidDocumentError
from loaderd.producer._extra_columns import values_of
from loaderd.producer._loss import LOSS, WEIGHT
from loaderd.producer._message import FINGERPRINT, MESSAGE_ID, META, TOKENS, Encoder, Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

ARROW = "application/vnd.apache.arrow.stream"

MOST_BYTES = 1 << 20
"""Maximum bytes of one message, unless a single document exceeds it."""
# Upper bound of the bytes of the format, excluding the documents.
_FRAME = 4096


@dataclass
class MessageBuffer:
    """Documents buffered for their message."""

    encoder: Encoder
    most: int
    """Maximum documents per message."""
    limit: int
    """Maximum bytes per message on the server."""
    _rows: list[Message] = field(default_factory=list)
    _bytes: int = _FRAME

    def add(self, document: Message) -> Message | None:
        """Adds a checked document, encoded as a separate message.

        Returns:
            The message that ends with it or before it, if any.
        """
        before = None
        if self._rows and self._bytes + cost(document) > min(MOST_BYTES, self.limit):
            before = self.rest()
        self._rows.append(document)
        self._bytes += cost(document)
        return self.rest() if len(self._rows) == self.most else before

    def rest(self) -> Message | None:
        """Returns the message of the buffered documents; None without any."""
        rows, self._rows, self._bytes = self._rows, [], _FRAME
        return gathered(self.encoder, rows) if rows else None


def check(encoder: Encoder, document: Message) -> None:
    """Checks that a document can share a message.

    Raises:
        InvalidDocumentError: If it cannot.
    """
    if document.headers.get("Content-Type") != TOKENS:
        raise InvalidDocumentError(
            f"document {document.position:,}: gather combines token ids, but the document is text: tokenize it"
            " (loaderd.documents(rows, tokenizer=...), loaderd.Chat(tokenizer, as_tokens=True)), or publish it without "
            "gather"
        )
    if META in document.headers:
        try:
            values_of(document.headers[META], encoder.meta)
        except InvalidDocumentError as error:
            raise InvalidDocumentError(f"document {document.position:,}: {error}") from None
    for key in ("path", "domain"):
        if f"Loaderd-{key.title()}" in document.headers:
            raise InvalidDocumentError(
                f"document {document.position:,}: {key} requires a message with one document: omit it, or publish "
                "without gather"
            )


def cost(document: Message) -> int:
    """Returns an upper bound of a document's bytes, and no less than as a separate message.

    It includes extra bits per token, and the document's entries in the columns.
    """
    more = sum(values.nbytes + 16 for values in (document.columns or {}).values())
    return document.size + len(document.payload) // 32 + 64 + more


def size_alone(document: Message) -> int:
    """Returns an upper bound of the bytes of a shared message with only this document."""
    return cost(document) + _FRAME


def gathered(encoder: Encoder, rows: Sequence[Message]) -> Message:
    """Returns the message of several documents."""
    payload = record_batch(rows, encoder)
    headers = {"Content-Type": ARROW, FINGERPRINT: rows[0].headers[FINGERPRINT]}
    return encoder.several(payload, headers, rows)


def record_batch(rows: Sequence[Message], types: Encoder) -> bytes:
    """Returns an Arrow IPC stream of one batch.

    Columns that no document needs are omitted.
    """
    lengths = [len(m.payload) // 4 for m in rows]
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    ids = np.frombuffer(b"".join(m.payload for m in rows), "<i4")
    columns = {"ids": pa.ListArray.from_arrays(offsets, pa.array(ids, pa.int32()))}
    if not all(m.made for m in rows):
        columns["id"] = pa.array([None if m.made else m.headers[MESSAGE_ID] for m in rows], pa.string())
    if any(LOSS in m.headers for m in rows):
        columns["loss"] = pa.array([_mask(m) for m in rows], pa.list_(pa.bool_()))
    if any(WEIGHT in m.headers for m in rows):
        columns["weight"] = pa.array([float(m.headers.get(WEIGHT, "1")) for m in rows], pa.float64())
    for name in types.columns:
        if any(name in (m.columns or ()) for m in rows):
            columns[name] = _lists([(m.columns or {}).get(name) for m in rows], np.dtype(types.columns[name]))
    said = [values_of(m.headers[META], types.meta) if META in m.headers else {} for m in rows]
    for name, kind in types.meta.items():
        if any(name in values for values in said):
            columns[name] = pa.array([values.get(name) for values in said], getattr(pa, kind)())
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def _lists(rows: Sequence[NDArray[Any] | None], kind: np.dtype[Any]) -> pa.ListArray:
    """Returns a list per document; null for one without values."""
    values = np.concatenate([np.zeros(0, kind), *(r for r in rows if r is not None)])
    ends = np.cumsum([0, *(0 if r is None else len(r) for r in rows)]).tolist()
    offsets = [None if r is None else begin for r, begin in zip(rows, ends, strict=False)]
    return pa.ListArray.from_arrays(pa.array([*offsets, ends[-1]], pa.int32()), pa.array(values))


def _mask(document: Message) -> np.ndarray | None:
    """Returns which tokens of a document have a loss; None if all do."""
    if (runs := document.headers.get(LOSS)) is None:
        return None
    lengths = [int(n) for n in runs.split(",")]
    return np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)
