"""Chats as documents: messages, rendered by the chat template of a Hugging Face tokenizer.

A document has parts with and without a loss.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from loaderd.producer._chat_template import chat_template
from loaderd.producer._chat_tokens import ChatTokenizer, Offsets
from loaderd.producer._chat_turns import written
from loaderd.producer._dropped import OnDropped, dropped
from loaderd.producer._errors import InvalidDocumentError
from loaderd.producer._loss import Part, runs_of_mask
from loaderd.producer._source import fingerprint_of
from loaderd.producer._text_split import Tokenized, split
from loaderd.producer._token_borders import token_borders

_OWN = frozenset(("documents", "kwargs"))
"""Parameters of apply_chat_template that a chat may set in addition to the template's own arguments."""


@dataclass(frozen=True, slots=True)
class RenderedChat:
    """A chat as text."""

    text: str
    spans: Sequence[tuple[int, int]]
    """The characters [begin, end) that have a loss."""
    marked: bool
    """Whether the template marks them."""
    parts: list[Part] | None
    """Parts whose tokens are those of the text; None if that is unknown without tokenizing it."""


class Chat:
    """Builds documents from chats, by the chat template of a fast tokenizer of transformers.

    A run with this tokenizer encodes a document as `tokenizer.apply_chat_template(messages, tokenize=True)` does,
    followed by the run's end-of-document token.

    Which tokens have a loss:

    - **Templates with marks**, `{% generation %}` ... `{% endgeneration %}`: those of
      `return_assistant_tokens_mask=True`, which are the tokens with at least one character between the marks. This
      holds also where a tokenizer's offsets exclude white space; there transformers loses the mask. `roles` is ignored.
    - **Other templates**: the turns of the messages whose role is one of `roles`. A turn is the part of the rendered
      chat between the end of `messages[:k]` rendered with the generation prompt and the end of `messages[:k + 1]`
      rendered without: the content, tool calls and the end-of-turn token. The header with the role's name has no loss.
      White space after an end-of-turn token that is one of the tokenizer's added tokens has none either, because no
      model generates it. Tokens with at least one character of a turn have a loss. A template that renders a turn
      differently once later messages follow (by removal of the thinking of earlier turns) is an InvalidDocumentError,
      unless `turns="last"`. So is a template whose generation prompt is not the beginning of an answer.
    - With `turns="last"` only the last of these turns.
    - The end-of-document token has the loss of the last token, or `end_loss`.

    A document is text in parts, which a run with `tokenizer.special_as_text` or `tokenizer.add_special_tokens` encodes
    differently. If no split of the text gives the tokens of the chat, it is an InvalidDocumentError.

    Example:
        ```python
        documents = [{"messages": chat, "id": f"chat-{n}"} for n, chat in enumerate(chats)]
        loaderd.publish(documents, url, source="chats", chat=loaderd.Chat(tokenizer))
        ```

    Attributes:
        tokenizer: The tokenizer.
        template: The chat template, if it is not the tokenizer's own.
        as_tokens: Whether documents are token ids.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        template: str | None = None,
        turns: Literal["all", "last"] = "all",
        roles: Collection[str] = ("assistant",),
        end_loss: bool | None = None,
        refuse_special: bool = False,
        as_tokens: bool = False,
        on_dropped: OnDropped | None = None,
        **arguments: Any,
    ) -> None:
        """Creates a builder of documents.

        Args:
            tokenizer: A fast tokenizer of transformers.
            template: A chat template (Jinja) instead of the tokenizer's own.
            turns: "all" for a loss on all turns of `roles`, "last" for a loss on the last one only.
            roles: The roles whose turns have a loss. Templates with marks ignore them.
            end_loss: Whether the end-of-document token has a loss; None gives it that of the last token.
            refuse_special: Whether special tokens that are spelled out in a message are an InvalidDocumentError;
                otherwise they become special tokens, as with transformers. So are other added tokens that the template
                names, in messages of roles outside `roles`: an assistant may write `<think>`, a user may
                not.
            as_tokens: Whether a document is the tokens. These are always correct, and only runs of this tokenizer, by
                its fingerprint, accept them.
            on_dropped: Called with the texts of a chat that its rendered text does not contain, such as tool calls that
                the template ignores. An InvalidDocumentError that it raises rejects the chat.
            **arguments: Arguments of the template, such as `enable_thinking=False`. A template that writes today's date
                renders another document of the same chat tomorrow: pass it the date (`date_string="26 Jul 2024"`).

        Raises:
            TypeError: If the tokenizer is not a fast one of transformers.
            ValueError: If the tokenizer has no template and none is given, an argument has another value, or `end_loss`
                is given with `as_tokens`.
        """
        if not hasattr(tokenizer, "apply_chat_template") or not getattr(tokenizer, "is_fast", False):
            kind = type(tokenizer)
            raise TypeError(
                "chats require a fast tokenizer of transformers, with a chat template; this is a "
                f"{kind.__module__}.{kind.__qualname__}"
            )
        if template is None and not getattr(tokenizer, "chat_template", None):
            raise ValueError("the tokenizer has no chat template: set template=")
        if turns not in ("all", "last"):
            raise ValueError(f'turns is {turns!r}, want "all" or "last"')
        if isinstance(roles, str) or not roles:
            raise ValueError(f"roles is {roles!r}: want the roles whose turns have a loss, such as ('assistant',)")
        if as_tokens and end_loss is not None:
            raise ValueError(
                "end_loss requires parts: with as_tokens, the end-of-document token has the loss of the last token"
            )
        self.tokenizer = tokenizer
        self._tokens = ChatTokenizer(tokenizer)
        self._borders = token_borders(tokenizer)
        self._names = dict(tokenizer.special_tokens_map)
        self._on_dropped = on_dropped
        self.template = template
        self.as_tokens = as_tokens
        self._turns, self._roles, self._end_loss = turns, frozenset(roles), end_loss
        own = frozenset(inspect.signature(tokenizer.apply_chat_template).parameters) - _OWN
        self._reserved = own | {"tools", "messages", "add_generation_prompt"}
        self._arguments = arguments
        if wrong := self._reserved & arguments.keys():
            raise ValueError(f"{sorted(wrong)} are not arguments of a template")
        added = [token for token in tokenizer.added_tokens_decoder.values() if token.content.strip()]
        self._added = tuple(token.content for token in added)
        written_by = template or tokenizer.chat_template
        named = written_by if isinstance(written_by, str) else "".join(written_by.values())
        special = [token.content for token in added if token.special]
        self._refused = _any_of(special) if refuse_special else None
        self._refused_of_others = (
            _any_of([*special, *(token.content for token in added if token.content in named)])
            if refuse_special
            else None
        )

    @staticmethod
    def of(value: object) -> Chat:
        """Returns a Chat unchanged, and the Chat of a tokenizer.

        Args:
            value: A Chat, or a fast tokenizer of transformers.
        """
        return value if isinstance(value, Chat) else Chat(value)

    @cached_property
    def fingerprint(self) -> str:
        """The tokenizer's fingerprint, which a run must have."""
        return str(fingerprint_of(self.tokenizer))

    def __call__(
        self,
        messages: object,
        tools: object = None,
        arguments: Mapping[str, Any] | None = None,
        loss_from: int = 0,
    ) -> dict[str, Any]:
        """Returns the document of a chat.

        Args:
            messages: Dicts with `role` and usually `content`. An assistant's message with a `weight` of 0 has no loss.
            tools: The tools that the template offers, as objects or as one JSON text, the form in which datasets store
                them.
            arguments: Additional arguments of the template.
            loss_from: The number of messages at the beginning that have no loss, those of a prompt.

        Returns:
            {"parts"}, or with `as_tokens` {"ids", "loss"}.

        Raises:
            InvalidDocumentError: If the input is not a chat, the template fails, or no split of the text is correct.
        """
        document = self._document(messages, tools, arguments, loss_from)
        if "parts" in document:
            return document
        runs = document["loss_runs"]
        loss: list[bool] = np.repeat(np.arange(len(runs)) % 2 == 0, runs).tolist()
        return {"ids": document["ids"].tolist(), "loss": loss}

    def _document(
        self, messages: object, tools: object, arguments: Mapping[str, Any] | None, loss_from: int
    ) -> dict[str, Any]:
        """Returns the document of a chat in the form that is fastest to publish.

        Returns:
            {"parts"}, or with `as_tokens` {"ids", "loss_runs"}.

        Raises:
            InvalidDocumentError: As when the object is called.
        """
        rendered = self._render(messages, tools, arguments, loss_from)
        if self.as_tokens:
            [found] = self._tokenize([rendered])
            if isinstance(found, InvalidDocumentError):
                raise found
            return found
        if rendered.parts is not None:
            return {"parts": self._with_end(rendered.parts)}
        try:
            [tokens] = self._tokens.offsets([rendered.text])
            return {"parts": self._with_end(split(self._tokenized(rendered, *tokens), self._tokens.part))}
        except InvalidDocumentError:
            raise
        except Exception as error:
            raise _failed(error) from error

    def _render(
        self, messages: object, tools: object, arguments: Mapping[str, Any] | None, loss_from: int
    ) -> RenderedChat:
        """Returns a chat as text.

        Raises:
            InvalidDocumentError: If the input is not a chat, or the template fails.
        """
        chat = self._checked(messages, arguments)
        try:
            tools = json.loads(tools) if isinstance(tools, str) else tools
        except ValueError as error:
            raise InvalidDocumentError(f"tools is a str that is not JSON: {error}") from None
        learnt = _learnt(chat, loss_from)
        try:
            text, spans, marked = self._rendered(chat, tools, {**self._arguments, **(arguments or {})}, learnt)
            if self._on_dropped is not None and (found := dropped(text, chat, tools)):
                self._on_dropped(found)
            text.encode()  # raises an error for unpaired surrogates
        except InvalidDocumentError:
            raise
        except Exception as error:  # templates may raise any exception
            raise _failed(error) from error
        parts = None
        if self._borders is not None:
            parts = self._borders.cut(text, _last_span(spans) if marked and self._turns == "last" else spans)
        return RenderedChat(text, spans, marked, parts)

    def _tokenize(self, chats: Sequence[RenderedChat]) -> list[dict[str, Any] | InvalidDocumentError]:
        """Returns the tokens of chats, which are tokenized together.

        Returns:
            {"ids", "loss_runs"}: int32 [tokens], and lengths of runs of tokens with and without a loss, starting with a
            loss. The error of a chat that the tokenizer rejects.
        """
        try:
            return self._documents(chats)
        except Exception as error:  # tokenizers raise exceptions without a type
            if len(chats) == 1:
                return [_failed(error)]
            return [self._tokenize([chat])[0] for chat in chats]

    def _documents(self, chats: Sequence[RenderedChat]) -> list[dict[str, Any] | InvalidDocumentError]:
        cut = iter(self._tokens.ids([part["text"] for chat in chats for part in chat.parts or ()]))
        whole = iter(self._tokens.offsets([chat.text for chat in chats if chat.parts is None]))
        found: list[dict[str, Any] | InvalidDocumentError] = []
        for chat in chats:
            if chat.parts is None:
                tokens = self._tokenized(chat, *next(whole))
                ids, runs = tokens.ids, runs_of_mask(np.asarray(tokens.loss, bool))
            else:
                each = list(itertools.islice(cut, len(chat.parts)))
                ids, runs = list(itertools.chain.from_iterable(each)), _runs(chat.parts, each)
            found.append({"ids": np.array(ids, np.int32), "loss_runs": runs})
        return found

    def _with_end(self, parts: list[Part]) -> list[Part]:
        if self._end_loss not in (None, parts[-1]["loss"]):
            parts.append({"text": "", "loss": bool(self._end_loss)})
        return parts

    def _checked(self, messages: object, arguments: object) -> list[dict[str, Any]]:
        if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
            raise InvalidDocumentError(f"messages is a {type(messages).__name__}: want a list of dicts")
        if not messages:
            raise InvalidDocumentError("messages is empty")
        for k, message in enumerate(messages):
            if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
                raise InvalidDocumentError(f"message {k} is not a dict with a role")
            refused = self._refused if message["role"] in self._roles else self._refused_of_others
            if refused is not None and (found := next(filter(None, map(refused.search, _strings(message))), None)):
                raise InvalidDocumentError(f"message {k} contains the text of the special token {found[0]!r}")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise InvalidDocumentError(f"chat_template_kwargs is a {type(arguments).__name__}, want a dict")
        if wrong := self._reserved & (arguments or {}).keys():
            raise InvalidDocumentError(
                f"chat_template_kwargs has {sorted(wrong)}, which are not arguments of a template"
            )
        return [dict(message) for message in messages]

    def _rendered(
        self, messages: list[dict[str, Any]], tools: Any, arguments: Mapping[str, Any], learnt: Collection[int]
    ) -> tuple[str, Sequence[tuple[int, int]], bool]:
        """Returns the text of a chat, its characters that have a loss, and whether the template marks them."""
        template = chat_template(self.tokenizer.get_chat_template(self.template, tools))
        prepared = template.prepare(messages, tools, {**self._names, **arguments})
        if not template.marks:
            turns = [k for k, message in enumerate(messages) if message["role"] in self._roles]
            turns = [k for k in (turns[-1:] if self._turns == "last" else turns) if k in learnt]
            return *written(prepared.text, prepared.messages, turns, self._added), False
        # The mask of transformers is wrong where the first answer is empty, or ends with the chat's first token.
        text, marks = prepared.marked()
        return text, _of_learnt(marks, messages, learnt), True

    def _tokenized(self, chat: RenderedChat, ids: Sequence[int], offsets: Offsets) -> Tokenized:
        begins, ends = np.array(offsets, np.int64).reshape(-1, 2).T
        loss = np.zeros(len(offsets), bool)
        for begin, end in chat.spans:
            loss |= (begins < end) & (begin < ends) & (begin < end)  # an empty answer has no token
        mask: list[bool] = loss.tolist()
        if chat.marked and self._turns == "last":
            spans = chat.spans
            mask = _last_run(mask) if spans and spans[-1][0] < spans[-1][1] else [False] * len(mask)
        return Tokenized(chat.text, ids, offsets, mask)


