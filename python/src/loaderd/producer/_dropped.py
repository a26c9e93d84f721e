"""Finds texts of a chat that a template omits: contents, reasoning, tool calls and tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REASONING = ("reasoning_content", "reasoning", "thinking")
"""Keys of a message's reasoning, in order of precedence."""
_TAGS = re.compile(r"</?(?:think|thinking|reasoning)>|\n")


@dataclass(frozen=True, slots=True)
class Dropped:
    """A text that the rendered chat does not contain."""

    message: int | None
    """The position of its message; None for a tool."""
    kind: str
    """"content", "reasoning", "tool call" or "tool"."""
    text: str

    def __str__(self) -> str:
        where = "a tool" if self.message is None else f"{self.kind} of message {self.message}"
        return f"{where}: {self.text if len(self.text) <= 60 else self.text[:57] + '...'!r}"


OnDropped = Callable[[Sequence[Dropped]], None]


def dropped(rendered: str, messages: Sequence[Mapping[str, Any]], tools: object) -> list[Dropped]:
    """Returns the texts of a chat that its rendered text does not contain, or less often than the chat.

    White space around texts and lines is ignored. A text is searched after the one before it, then anywhere, where it
    must be found as often as the texts of the chat contain it.

    Args:
        rendered: The rendered chat.
        messages: The chat.
        tools: Its tools.
    """
    at, missing = 0, []
    texts = list(_texts(messages, tools))
    for found in texts:
        begin = rendered.find(found.text, at) if found.message is not None else rendered.find(found.text)
        if begin < 0:
            missing.append(found)
        elif found.message is not None:
            at = begin + len(found.text)
    if not missing:
        return []
    given = [found.text for found in texts]
    return [found for found in missing if not _contains(rendered, found.text, given)]


def _contains(rendered: str, text: str, given: Sequence[str]) -> bool:
    """Reports whether a text, or each of its lines outside tags of reasoning, is rendered as often as it is given."""
    if rendered.count(text) >= _count(text, given):
        return True
    lines = filter(None, (line.strip() for line in _TAGS.split(text)))
    return all(_rendered(line, rendered) >= _count(line, given) for line in lines)


def _count(text: str, given: Sequence[str]) -> int:
    return sum(other.count(text) for other in given)


def _rendered(text: str, rendered: str) -> int:
    """Counts a text, also as a part of JSON."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return rendered.count(text) + (rendered.count(escaped) if escaped != text else 0)


def _texts(messages: Sequence[Mapping[str, Any]], tools: object) -> Iterator[Dropped]:
    for tool in tools if isinstance(tools, (list, tuple)) else ():
        if isinstance(tool, Mapping) and (name := _function(tool).get("name")):
            yield Dropped(None, "tool", str(name))
    for k, message in enumerate(messages):
        reasoning = next((message[key] for key in REASONING if message.get(key)), None)
        for kind, value in (("reasoning", reasoning), ("content", message.get("content"))):
            for text in _strings_of(value):
                if text := text.strip():
                    yield Dropped(k, kind, text)
        calls = message.get("tool_calls") or ()
        for call in (*(calls if isinstance(calls, (list, tuple)) else ()), message.get("function_call")):
            if isinstance(call, Mapping):
                yield from (Dropped(k, "tool call", text) for text in _call(_function(call)) if text.strip())


def _function(value: Mapping[str, Any]) -> Mapping[str, Any]:
    found = value.get("function")
    return found if isinstance(found, Mapping) else value


def _strings_of(content: object) -> Iterator[str]:
    """Yields a content, or the texts of a content in parts."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, (list, tuple)):
        for part in content:
            if isinstance(part, str):
                yield part
            elif isinstance(part, Mapping):
                yield str(part.get("text") or f"<{part.get('type')}>")


def _call(call: Mapping[str, Any]) -> Iterator[str]:
    """Yields the name of a call and the values of its arguments."""
    if name := call.get("name"):
        yield str(name)
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            pass
    yield from _leaves(arguments)


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield json.dumps(value)
