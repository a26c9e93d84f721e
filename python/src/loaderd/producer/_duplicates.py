"""The log message on documents that are not stored because the stream has documents with their ids.

Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from loaderd.producer._message import INPUT, Message


@dataclass(frozen=True)
class Duplicate:
    """The first document that was not stored again."""

    message: Message
    sequence: int = 0
    """Of the document with that id in the stream; 0 for one of the same batch."""
    headers: Mapping[str, str] | None = None
    """Of that document; None when unknown."""
    meanwhile: bool = False
    """Whether that document was stored since publishing began."""

    @property
    def own(self) -> bool:
        """Whether the stream has the same document, at the same position of its input.

        Then publishing continues where it stopped.
        """
        if self.sequence == 0 or self.headers is None:
            return False
        place = self.message.headers.get(INPUT)
        return self.headers.get(INPUT) == place and (place is not None or self.message.made)

    @property
    def within(self) -> bool:
        """Whether that document is of the same input, as far as is known.

        For an input without a name only the time decides.
        """
        if self.sequence == 0 or self.headers is None:
            return self.sequence == 0 or self.meanwhile
        name = _input(self.message.headers)
        return _input(self.headers) == name and (name != "" or self.meanwhile)


def describe_duplicates(repeats: int, stored: int, first: Duplicate) -> tuple[int, str]:
    """Returns level and text of the log record on documents that were not stored and documents that were."""
    which = f"all {repeats:,} documents" if stored == 0 else f"{repeats:,} of {repeats + stored:,} documents"
    if first.own and stored:
        return logging.INFO, f"{which} were already in the stream: publishing resumed where it had stopped"
    if first.own:
        return (
            logging.WARNING,
            f"{which} were already in the stream: this input was published before and has no new documents",
        )
    if first.within:
        why, advice = "their ids occur more than once in this input", "give each document a unique id, or none"
    else:
        name = _input(first.headers)
        why = f"the stream has documents of these ids, published before{f' as input {name!r}' if name else ''}"
        advice = "if they are different documents, or to train on them again, give them new ids, or none"
    at = f", in the stream as document {first.sequence:,}" if first.sequence else ""
    return (
        logging.WARNING,
        f"{which} were not stored: {why}; the first is {first.message.label}{at}. {advice.capitalize()}",
    )


def _input(headers: Mapping[str, str] | None) -> str:
    return (headers or {}).get(INPUT, "").partition(" ")[2]