def _failed(error: Exception) -> InvalidDocumentError:
    made = InvalidDocumentError(f"cannot render the chat template: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


def _runs(parts: Sequence[Part], ids: Sequence[Sequence[int]]) -> list[int]:
    """Returns the lengths of runs of tokens with and without a loss, starting with a loss: only the first may be 0."""
    runs, loss = [0], True
    for part, some in zip(parts, ids, strict=True):
        if some and part["loss"] != loss:
            runs.append(0)
            loss = not loss
        runs[-1] += len(some)
    return runs


def _learnt(messages: Sequence[Mapping[str, Any]], loss_from: int) -> Collection[int]:
    """Returns the messages that may have a loss.

    Raises:
        InvalidDocumentError: If the weight of a message is neither 0 nor 1.
    """
    found = range(loss_from, len(messages))
    if not any("weight" in message for message in messages):
        return found
    for k, message in enumerate(messages):
        if message.get("weight") not in (None, 0, 1):
            raise InvalidDocumentError(f"message {k} has the weight {message['weight']!r}, want 0 or 1")
    return [k for k in found if messages[k].get("weight") != 0]


def _of_learnt(
    marks: Sequence[tuple[int, int]], messages: Sequence[Mapping[str, Any]], learnt: Collection[int]
) -> Sequence[tuple[int, int]]:
    """Returns the marked characters of messages that may have a loss.

    Raises:
        InvalidDocumentError: If marks cannot be assigned to the assistant's messages.
    """
    if len(learnt) == len(messages):
        return marks
    turns = [k for k, message in enumerate(messages) if message["role"] == "assistant"]
    if len(turns) != len(marks):
        raise InvalidDocumentError(
            f"the template marks {len(marks)} texts of {len(turns)} assistant messages, so the messages without a loss "
            "are unknown: use a template that marks each message once"
        )
    return [mark for k, mark in zip(turns, marks, strict=True) if k in learnt]


def _any_of(words: Collection[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True)))) if words else None


def _last_run(mask: list[bool]) -> list[bool]:
    end = max((i for i, m in enumerate(mask) if m), default=-1) + 1
    first = max((i for i in range(end) if not mask[i]), default=-1) + 1
    return [first <= i < end for i in range(len(mask))]


def _last_span(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the last marked characters, with adjacent ones before them; none if the last mark is empty."""
    if not spans or spans[-1][0] == spans[-1][1]:
        return []
    begin, last = spans[-1]
    for first, end in reversed(spans[:-1]):
        if end != begin:
            break
        begin = first
    return [(begin, last)]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for v in value.values():
            yield from _strings(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _strings(v)
