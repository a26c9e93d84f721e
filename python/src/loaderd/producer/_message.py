"""Encodes a producer's document as a message of the wire format (docs/reference/messages.md).

Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderd.producer._errors import InvalidDocumentError
from loaderd.producer._extra_columns import columns_of
from loaderd.producer._loss import LOSS, WEIGHT, loss_header, mask_of, parts_of, runs_of, runs_of_mask, weight_header
from loaderd.producer._trace import TRACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from loaderd.producer._chat import Chat

    Tokens = Sequence[int] | NDArray[np.integer[Any]]
    Document = str | bytes | bytearray | memoryview | Mapping[str, Any] | Tokens

JSON = "application/json"
TEXT = "text/plain"
TOKENS = "application/vnd.loaderd.tokens"

MESSAGE_ID = "Nats-Msg-Id"
FINGERPRINT = "Loaderd-Tokenizer"
INPUT = "Loaderd-Input"
META = "Loaderd-Meta"
PLACES = "Loaderd-Places"

_CONTENTS = ("text", "ids", "parts", "messages")
_OF_MESSAGES = ("tools", "chat_template_kwargs", "loss_from")
_OF_IDS = ("loss", "loss_runs", "columns")
_KEYS = frozenset((*_CONTENTS, *_OF_MESSAGES, *_OF_IDS, "weight", "id", "path", "domain", "meta"))
_CONTROLS = {i for i in range(32)} | {127}
HEADERS_MOST = (1 << 16) - 1
"""Maximum bytes of headers per message on the server."""
INVALID_SHARE = 100
"""Minimum bytes of a document's texts per byte that is not UTF-8, as in runs (internal/invalidutf8)."""
_BRACE = re.compile(rb"\s*{")
# A header's value cannot end its line.
_NEWLINES = str.maketrans("\r\n", "  ")
# Headers of an atomic batch and of its fence, which are added when the message is sent.
_BATCH_ROOM = 256


@dataclass(slots=True)  # frozen takes three times as long to create
class Message:
    """One document on the wire, or several that share a message; not changed once it exists."""

    payload: bytes
    headers: dict[str, str]
    position: int
    """Position in its input, from 0; of the last document if it has several."""
    size: int
    """Bytes that the server counts against its limits: payload and headers."""
    made: bool = False
    """Whether the id was derived from source, input, position and content."""
    columns: Mapping[str, NDArray[Any]] | None = None
    """Values per token of a document that is to share a message."""
    documents: int = 1
    places: int = 1
    """Positions of the input from the first document to the last: more than documents if some were rejected."""
    lines: bytes = b""
    """The headers on the wire; b"" if they were not encoded."""

    @property
    def head(self) -> int:
        """Bytes of the headers."""
        return self.size - len(self.payload)

    @property
    def first(self) -> int:
        """Position of the first document."""
        return self.position - self.places + 1

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.headers[MESSAGE_ID]

    @property
    def label(self) -> str:
        """The name of the message in errors."""
        if PLACES in self.headers:
            return f"{self.id!r} (documents {self.first:,} to {self.position:,})"
        path = self.headers.get("Loaderd-Path")
        return (
            f"{self.id!r} ({path}, document {self.position:,})" if path else f"{self.id!r} (document {self.position:,})"
        )


