"""Reads the serialized google.rpc.Status that the daemon sends with every error, without a protobuf library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

DOMAIN = "loaderd"
_ERROR_INFO = "google.rpc.ErrorInfo"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Status:
    """A gRPC status with its ErrorInfo.

    Attributes:
        code: The gRPC code.
        message: The message.
        reason: The reason of the ErrorInfo; empty without one of the domain `loaderd`.
        facts: The metadata of the ErrorInfo.
    """

    code: int = 0
    message: str = ""
    reason: str = ""
    facts: dict[str, str] = field(default_factory=dict)


def decode(data: bytes | None) -> Status | None:
    """Returns the status in data, or None when it is absent or malformed; it raises for no input."""
    if not data:
        return None
    try:
        return _status(data)
    except ValueError:
        return None


def _status(data: bytes) -> Status:
    code, message, reason = 0, "", ""
    facts: dict[str, str] = {}
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            code = value
        elif number == 2 and isinstance(value, bytes):
            message = _text(value)
        elif number == 3 and isinstance(value, bytes) and not reason:
            reason, facts = _detail(value)
    return Status(code, message, reason, facts)


def _detail(data: bytes) -> tuple[str, dict[str, str]]:
    """Returns reason and facts of a google.protobuf.Any that holds an ErrorInfo of the domain `loaderd`."""
    url, packed = "", b""
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            url = _text(value)
        elif number == 2 and isinstance(value, bytes):
            packed = value
    if url.rpartition("/")[2] != _ERROR_INFO:
        return "", {}
    reason, domain = "", ""
    facts: dict[str, str] = {}
    for number, value in _fields(packed):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            reason = _text(value)
        elif number == 2:
            domain = _text(value)
        elif number == 3:
            entry = {n: _text(v) for n, v in _fields(value) if isinstance(v, bytes)}
            facts[entry.get(1, "")] = entry.get(2, "")
    return (reason, facts) if domain == DOMAIN else ("", {})


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields number and value of every field of a message.

    Raises:
        ValueError: If it is malformed.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value: int | bytes
            value, at = _varint(data, at)
        else:
            if kind == _BYTES:
                size, at = _varint(data, at)
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise ValueError(f"invalid wire type {kind}")
            if size > len(data) - at:
                raise ValueError("truncated message")
            value = data[at : at + size]
            at += size
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("truncated message")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("varint too long")


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
