"""Finds the characters of a rendered chat that the model generates, for templates without marks.

The chat is rendered turn by turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from loaderd.producer._errors import InvalidDocumentError

Render = Callable[[Sequence[Mapping[str, Any]], bool], str]
"""Renders messages, with or without the generation prompt at the end."""


def written(
    render: Render, messages: Sequence[Mapping[str, Any]], turns: Sequence[int], ending: Collection[str]
) -> tuple[str, list[tuple[int, int]]]:
    """Returns the rendered chat, and its characters [begin, end) that belong to turns, in order.

    A turn begins where the messages before it end when they are rendered with the generation prompt: the role's header
    before an answer belongs to the prompt. It ends where the messages up to it end when they are rendered alone. Its
    end-of-turn token belongs to it; white space after one of the `ending` tokens does not, because no model generates
    it.

    Args:
        render: Renders messages.
        messages: The chat.
        turns: Positions of the messages that are turns of the model, in order.
        ending: End-of-turn tokens.

    Raises:
        InvalidDocumentError: If a turn does not begin with the generation prompt, or is rendered differently once later
            messages follow.
    """
    whole = render(messages, False)
    spans = []
    for k in turns:
        if k == 0:
            raise InvalidDocumentError(
                "the chat begins with a turn that has a loss: without marks in the template, the start of the turn is "
                "unknown"
            )
        before = render(messages[:k], True)
        through = whole if k + 1 == len(messages) else render(messages[: k + 1], False)
        if not through.startswith(before):
            raise InvalidDocumentError(
                f"message {k} does not begin with the template's generation prompt, {before[-40:]!r}, so the part that "
                "the model wrote"
                " is unknown: use a template with {% generation %} marks (template=)"
            )
        if not whole.startswith(through):
            raise InvalidDocumentError(
                f"the template renders message {k} differently within the whole chat than as the last message (as "
                "templates do that omit the thinking"
                " of earlier turns), so the part that the model wrote is unknown: use a template with {% generation %} "
                "marks (template=), or"
                ' turns="last", which gives only the last turn a loss, and one document per turn: messages[: k + 1]'
            )
        frameless = through.rstrip()
        spans.append((len(before), max(len(before), len(frameless if frameless.endswith(tuple(ending)) else through))))
    return whole, spans
