"""Converts rows of chat data sets to documents: OpenAI messages, ShareGPT, prompt and completion, Alpaca, token ids.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from loaderd.chats._token_rows import token_documents
from loaderd.producer import InvalidDocumentError
from loaderd.producer._dropped import REASONING

Row = Mapping[str, Any]
Document = dict[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
SHAREGPT = {
    **{name: "user" for name in ("human", "user")},
    **{name: "assistant" for name in ("gpt", "assistant", "model", "chatgpt", "bing", "bard", "function_call")},
    **{name: "tool" for name in ("tool", "observation", "function_response", "function")},
    "system": "system",
}
"""Senders of ShareGPT messages, and their roles."""
COLUMNS = (
    *("messages", "conversations", "prompt", "completion", "instruction", "input", "output", "system", "history"),
    *("tools", "chat_template_kwargs", "weight", "input_ids", "labels", "attention_mask", "completion_mask"),
    *("assistant_masks", "labels_mask", "loss_mask", "seq_start_id", "seq_lengths"),
)
"""The columns that are read."""


@dataclass(frozen=True)
class RowOptions:
    """How rows become documents."""

    rename: Mapping[str, str] = field(default_factory=dict)
    """The names of columns in the rows, by their standard names."""
    id: str | None = None
    """The column of the document's id."""
    meta: Sequence[str] = ()
    """The columns of the document's meta."""
    tools: Literal["keep", "drop", "reject"] = "keep"
    """What happens to tools, tool calls and their results."""
    reasoning: Literal["keep", "drop"] = "keep"
    """What happens to the reasoning of messages."""
    arguments: Literal["object", "keep"] = "object"
    """Whether arguments of tool calls that are JSON texts become objects, which most templates require."""
    roles: Sequence[str] = ("assistant",)
    """The roles whose messages have a loss."""
    vocabulary: int | None = None
    """The number of token ids."""
    typed: bool = False
    """Whether rows are of columns with types, which have null for absent keys."""

    @property
    def columns(self) -> Collection[str]:
        """The columns of the rows that are read."""
        given = {self.rename.get(name, name) for name in COLUMNS} | set(self.meta)
        return given | {self.id} if self.id else given


def documents_of(row: object, options: RowOptions) -> list[Document]:
    """Returns the documents of a row: one, or those that share it.

    Raises:
        InvalidDocumentError: If the row is invalid; the message states the reason.
    """
    if not isinstance(row, Mapping):
        raise InvalidDocumentError(f"it is {json_type(row)}, want an object with columns")
    given = {key: value for key, value in row.items() if value is not None}
    for name, other in options.rename.items():
        if other in given:
            given[name] = given.pop(other)
    if "input_ids" in given:
        found = token_documents(given, options.vocabulary)
    else:
        found = [_chat(given, options) if (content := _text(given)) is None else content]
    if "weight" in given:
        for document in found:
            document["weight"] = given["weight"]
    if options.meta:
        missing = [name for name in options.meta if name not in row]
        if missing:
            raise InvalidDocumentError(f"it has no column {missing[0]}")
        for document in found:
            document["meta"] = {name: row[name] for name in options.meta}
    if options.id is not None:
        if options.id not in given:
            raise InvalidDocumentError(f"it has no id in the column {options.id}")
        for k, document in enumerate(found):
            document["id"] = given[options.id] if len(found) == 1 else f"{given[options.id]}#{k}"
    return found


def _text(given: Row) -> Document | None:
    """Returns the document of a prompt and a completion that are texts; None for another row."""
    prompt, completion = given.get("prompt"), given.get("completion")
    if "messages" in given or not isinstance(prompt, str) or not isinstance(completion, str):
        return None
    if not completion:
        raise InvalidDocumentError("its completion is empty")
    return {"parts": [{"text": prompt, "loss": False}, {"text": completion, "loss": True}]}


def _chat(given: Row, options: RowOptions) -> Document:
    document: Document = {}
    if "messages" in given:
        messages = _list("messages", given["messages"])
    elif "conversations" in given:
        messages = _sharegpt(given)
    elif "prompt" in given and "completion" in given:
        before = _side("prompt", given["prompt"], "user")
        messages = before + _side("completion", given["completion"], "assistant")
        document["loss_from"] = len(before)
    elif "instruction" in given and "output" in given:
        messages = _alpaca(given)
    else:
        raise InvalidDocumentError(
            f"its columns are {', '.join(map(str, given)) or 'empty'}: want messages, conversations, prompt and "
            "completion, instruction and output, or input_ids"
        )
    kept = _checked(messages, options)
    document["messages"] = list(kept.values())
    if "loss_from" in document:
        document["loss_from"] = sum(k < document["loss_from"] for k in kept)
    if "tools" in given and (tools := _json("tools", given["tools"])):
        if options.tools == "reject":
            raise InvalidDocumentError("it has tools")
        if options.tools == "keep":
            document["tools"] = _present(tools) if options.typed else tools
    if "chat_template_kwargs" in given:
        kwargs = _json("chat_template_kwargs", given["chat_template_kwargs"])
        document["chat_template_kwargs"] = _present(kwargs) if options.typed else kwargs
    return document


