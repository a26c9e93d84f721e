"""Chats that the compiled template renders have the text, the marks and the errors of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

import loaderd.chats._token_batches as batches
import loaderd.producer._chat_template as _chat_template
from chat_tokenizers import llama, small, with_template
from chats import CHATS, THOUGHT, TOOLS, WEATHER, chat
from loaderd import Chat, InvalidDocumentError
from loaderd.chats import ChatRows, RowOptions
from loaderd.chats._errors import FileError
from loaderd.chats._inputs import Place
from loaderd.chats._token_batches import TokenizedRows
from loaderd.producer._chat_template import ChatTemplate, _Direct
from loaderd.producer._chat_tokens import ChatTokenizer
from loaderd.producer._message import Encoder
from published_templates import site
from test_chat import MARKED, PLAIN
from test_chat_command import LLAMA_TOOLS, QWEN_THINKING

TEMPLATES = {
    **{
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted(Path(site(), "trl/chat_templates").glob("*.jinja"))
    },
    "tools": LLAMA_TOOLS,
    "thinking": QWEN_THINKING,
    "names": "{% generation %}{{ [messages, tools, documents, bos_token, kwargs] | tojson }}{% endgeneration %}",
    "changes a message": "{% set _ = messages[0].update({'content': 'x'}) %}",
    "sandbox": "{{ messages.__class__ }}{{ messages[0].content.__init__.__globals__ }}",
}
FAILING = ("changes a message", "sandbox")
"""Templates that the sandbox rejects."""
RICH: list[dict[str, Any]] = [
    {"role": "user", "content": np.str_("a"), "n": np.int64(3), "weight": None, np.str_("key"): "v"},
    {"role": "assistant", "content": "b", "thinking": "c", "of": ("x", {1: np.bool_(False)}), "object": object},
]
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"enable_thinking": False},
    {"documents": [{"title": "a", "text": "b"}], "bos_token": "<s>"},
    {"documents": [1], "kwargs": {"a": np.float32(1)}},
]


def outcome(call: Callable[[], Any]) -> Any:
    """Returns what a call returns, or its error."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


def check(template: ChatTemplate, tokenizer: Any, messages: Any, tools: Any, arguments: dict[str, Any]) -> bool:
    """Compares a chat with transformers; returns whether the compiled template rendered it."""
    names = {**tokenizer.special_tokens_map, **arguments}
    prepared = outcome(lambda: template.prepare(messages, tools, names))

    def text(prompt: bool) -> Any:
        return tokenizer.apply_chat_template(
            messages, tokenize=False, tools=tools, add_generation_prompt=prompt, **arguments
        )

    if isinstance(prepared, tuple):  # the first chat of its keys fails
        assert prepared == outcome(lambda: text(False))
        return False
    for prompt in (False, True):
        found = outcome(lambda: prepared.text(prepared.messages, prompt))  # noqa: B023
        assert found == outcome(lambda: text(prompt))  # noqa: B023
    if template.marks:
        given = [{k: v for k, v in message.items() if v is not None} for message in messages]
        options: Any = {"tools": tools, "chat_template": template.source, "return_assistant_tokens_mask": True, **names}
        want = outcome(lambda: [one for [one] in render_jinja_template([given], **options)])
        assert outcome(lambda: list(prepared.marked())) == want
    return isinstance(prepared, _Direct)


@pytest.mark.parametrize("name", TEMPLATES)
def test_ChatTemplate_EqualsTransformers(name: str) -> None:
    tokenizer = small(TEMPLATES[name], bos_token="<|endoftext|>")
    template, direct = ChatTemplate(TEMPLATES[name]), 0
    some = [CHATS["one turn"], THOUGHT, RICH]
    cases = [(chat, tools, {}) for chat in (*CHATS.values(), TOOLS) for tools in (None, [WEATHER])]
    cases += [(chat, tools, some) for chat in some for tools in (None, [WEATHER], [len]) for some in ARGUMENTS]
    for case in cases * 2:
        direct += check(template, tokenizer, *case)
    assert template._direct and bool(direct) == (name not in FAILING)


