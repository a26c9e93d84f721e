"""Renders chats with the template that transformers compiled, without its work per call.

transformers prepares a chat, its tools and all arguments for every text that it renders. Here a chat is prepared once.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_MARK = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_USED = ("_alias_reasoning_fields", "_compile_jinja_template", "_plain_template_data", "_render_with_assistant_indices")
"""Functions of transformers that prepare and render a chat; versions without one of them render as `_Rendered`."""

Messages = Sequence[Mapping[str, Any]]
Marks = list[tuple[int, int]]


@dataclass(frozen=True)
class _Rendered:
    """A chat that render_jinja_template of transformers renders. Its methods are those of `_Direct`."""

    template: str
    messages: Messages
    tools: Any
    names: Mapping[str, Any]

    def text(self, messages: Messages, prompt: bool) -> str:
        return str(self._render(messages, add_generation_prompt=prompt)[0][0])

    def marked(self) -> tuple[str, Marks]:
        [text], [marks] = self._render(self.messages, return_assistant_tokens_mask=True)
        return text, marks

    def _render(self, messages: Messages, **options: Any) -> Any:
        from transformers.utils.chat_template_utils import render_jinja_template

        given: Any = [messages]
        return render_jinja_template(given, chat_template=self.template, tools=self.tools, **options, **self.names)


@dataclass(frozen=True)
class _Direct:
    """A chat that the compiled template renders."""

    library: Any
    compiled: Any
    messages: Messages
    names: Mapping[str, Any]

    def text(self, messages: Messages, prompt: bool) -> str:
        """Renders some of the messages, with or without the generation prompt at the end."""
        return str(self.compiled.render(messages=messages, add_generation_prompt=prompt, **self.names))

    def marked(self) -> tuple[str, Marks]:
        """Renders all messages, and returns the characters [begin, end) between marks."""
        text, marks = self.library._render_with_assistant_indices(
            self.compiled, messages=self.messages, add_generation_prompt=False, **self.names
        )
        return text, marks


PreparedChat = _Direct | _Rendered


class ChatTemplate:
    """A chat template.

    Attributes:
        source: The template.
        marks: Whether it marks the text of assistants.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.marks = _MARK.search(_COMMENT.sub("", source)) is not None
        self._library = _library()
        self._direct = all(hasattr(self._library, name) for name in _USED)
        self._equal: set[Hashable] = set()  # keys of chats that both ways render equally

    def prepare(self, messages: Messages, tools: Any, names: Mapping[str, Any]) -> PreparedChat:
        """Returns a chat that is rendered as by apply_chat_template, which omits keys without a value.

        The first chat with each set of keys is rendered in both ways. If the texts differ, or only this way fails, this
        template is rendered by render_jinja_template from then on.

        Args:
            messages: The chat.
            tools: The tools that the template offers.
            names: Additional names of the template: special tokens and arguments.
        """
        given = [{key: value for key, value in message.items() if value is not None} for message in messages]
        slow = _Rendered(self.source, given, tools, names)
        usual = "documents" not in names and (tools is None or all(isinstance(tool, dict) for tool in tools))
        if not self._direct or not usual:
            return slow
        keys = (frozenset().union(*given), tools is None, frozenset(names))
        if keys not in self._equal:
            want = self._whole(slow)  # raises the errors of the template
            try:
                self._direct = self._whole(self._fast(given, tools, names)) == want
            except Exception:  # of another version of transformers
                self._direct = False
            if not self._direct:
                return slow
            self._equal.add(keys)
        return self._fast(given, tools, names)

    def _whole(self, chat: PreparedChat) -> Any:
        return chat.marked() if self.marks else chat.text(chat.messages, False)

    def _fast(self, given: list[dict[str, Any]], tools: Any, names: Mapping[str, Any]) -> _Direct:
        plain = self._library._plain_template_data
        return _Direct(
            self._library,
            self._library._compile_jinja_template(self.source),
            self._library._alias_reasoning_fields(given if all(map(_has_strings, given)) else plain(given)),
            {"tools": plain(tools), "documents": None, **(names if _has_strings(names) else plain(names))},
        )


def _has_strings(value: Mapping[Any, Any]) -> bool:
    """Reports whether all keys and values are strings, and of no subclass, as transformers would convert them."""
    return all(type(name) is str and type(inner) is str for name, inner in value.items())


def _library() -> Any:
    from transformers.utils import chat_template_utils

    return chat_template_utils


@lru_cache(maxsize=8)
def chat_template(source: str) -> ChatTemplate:
    """Returns a template, which is prepared once."""
    return ChatTemplate(source)
