"""Finds the position of an input: which of its documents the stream has.

The messages of a named input contain their position and are stored in order, so that no other record could differ from
the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loaderd.producer._errors import PublishError
from loaderd.producer._message import INPUT, MESSAGE_ID, PLACES
from loaderd.producer._nats_session import Session


@dataclass(frozen=True)
class InputPosition:
    """How many documents of the beginning of an input are in the stream, and the id of the last message of them."""

    position: int = 0
    last_id: str = ""
    places: int = 1
    """How many of them that message covers."""
    gathered: bool = False
    """Whether that message holds several documents, or may."""


async def find_input_position(
    session: Session, stream: str, subject: str, name: str, first: int
) -> tuple[InputPosition, int]:
    """Returns the position of an input in its subject, and the sequence up to which the subject was read.

    A server of a cluster may not have later messages yet. It takes one request when the input is the last one that was
    published to its subject. Otherwise it reads the headers of the subject.

    Args:
        session: The connection.
        stream: The stream of the subject.
        subject: The subject.
        name: The name of the input.
        first: The oldest sequence of the stream.

    Raises:
        PublishError: If the stream has none of the input's documents, but may have released them.
    """
    newest, headers = await session.last(stream, subject)
    place = _input_position(headers, name)
    if place is None and newest:

        def look(_: int, headers: dict[str, str]) -> None:
            nonlocal place
            place = _input_position(headers, name) or place

        await session.headers(stream, subject, first, newest, look)
    if place is not None:
        return place, newest
    if first > 1:
        raise PublishError(
            f"cannot resume input {name!r}: stream {stream} has none of its documents, but starts at {first:,}, so "
            "they may have been"
            " released: set start= to the position to begin at (0 for an input that was never published)"
        )
    return InputPosition(), newest


def _input_position(headers: Mapping[str, str], name: str) -> InputPosition | None:
    position, _, input_name = headers.get(INPUT, "").partition(" ")
    if input_name != name or not position.isdecimal():
        return None
    gathered = headers.get(PLACES, "").isdecimal()
    return InputPosition(
        int(position) + 1, headers.get(MESSAGE_ID, ""), int(headers[PLACES]) if gathered else 1, gathered
    )