@pytest.mark.parametrize("change", ["other texts", "other parameters", "an absent function"])
def test_ChatTemplate_OtherVersionsOfTransformers(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is that of apply_chat_template, also if this package prepares chats in another way."""
    if change != "an absent function":
        wrong: dict[str, Any] = {"_alias_reasoning_fields": lambda messages: messages[1:]}
        if change == "other parameters":
            wrong = {"_alias_reasoning_fields": lambda messages, fields: messages}
        monkeypatch.setattr(
            _chat_template, "_library", lambda: SimpleNamespace(**{**vars(chat_template_utils), **wrong})
        )
    else:
        monkeypatch.delattr(chat_template_utils, "_alias_reasoning_fields")
        monkeypatch.setattr(chat_template_utils, "render_jinja_template", lambda *_, **__: (["as there"], [[]]))
    template, made = ChatTemplate(PLAIN), CHATS["several turns"]
    whole = change != "an absent function"
    want = small(PLAIN).apply_chat_template(made, tokenize=False) if whole else "as there"
    for _ in range(2):
        prepared = template.prepare(made, None, {})
        assert prepared.text(prepared.messages, False) == want
        assert not isinstance(prepared, _Direct)


def rows_of_all_kinds(path: Path) -> Path:
    rows: list[Any] = [{"messages": row, "n": k, "key": f"a{k}", "weight": 0.5} for k, row in enumerate(CHATS.values())]
    rows.insert(
        2, {"input_ids": [1, 2, 3, 4], "completion_mask": [0, 1, 1, 0], "seq_lengths": [2, 2], "n": 1, "key": 1}
    )
    rows.insert(4, {"prompt": "a", "completion": "b", "n": 1, "key": 2})
    rows.insert(5, {"messages": [{"role": "user", "content": "fail"}, *chat("a", "b")], "n": 1, "key": 3})
    rows.insert(7, {"input_ids": [5, 6], "seq_lengths": [1, 1], "n": 1, "key": 4})  # in two batches
    rows.insert(8, {"messages": "bad"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["borders", "offsets", "by turns"])
def test_TokenizedRows_SameMessagesAsOneByOne(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = "{% if messages[0].content == 'fail' %}{{ raise_exception('no') }}{% endif %}"
    if kind == "borders":
        tokenizer: Any = with_template("qwen3", "qwen2_5_training")
        tokenizer.chat_template = fails + tokenizer.chat_template
    else:
        tokenizer = llama(fails + (MARKED if kind == "offsets" else PLAIN))
    monkeypatch.setattr(batches, "_CHATS", 3)
    rows = ChatRows([str(rows_of_all_kinds(tmp_path / "rows.jsonl"))], RowOptions(meta=["n"], id="key"))
    places: list[str] = []
    made = Chat(tokenizer, as_tokens=True, on_dropped=lambda found: places.append(f"{rows.place} {found[0]}"))
    assert (made._borders is not None) == (kind == "borders")
    encoder = Encoder("chats", "input", fingerprint=made.fingerprint, place=True, chat=made)

    def messages(some: Any, first: int = 0) -> list[Any]:
        found = []
        for position, document in enumerate(some, first):
            try:
                if isinstance(document, InvalidDocumentError):
                    raise document
                found.append((str(rows.place), encoder.encode(document, position)))
            except InvalidDocumentError as error:
                found.append((str(rows.place), str(error).partition("): ")[2] or str(error)))
        return found

    want, dropped = messages(rows), places.copy()
    places.clear()
    tokenized = TokenizedRows(rows, made)
    assert messages(tokenized) == want and places == dropped
    assert sum(isinstance(message, str) for _, message in want) == 3
    for first in range(0, len(want) + 1, 4):
        monkeypatch.setattr(rows, "place", Place())
        rest = tokenized.skip(first)
        monkeypatch.setattr(rows, "place", rest.rows.place)
        assert messages(rest, first) == want[first:]


def test_TokenizedRows_DocumentsBeforeADamagedRow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_CHATS", 3)
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"messages": chat("a", str(k))} for k in range(5)])[:-1] + ", {", encoding="utf-8")
    rows = ChatRows([str(path)])
    for documents in (rows, TokenizedRows(rows, Chat(small(PLAIN), as_tokens=True))):
        found = iter(documents)
        assert len([next(found) for _ in range(5)]) == 5
        with pytest.raises(FileError, match="element 5 is not JSON"):
            next(found)


def test_Chat_TokensOfAChatThatTheTokenizerRejects(monkeypatch: pytest.MonkeyPatch) -> None:
    made, encode = Chat(small(MARKED), as_tokens=True), ChatTokenizer.offsets

    def fails(tokens: ChatTokenizer, texts: list[str]) -> Any:
        if any("boom" in text for text in texts):
            raise ValueError("too long")
        return encode(tokens, texts)

    monkeypatch.setattr(ChatTokenizer, "offsets", fails)
    chats = [chat("a", "b"), chat("c", "boom"), chat("d", "e")]
    found = made._tokenize([made._render(some, None, None, 0) for some in chats])
    assert str(found[1]) == "cannot render the chat template: ValueError: too long"
    for some, tokens in ((chats[0], found[0]), (chats[2], found[2])):
        assert isinstance(tokens, dict) and tokens["ids"].tolist() == made(some)["ids"]