@dataclass(frozen=True)
class Encoder:
    """Encodes messages of one source.

    A document without an id gets one that depends on source, input, position and content. The same document at the same
    position therefore has the same id whenever it is sent.
    """

    source: str
    input: str = ""
    """Name of the input; part of the derived ids."""
    fingerprint: str | None = None
    """Of the tokenizer that made token documents."""
    place: bool = False
    """Whether messages contain their position in the input."""
    chat: Chat | None = None
    """Renders chats."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Types of the additional columns per token that documents may have."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """Types of the values of documents that share a message."""
    _seed: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        plain("name of the input", self.input)
        object.__setattr__(self, "_seed", hashlib.sha256(f"{self.source}\0{self.input}\0".encode()))

    def encode(self, document: Document, position: int, trace: str | None = None) -> Message:
        """Returns the message of a document.

        Args:
            document: The document.
            position: Its position in the input.
            trace: The trace that it is part of.

        Raises:
            InvalidDocumentError: If the document is invalid; the error names the position.
        """
        columns = None
        try:
            payload, headers = self._content(document)
            if isinstance(document, Mapping):
                columns = self._columns(document, len(payload) // 4)
        except InvalidDocumentError as error:
            named = document.get("id") if isinstance(document, Mapping) else None
            raise InvalidDocumentError(
                f"document {position:,}{'' if named is None else f' ({named!r})'}: {error}",
                facts={"position": str(position)},
            ) from error.__cause__
        made = MESSAGE_ID not in headers
        if made:
            headers[MESSAGE_ID] = self._id(position, payload, headers, columns)
        if trace is not None:
            headers[TRACE] = trace
        return self._message(payload, headers, position, made, columns=columns)

    def _columns(self, document: Mapping[str, Any], tokens: int) -> Mapping[str, NDArray[Any]] | None:
        given = document.get("columns")
        return None if given is None else columns_of(given, tokens, self.columns)

    def several(self, payload: bytes, headers: dict[str, str], documents: Sequence[Message]) -> Message:
        """Returns the message of several documents, each encoded as a separate message."""
        places = documents[-1].position - documents[0].position + 1
        headers |= {MESSAGE_ID: self.id_of(documents), PLACES: str(places)}
        if trace := next((m.headers[TRACE] for m in documents if TRACE in m.headers), None):
            headers[TRACE] = trace
        return self._message(payload, headers, documents[-1].position, True, documents=len(documents), places=places)

    def id_of(self, documents: Sequence[Message]) -> str:
        """Returns the id of the message of several documents, which is derived from their ids."""
        digest = self._seed.copy()
        for document in documents:
            digest.update(f"{document.id}\0".encode())
        return str(digest.hexdigest()[:32])

    def _message(
        self,
        payload: bytes,
        headers: dict[str, str],
        position: int,
        made: bool,
        *,
        columns: Mapping[str, NDArray[Any]] | None = None,
        documents: int = 1,
        places: int = 1,
    ) -> Message:
        if self.place:
            headers[INPUT] = f"{position} {self.input}"
        lines = header_lines(headers)
        size = len(payload) + _BATCH_ROOM + len(lines)
        return Message(payload, headers, position, size, made, columns, documents, places, lines)

    def _id(
        self, position: int, payload: bytes, headers: Mapping[str, str], columns: Mapping[str, NDArray[Any]] | None
    ) -> str:
        digest = self._seed.copy()
        digest.update(b"%d\0" % position)
        digest.update(payload)
        for name in (LOSS, WEIGHT, META) if headers else ():
            if name in headers:
                digest.update(f"\0{name}\0{headers[name]}".encode())
        for name, values in (columns or {}).items():
            digest.update(f"\0{name}\0".encode() + values.tobytes())
        return str(digest.hexdigest()[:32])

    def _content(self, document: Document) -> tuple[bytes, dict[str, str]]:
        if isinstance(document, str):
            return checked_utf8(document), {}
        if isinstance(document, (bytes, bytearray, memoryview)):
            return checked_utf8(bytes(document)), {}
        if isinstance(document, Mapping):
            return self._fields(document)
        return self._tokens(document)

    def _fields(self, document: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
        given = {k: v for k, v in document.items() if v is not None}
        if unknown := given.keys() - _KEYS:
            raise InvalidDocumentError(
                f"unknown keys {sorted(map(str, unknown))}: a document has text, ids, parts or messages, and id, path, "
                "domain, weight, meta, columns"
                " (loaderd.documents converts a dataset's rows)"
            )
        contents = [key for key in _CONTENTS if key in given]
        if len(contents) != 1:
            raise InvalidDocumentError(
                f"it has {'both ' + ' and '.join(contents) if contents else 'no content'}: want one of text, ids, "
                "parts and messages"
            )
        for of, keys in (("messages", _OF_MESSAGES), ("ids", _OF_IDS)):
            if wrong := [] if of in given else [key for key in keys if key in given]:
                raise InvalidDocumentError(
                    f"{wrong[0]} requires {of}{'; for a text, give parts' if wrong[0].startswith('loss') else ''}"
                )
        headers: dict[str, str] = {}
        for key, header in (("id", MESSAGE_ID), ("path", "Loaderd-Path"), ("domain", "Loaderd-Domain")):
            if key in given:
                headers[header] = plain(key, given[key])
        if "weight" in given and (weight := weight_header(given["weight"])) is not None:
            headers[WEIGHT] = weight
        payload, more = self._contents(given, given.get("meta"))
        return payload, headers | more

    def _contents(self, given: Mapping[str, Any], meta: object) -> tuple[bytes, dict[str, str]]:
        fingerprint = None
        if "messages" in given:
            if self.chat is None:
                raise InvalidDocumentError(
                    "messages require chat=, the tokenizer whose chat template renders them (loaderd.Chat)"
                )
            given = self.chat._document(
                given["messages"], given.get("tools"), given.get("chat_template_kwargs"), given.get("loss_from", 0)
            )
            if "parts" in given:  # valid, and of encodable texts
                return _json({"parts": given["parts"]}, meta)
            fingerprint = self.chat.fingerprint
        if "ids" in given:
            payload, headers = self._tokens(given["ids"], given.get("loss"), given.get("loss_runs"), fingerprint)
            if meta is not None:
                headers[META] = meta_header(meta)
            return payload, headers
        if "parts" in given:
            parts = parts_of(given["parts"])
            check_utf8(*(part["text"] for part in parts))
            return _json({"parts": parts}, meta)
        text = given["text"]
        if not isinstance(text, (str, bytes, bytearray, memoryview)):
            raise InvalidDocumentError(f"text is a {type(text).__name__}, want str or bytes")
        text = text if isinstance(text, str) else bytes(text)
        payload = checked_utf8(text)
        if meta is None:
            return payload, {"Content-Type": TEXT} if _BRACE.match(payload) else {}
        return _json({"text": text if isinstance(text, str) else text.decode("utf-8", "replace")}, meta)

    def _tokens(
        self, document: Any, loss: object = None, loss_runs: object = None, fingerprint: str | None = None
    ) -> tuple[bytes, dict[str, str]]:
        ids = token_ids(document)
        if not (fingerprint := fingerprint or self.fingerprint):
            raise InvalidDocumentError("token ids require tokenizer=, the tokenizer that made them or its fingerprint")
        headers = {"Content-Type": TOKENS, FINGERPRINT: fingerprint}
        if loss is not None and loss_runs is not None:
            raise InvalidDocumentError("it has both loss and loss_runs: want one of them")
        runs = [] if loss is None else runs_of_mask(mask_of(loss, len(ids)))
        if loss_runs is not None:
            runs = runs_of(loss_runs, len(ids))
        if (said := loss_header(runs)) is not None:
            headers[LOSS] = said
        return ids.tobytes(), headers


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Returns headers as lines of the protocol, each with its end of line."""
    lines = "".join([f"{name}: {value.strip()}\r\n" for name, value in headers.items()])
    if lines.count("\n") > len(headers) or lines.count("\r") > len(headers):
        lines = "".join([f"{name}: {value.strip().translate(_NEWLINES)}\r\n" for name, value in headers.items()])
    return lines.encode()


