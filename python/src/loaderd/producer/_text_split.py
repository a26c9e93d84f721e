"""Splits a text into separately tokenized parts that give the same tokens as the whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from loaderd.producer._errors import InvalidDocumentError
from loaderd.producer._loss import Part


@dataclass(frozen=True)
class Tokenized:
    """A text and its tokens."""

    text: str
    ids: Sequence[int]
    offsets: Sequence[tuple[int, int]]
    """The characters [begin, end) of each token, without white space at its ends if the tokenizer excludes it."""
    loss: Sequence[bool]
    """Whether each token has a loss."""


def split(whole: Tokenized, encode: Callable[[str, bool], Sequence[int]]) -> list[Part]:
    """Returns the parts of a text, whose texts concatenate to the text.

    The ids of each part are those that the text has there. Each part is one run of tokens with or without a loss.

    Args:
        whole: The text with its tokens.
        encode: Returns the ids of a part. Its second argument is whether the text begins with the part.

    Raises:
        InvalidDocumentError: If no such cut exists: a token holds characters of both sides, or `encode` returns other
            ids for a part than for the same characters within the text.
    """
    n = len(whole.ids)
    bounds = [0, *(i for i in range(1, n) if whole.loss[i] != whole.loss[i - 1]), n]
    ways: dict[int, list[int]] = {0: [0]}  # cut position to the cuts that lead to it
    for first, end in itertools.pairwise(bounds):
        # White space between two tokens belongs to one of them, usually to the second.
        places: Iterable[int] = (
            [len(whole.text)] if end == n else dict.fromkeys((whole.offsets[end - 1][1], whole.offsets[end][0]))
        )
        ids = list(whole.ids[first:end])
        longer: dict[int, list[int]] = {}
        for begin, cuts in ways.items():
            for place in places:
                if place not in longer and begin <= place and list(encode(whole.text[begin:place], begin == 0)) == ids:
                    longer[place] = [*cuts, place]
        if not longer:
            raise _no_split(whole, first, end)
        ways = longer
    [cuts] = ways.values()
    return [
        {"text": whole.text[a:b], "loss": bool(n and whole.loss[first])}
        for a, b, first in zip(cuts, cuts[1:], bounds, strict=False)
    ]


def _no_split(whole: Tokenized, first: int, end: int) -> InvalidDocumentError:
    at, to = whole.offsets[first][0], whole.offsets[end - 1][1]
    shown = whole.text[at:to] if to - at <= 60 else f"{whole.text[at : at + 30]}...{whole.text[to - 30 : to]}"
    return InvalidDocumentError(
        f"its parts do not produce the tokens of the chat: {shown!r}, characters {at:,} to {to:,}, tokenizes "
        "differently on its own (the tokenizer"
        " adds a space before every text, or tokens share a character). Publish such chats as tokens: Chat(tokenizer, "
        "as_tokens=True)"
    )