def _checked(messages: Sequence[Any], options: RowOptions) -> dict[int, dict[str, Any]]:
    """Returns the messages of a chat by their position, with the options applied."""
    if not messages:
        raise InvalidDocumentError("it has no messages")
    found = {}
    for k, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise InvalidDocumentError(f"message {k} is {json_type(message)}, want an object")
        if (made := _message(k, message, options)) is not None:
            found[k] = made
    if not any(message.get("content") or message.get("tool_calls") for message in found.values()):
        raise InvalidDocumentError("its messages are empty")
    if not any(message["role"] in options.roles for message in found.values()):
        raise InvalidDocumentError(f"it has no message of the role {' or '.join(sorted(options.roles))}")
    return found


def _message(k: int, message: Row, options: RowOptions) -> dict[str, Any] | None:
    """Returns a message; None for one that the options omit."""
    role = message.get("role")
    if role not in ROLES and role not in options.roles:
        raise InvalidDocumentError(f"message {k} has the role {role!r}, want {', '.join(ROLES)}")
    made = dict(_present(message) if options.typed else message)
    content = made.get("content")
    if isinstance(content, (list, tuple)):
        for part in content:
            if not isinstance(part, Mapping):
                raise InvalidDocumentError(f"message {k} has {json_type(part)} as a part, want an object")
            if (kind := part.get("type", "text")) != "text" or not isinstance(part.get("text"), str):
                raise InvalidDocumentError(f"message {k} has a part of the type {kind}, want text")
    elif content is not None and not isinstance(content, str):
        raise InvalidDocumentError(f"message {k} has {json_type(content)} as content, want a string")
    if options.reasoning == "drop":
        for key in REASONING:
            made.pop(key, None)
    calls = made.get("tool_calls")
    if options.tools == "reject" and (calls or role in ("tool", "function")):
        raise InvalidDocumentError(f"message {k} has tool calls or their results")
    if options.tools == "drop":
        made.pop("tool_calls", None)
        return None if role in ("tool", "function") or (calls and not content) else made
    if calls:
        made["tool_calls"] = [_call(k, call, options) for call in _list(f"tool_calls of message {k}", calls)]
    elif "tool_calls" in made:
        del made["tool_calls"]
    if content is None and not calls:
        raise InvalidDocumentError(f"message {k} has no content")
    return made


def _call(k: int, call: Any, options: RowOptions) -> dict[str, Any]:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise InvalidDocumentError(f"message {k} has a tool call without a function's name")
    arguments = function.get("arguments")
    if options.arguments == "object" and isinstance(arguments, str):
        arguments = _json(f"the arguments of a tool call in message {k}", arguments or "{}")
    made = {**function, "arguments": arguments}
    return {**call, "function": made} if "function" in call else made


def _sharegpt(given: Row) -> list[Any]:
    messages: list[Any] = []
    if system := given.get("system"):
        messages.append({"role": "system", "content": system})
    for k, turn in enumerate(_list("conversations", given["conversations"])):
        if not isinstance(turn, Mapping) or turn.get("from") is None:
            messages.append(turn)  # with role and content
            continue
        sender = turn["from"]
        if not isinstance(sender, str) or sender not in SHAREGPT:
            raise InvalidDocumentError(f"message {k} is from {sender!r}, want {', '.join(sorted(SHAREGPT))}")
        more = {key: value for key, value in turn.items() if key not in ("from", "value")}
        value = turn.get("value")
        if sender == "function_call":
            calls = _json(f"the call of message {k}", value)
            value, more["tool_calls"] = "", calls if isinstance(calls, list) else [calls]
        messages.append({"role": SHAREGPT[sender], "content": value, **more})
    return messages


def _alpaca(given: Row) -> list[Any]:
    messages: list[Any] = []
    if system := given.get("system"):
        messages.append({"role": "system", "content": system})
    for turn in _list("history", given.get("history") or []):
        if not isinstance(turn, (list, tuple)) or len(turn) != 2:
            raise InvalidDocumentError("its history is not an array of pairs")
        messages += [{"role": "user", "content": turn[0]}, {"role": "assistant", "content": turn[1]}]
    question = [given[name] for name in ("instruction", "input") if given.get(name)]
    if not all(isinstance(text, str) for text in question):
        raise InvalidDocumentError("its instruction or input is not a string")
    return [
        *messages,
        {"role": "user", "content": "\n".join(question)},
        {"role": "assistant", "content": given["output"]},
    ]


def _side(what: str, value: object, role: str) -> list[Any]:
    return [{"role": role, "content": value}] if isinstance(value, str) else _list(what, value)


def _list(what: str, value: object) -> list[Any]:
    found = _json(what, value)
    if not isinstance(found, (list, tuple)):
        raise InvalidDocumentError(f"{what} is {json_type(value)}, want an array")
    return list(found)


def _json(what: str, value: object) -> Any:
    """Returns a value, which data sets may store as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise InvalidDocumentError(f"{what} is a string that is not JSON") from None


def json_type(value: object) -> str:
    """Returns the type of a value of JSON with its article, and that of any other value by its name in Python."""
    if value is None:
        return "null"
    kinds = ((bool, "a boolean"), (str, "a string"), ((int, float), "a number"), ((list, tuple), "an array"))
    found = next((name for kind, name in kinds if isinstance(value, kind)), None)
    return found or ("an object" if isinstance(value, Mapping) else f"a value of the type {type(value).__name__}")


def _present(value: Any) -> Any:
    """Returns a value without the keys that are null."""
    if isinstance(value, Mapping):
        return {key: _present(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_present(inner) for inner in value]
    return value