def _json(body: dict[str, Any], meta: object) -> tuple[bytes, dict[str, str]]:
    if meta is not None:
        body["meta"] = meta
    return utf8(_dumped(body, ascii_only=False)), {"Content-Type": JSON}


def meta_header(meta: object) -> str:
    """Returns meta as a header in ASCII.

    Raises:
        InvalidDocumentError: If meta is not a dict, or not JSON.
    """
    if not isinstance(meta, Mapping):
        raise InvalidDocumentError(f"meta is a {type(meta).__name__}, want a dict")
    return _dumped(meta, ascii_only=True)


def _dumped(body: object, *, ascii_only: bool) -> str:
    """Returns JSON on one line.

    Texts of a body are always JSON, so a failure is due to its meta.
    """
    try:
        return json.dumps(body, ensure_ascii=ascii_only, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidDocumentError(f"meta is not JSON: {error}") from None


def token_ids(document: Any) -> NDArray[np.int32]:
    """Returns token ids as little-endian int32 [n].

    Raises:
        InvalidDocumentError: If they are not a flat sequence of integers from 0 to 2^31-1.
    """
    if (
        not hasattr(document, "__array__")
        and not isinstance(document, (list, tuple))
        and not hasattr(document, "__array_interface__")
    ):
        raise InvalidDocumentError(
            f"a {type(document).__name__} is not a document: want str, bytes, a dict, or token ids"
        )
    try:
        ids = np.asarray(document)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InvalidDocumentError(f"token ids: {error}") from None
    if ids.ndim != 1:
        raise InvalidDocumentError(f"token ids have {ids.ndim} dimensions, want 1")
    if ids.size == 0:
        return np.zeros(0, "<i4")
    if ids.dtype.kind not in "iu":
        raise InvalidDocumentError(f"token ids are {ids.dtype}, want integers")
    if int(ids.min()) < 0 or int(ids.max()) > np.iinfo(np.int32).max:
        raise InvalidDocumentError(f"token ids from {ids.min()} to {ids.max()}, want 0 to {np.iinfo(np.int32).max}")
    return ids.astype("<i4", copy=False)


def utf8(text: str) -> bytes:
    """Returns UTF-8, with U+FFFD for each byte of an unpaired surrogate, as a decoder reads it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()


def checked_utf8(text: str | bytes) -> bytes:
    """Returns a text as `utf8` does, and bytes unchanged.

    Raises:
        InvalidDocumentError: As check_utf8.
    """
    try:  # the usual case, without a second copy
        if isinstance(text, str):
            return text.encode()
        if not text.isascii():
            text.decode()
        return text
    except UnicodeError:
        check_utf8(text)
    return utf8(text) if isinstance(text, str) else text


def check_utf8(*texts: str | bytes) -> None:
    """Checks that a document's texts are UTF-8, as a run does.

    Raises:
        InvalidDocumentError: If more than 1 byte in 100 is not UTF-8; an unpaired surrogate has three such bytes.
    """
    invalid = size = 0
    for text in texts:
        if text.isascii():
            size += len(text)
            continue
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        size += len(data)
        invalid += len(data) - len(data.decode("utf-8", "ignore").encode())
    if invalid * INVALID_SHARE > size:
        raise InvalidDocumentError(f"{invalid} of {size} bytes of text are not UTF-8, more than 1 in {INVALID_SHARE}")


def plain(what: str, value: object) -> str:
    """Returns a value that is valid in a header.

    Raises:
        InvalidDocumentError: If the value is not.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, np.integer)):
        raise InvalidDocumentError(f"{what} is a {type(value).__name__}, want str or int")
    text = str(value)
    if not text and what == "id":
        raise InvalidDocumentError("id is empty")
    if text != text.strip() or not _CONTROLS.isdisjoint(map(ord, text)):
        raise InvalidDocumentError(
            f"{what} {text!r} has control characters, or leading or trailing spaces, which a header cannot contain"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidDocumentError(f"{what} {text!r} is not valid Unicode text") from None
    return text
