"""A document as a producer has it, turned into the message that goes over the wire (docs/producers.md). Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from loaderd.producer.errors import BadDocument
from loaderd.producer.trace import TRACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Tokens = Union[Sequence[int], NDArray[np.integer[Any]]]
    Document = Union[str, bytes, bytearray, memoryview, Mapping[str, Any], Tokens]

JSON = "application/json"
TOKENS = "application/vnd.loaderd.tokens"

MESSAGE_ID = "Nats-Msg-Id"
INPUT = "Loaderd-Input"

_KEYS = frozenset(("text", "ids", "id", "path", "domain", "meta"))
_CONTROLS = {i for i in range(32)} | {127}
# Headers of an atomic batch and of its fence, which are added when the message is sent.
_BATCH_ROOM = 256


@dataclass(frozen=True, slots=True)
class Message:
    """One document on the wire."""

    payload: bytes
    headers: dict[str, str]
    position: int
    """Place in its input, from 0."""
    size: int
    """Bytes that the server counts against its limits: payload and headers."""
    made: bool = False
    """Whether the id was made of source, input, place and content."""

    @property
    def id(self) -> str:
        return self.headers[MESSAGE_ID]

    @property
    def label(self) -> str:
        """How errors name it."""
        path = self.headers.get("Loaderd-Path")
        return f"{self.id!r} ({path}, document {self.position:,})" if path else f"{self.id!r} (document {self.position:,})"


@dataclass(frozen=True)
class Encoder:
    """Makes messages of one source.

    A document without an id of its own gets one that depends on source, input, position and content, so that the same document in
    the same place has the same id whenever it is sent.
    """

    source: str
    input: str = ""
    """Name of the input; part of the ids that are made."""
    fingerprint: str | None = None
    """Of the tokenizer that made token documents."""
    place: bool = False
    """Whether messages say which place of the input they hold."""
    _seed: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        plain("name of the input", self.input)
        object.__setattr__(self, "_seed", hashlib.sha256(f"{self.source}\0{self.input}\0".encode()))

    def encode(self, document: Document, position: int, trace: str | None = None) -> Message:
        """The message of a document, which may be part of a trace. Raises BadDocument, which names the position."""
        try:
            payload, headers = self._content(document)
        except BadDocument as error:
            raise BadDocument(f"document {position:,}: {error}", facts={"position": str(position)}) from None
        made = MESSAGE_ID not in headers
        if made:
            headers[MESSAGE_ID] = self._id(position, payload)
        if self.place:
            headers[INPUT] = f"{position} {self.input}"
        if trace is not None:
            headers[TRACE] = trace
        size = len(payload) + _BATCH_ROOM + sum(len(k) + len(v.encode()) + 4 for k, v in headers.items())
        return Message(payload, headers, position, size, made)

    def _id(self, position: int, payload: bytes) -> str:
        digest = self._seed.copy()
        digest.update(b"%d\0" % position)
        digest.update(payload)
        return str(digest.hexdigest()[:32])

    def _content(self, document: Document) -> tuple[bytes, dict[str, str]]:
        if isinstance(document, str):
            return utf8(document), {}
        if isinstance(document, (bytes, bytearray, memoryview)):
            return bytes(document), {}
        if isinstance(document, Mapping):
            return self._fields(document)
        return self._tokens(document)

    def _fields(self, document: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
        given = {k: v for k, v in document.items() if v is not None}
        if unknown := given.keys() - _KEYS:
            raise BadDocument(
                f"unknown keys {sorted(map(str, unknown))}: a document has text or ids, and id, path, domain, meta"
                " (loaderd.documents makes documents of a dataset's rows)"
            )
        text, ids, meta = given.get("text"), given.get("ids"), given.get("meta")
        if (text is None) == (ids is None):
            raise BadDocument(f"it has {'neither text nor' if text is None else 'both text and'} ids: want one of them")
        headers: dict[str, str] = {}
        for key, header in (("id", MESSAGE_ID), ("path", "Loaderd-Path"), ("domain", "Loaderd-Domain")):
            if key in given:
                headers[header] = plain(key, given[key])
        if ids is not None:
            if meta is not None:
                raise BadDocument("meta goes with text, not with ids")
            payload, more = self._tokens(ids)
            return payload, headers | more
        if not isinstance(text, (str, bytes, bytearray, memoryview)):
            raise BadDocument(f"text is a {type(text).__name__}, want str or bytes")
        if meta is None:
            return utf8(text) if isinstance(text, str) else bytes(text), headers
        body = {"text": text if isinstance(text, str) else bytes(text).decode("utf-8", "replace"), "meta": meta}
        try:
            return utf8(json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)), headers | {"Content-Type": JSON}
        except (TypeError, ValueError, RecursionError) as error:
            raise BadDocument(f"meta is no JSON: {error}") from None

    def _tokens(self, document: Any) -> tuple[bytes, dict[str, str]]:
        ids = token_ids(document)
        if not self.fingerprint:
            raise BadDocument("token ids need tokenizer=, the tokenizer that made them or its fingerprint")
        return ids.tobytes(), {"Content-Type": TOKENS, "Loaderd-Tokenizer": self.fingerprint}


def token_ids(document: Any) -> NDArray[np.int32]:
    """Token ids as little-endian int32 [n]. Raises BadDocument for what is no flat sequence of integers from 0 to 2^31-1."""
    if not hasattr(document, "__array__") and not isinstance(document, (list, tuple)) and not hasattr(document, "__array_interface__"):
        raise BadDocument(f"a {type(document).__name__} is no document: want str, bytes, a dict, or token ids")
    try:
        ids = np.asarray(document)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise BadDocument(f"token ids: {error}") from None
    if ids.ndim != 1:
        raise BadDocument(f"token ids have {ids.ndim} dimensions, want 1")
    if ids.size == 0:
        return np.zeros(0, "<i4")
    if ids.dtype.kind not in "iu":
        raise BadDocument(f"token ids are {ids.dtype}, want integers")
    if int(ids.min()) < 0 or int(ids.max()) > np.iinfo(np.int32).max:
        raise BadDocument(f"token ids from {ids.min()} to {ids.max()}, want 0 to {np.iinfo(np.int32).max}")
    return ids.astype("<i4", copy=False)


def utf8(text: str) -> bytes:
    """UTF-8. Half a surrogate pair stays as it is; the daemon reads U+FFFD for it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def plain(what: str, value: object) -> str:
    """A value that can stand in a header. Raises BadDocument for another."""
    if isinstance(value, bool) or not isinstance(value, (str, int, np.integer)):
        raise BadDocument(f"{what} is a {type(value).__name__}, want str or int")
    text = str(value)
    if not text and what == "id":
        raise BadDocument("id is empty")
    if text != text.strip() or not _CONTROLS.isdisjoint(map(ord, text)):
        raise BadDocument(f"{what} {text!r} has control characters, or blanks at an end, which a header cannot carry")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadDocument(f"{what} {text!r} is no Unicode text") from None
    return text
