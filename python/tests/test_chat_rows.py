"""Rows of chat data sets become documents, from every file format, and invalid rows have a reason."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chats import CHATS, TOOLS, WEATHER, chat
from loaderd import InvalidDocumentError
from loaderd.chats import ChatRows, RowOptions
from loaderd.chats._errors import FileError
from loaderd.chats._rows import documents_of
from scale import share

HELLO = chat("Hi", "Hello")
ROWS: list[dict[str, Any]] = [{"messages": some, "n": k} for k, some in enumerate(CHATS.values()) if k != 5]


def lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def arrow(rows: list[Any], new: Callable[..., Any]) -> bytes:
    table = pa.Table.from_pylist(rows)
    sink = pa.BufferOutputStream()
    with new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return bytes(sink.getvalue().to_pybytes())


def parquet(rows: list[Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=4)
    return bytes(sink.getvalue().to_pybytes())


FORMATS: dict[str, Callable[[list[Any]], bytes]] = {
    "jsonl": lines,
    "jsonl without an end of line": lambda rows: b"\xef\xbb\xbf\n\n" + lines(rows).replace(b"\n", b"\r\n\n")[:-3],
    "jsonl.gz of two members": lambda rows: gzip.compress(lines(rows[:3])) + gzip.compress(lines(rows[3:])),
    "jsonl.zst of two frames": lambda rows: zstd(lines(rows[:3])) + zstd(lines(rows[3:])),
    "json": lambda rows: json.dumps(rows, indent=1, ensure_ascii=False).encode(),
    "json.gz": lambda rows: gzip.compress(b" " + json.dumps(rows).encode()),
    "parquet": parquet,
    "arrow file": lambda rows: arrow(rows, pa.ipc.new_file),
    "arrow stream": lambda rows: arrow(rows, pa.ipc.new_stream),
}


@pytest.mark.parametrize("form", FORMATS)
def test_ChatRows_Formats(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loaderd.chats._files._CHUNK", 97)
    path = tmp_path / "rows"
    path.write_bytes(FORMATS[form](ROWS))
    rows = ChatRows([str(path), str(path)], RowOptions(meta=["n"]))
    want = [{"messages": row["messages"], "meta": {"n": row["n"]}} for row in ROWS]
    assert list(rows) == want * 2
    for first in range(0, 2 * len(ROWS) + 2, 3):
        assert list(rows.skip(first)) == (want * 2)[first:]
    assert rows.skip(2).skip(3).first == 5


def test_ChatRows_ChunksThatEndWithALine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows"
    path.write_bytes(lines([{"messages": HELLO}] * 3))
    monkeypatch.setattr("loaderd.chats._files._CHUNK", path.stat().st_size // 3)
    assert list(ChatRows([str(path)])) == [{"messages": HELLO}] * 3


def test_ChatRows_FoldersAndSavedDataSets(tmp_path: Path) -> None:
    made = datasets.Dataset.from_list(ROWS)
    made.save_to_disk(tmp_path / "saved", num_shards=3)
    datasets.DatasetDict({"train": made, "test": made.select([0])}).save_to_disk(tmp_path / "splits")
    (tmp_path / "folder" / "b").mkdir(parents=True)
    (tmp_path / "folder" / "a.jsonl.gz").write_bytes(gzip.compress(lines(ROWS[:4])))
    (tmp_path / "folder" / "b" / "c.parquet").write_bytes(parquet(ROWS[4:]))
    for name in ("README.md", ".hidden.jsonl"):
        (tmp_path / "folder" / name).write_text("{")
    want = [{"messages": row["messages"]} for row in ROWS]
    for folder in ("saved", "splits", "folder"):
        assert list(ChatRows([str(tmp_path / folder)])) == want
    assert list(ChatRows([str(tmp_path / "splits")], split="test")) == want[:1]
    for path, problem in (("splits", "no split 'dev': want train, test"), ("none", "no such file or folder")):
        with pytest.raises(FileError, match=problem):
            list(ChatRows([str(tmp_path / path)], split="dev"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="no files with"):
        list(ChatRows([str(tmp_path / "empty")]))


def test_ChatRows_DataSetsOfTheHub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """datasets reads a folder as it reads a repository of the Hub."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "train.parquet").write_bytes(parquet(ROWS))
    rows = ChatRows([f"hf://datasets/{tmp_path}/repo"])
    assert list(rows.skip(2)) == [{"messages": row["messages"]} for row in ROWS[2:]]
    with pytest.raises(FileError, match="dev"):
        list(ChatRows([f"hf://datasets/{tmp_path}/repo"], split="dev"))


DAMAGED: dict[str, tuple[bytes, str]] = {
    "gzip": (gzip.compress(random.Random(1).randbytes(1000) + lines(ROWS))[:900], "cannot be read|other format"),
    "a truncated gzip": (gzip.compress(lines(ROWS * 50))[:-300], "cannot be read"),
    "a truncated zstd": (zstd(lines(ROWS * 50))[:-30], "cannot be read"),
    "a truncated parquet": (parquet(ROWS)[:-9], "cannot be read"),
    "a truncated arrow": (arrow(ROWS, pa.ipc.new_stream)[:-900], "cannot be read"),
    "a truncated array": (json.dumps(ROWS).encode()[:-90], "element 9 is not JSON, or the array does not end"),
    "an array with an error": (b'[{"a": 1}, {"a" 2}]', "element 1 is not JSON"),
    "an array of other characters": (b'[{"a": "\xff"}]', "element 0 is not JSON"),
    "a text": (b"Hello, world", "has another format: want JSON lines"),
    "an array of NumPy": (b"\x93NUMPY\x01\x00v\x00{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }", "npy"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_ChatRows_DamagedFiles(name: str, tmp_path: Path) -> None:
    data, problem = DAMAGED[name]
    path = tmp_path / "rows.npy"
    path.write_bytes(data)
    with pytest.raises(FileError, match=problem) as caught:
        list(ChatRows([str(path)]))
    assert str(path) in str(caught.value)


def test_ChatRows_PicklesThatRunPrograms(tmp_path: Path) -> None:
    class Bad:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    np.save(tmp_path / "rows.npy", np.array([{"input_ids": Bad()}], object))
    with pytest.raises(FileError, match="which is not data"):
        list(ChatRows([str(tmp_path / "rows.npy")]))
    assert not (tmp_path / "ran").exists()


SHAREGPT = {
    "system": "Be terse.",
    "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}],
}
CALL = {"name": "weather", "arguments": {"place": "Zürich"}}
ALPACA = {"instruction": "Add", "input": "1 2", "output": "3"}
CONVERTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "messages": ({"messages": HELLO, "other": 1, "conversations": None}, {"messages": HELLO}),
    "as JSON": (
        {"messages": json.dumps(HELLO), "tools": json.dumps([WEATHER])},
        {"messages": HELLO, "tools": [WEATHER]},
    ),
    "weight and arguments": (
        {"messages": HELLO, "weight": 0.5, "chat_template_kwargs": {"a": 1}},
        {"messages": HELLO, "chat_template_kwargs": {"a": 1}, "weight": 0.5},
    ),
    "conversations with roles": ({"conversations": HELLO}, {"messages": HELLO}),
    "sharegpt": (SHAREGPT, {"messages": chat("Hi", "Hello", system="Be terse.")}),
    "sharegpt with a call": (
        {
            "conversations": [
                {"from": "human", "value": "Hi"},
                {"from": "function_call", "value": json.dumps(CALL)},
                {"from": "observation", "value": "11.5"},
                {"from": "gpt", "value": "Warm", "weight": 0},
            ]
        },
        {
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "", "tool_calls": [CALL]},
                {"role": "tool", "content": "11.5"},
                {"role": "assistant", "content": "Warm", "weight": 0},
            ]
        },
    ),
    "prompt and completion": (
        {"prompt": "2+2=", "completion": "4"},
        {"parts": [{"text": "2+2=", "loss": False}, {"text": "4", "loss": True}]},
    ),
    "lists": ({"prompt": HELLO + HELLO[:1], "completion": HELLO[1:]}, {"loss_from": 3, "messages": HELLO + HELLO}),
    "a list and a text": ({"prompt": HELLO[:1], "completion": "Hello"}, {"loss_from": 1, "messages": HELLO}),
    "alpaca": (ALPACA, {"messages": chat("Add\n1 2", "3")}),
    "alpaca with a history": (
        {**ALPACA, "input": "", "system": "S", "history": [["Hi", "Hello"]]},
        {"messages": chat("Hi", "Hello", "Add", "3", system="S")},
    ),
    "arguments as a text": (
        {
            "messages": [
                HELLO[0],
                {
                    "role": "assistant",
                    "tool_calls": [{"type": "function", "function": {**CALL, "arguments": '{"place":"Zürich"}'}}],
                },
            ]
        },
        {"messages": [HELLO[0], {"role": "assistant", "tool_calls": [{"type": "function", "function": CALL}]}]},
    ),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_documents_of_Forms(name: str) -> None:
    row, want = CONVERTED[name]
    assert documents_of(row, RowOptions()) == [want]


def test_documents_of_Options() -> None:
    def made(row: dict[str, Any], **options: Any) -> dict[str, Any]:
        [document] = documents_of(row, RowOptions(**options))
        return document

    tools = {"messages": TOOLS, "tools": [WEATHER]}
    assert made(tools)["tools"] == [WEATHER]
    dropped = made(tools, tools="drop")
    assert "tools" not in dropped and [m["role"] for m in dropped["messages"]] == [
        *("system", "user", "assistant", "assistant", "user", "assistant")
    ]
    sides = {"prompt": TOOLS[1:5], "completion": TOOLS[5:]}
    assert made(sides)["loss_from"] == 4 and made(sides, tools="drop")["loss_from"] == 2
    called = [TOOLS[1], {**TOOLS[2], "content": None}, *TOOLS[3:]]
    assert len(made({"messages": called}, tools="drop")["messages"]) == 4
    for row in (tools, {"messages": TOOLS}, {"messages": HELLO, "tools": [WEATHER]}):
        with pytest.raises(InvalidDocumentError, match="tool"):
            made(row, tools="reject")
    thought = [HELLO[0], {**HELLO[1], "reasoning_content": "a", "thinking": "b"}]
    assert made({"messages": thought}, reasoning="drop") == {"messages": HELLO}
    assert made({"q": HELLO[:1], "a": HELLO[1:]}, rename={"prompt": "q", "completion": "a"})["loss_from"] == 1
    assert made({"messages": HELLO, "k": 7, "m": None}, id="k", meta=["m"])["id"] == 7
    assert made({"messages": [{"role": "critic", "content": "a"}]}, roles=("critic",))
    null = [HELLO[0], {**HELLO[1], "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1, "b": None}}}]}]
    assert made({"messages": null}, typed=True)["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert None in made({"messages": null})["messages"][1]["tool_calls"][0]["function"]["arguments"].values()


INVALID: list[tuple[Any, str]] = [
    (5, "it is a number, want an object"),
    ({}, "its columns are empty: want messages"),
    ({"text": "a", "id": 1}, "its columns are text, id: want messages, conversations"),
    ({"messages": []}, "it has no messages"),
    ({"messages": "[1"}, "messages is a string that is not JSON"),
    ({"messages": {"role": "user"}}, "messages is an object, want an array"),
    ({"messages": [1]}, "message 0 is a number, want an object"),
    ({"messages": [{"role": "asistant", "content": "a"}]}, "message 0 has the role 'asistant', want system, developer"),
    ({"messages": [{"content": "a"}]}, "message 0 has the role None"),
    ({"messages": [HELLO[0], {"role": "assistant"}]}, "message 1 has no content"),
    ({"messages": [{"role": "user", "content": 5}]}, "message 0 has a number as content, want a string"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]}]},
        "a part of the type image, want text",
    ),
    ({"messages": [{"role": "user", "content": ["a"]}]}, "message 0 has a string as a part, want an object"),
    ({"messages": [True]}, "message 0 is a boolean, want an object"),
    ({"messages": b"[]"}, "messages is a value of the type bytes, want an array"),
    ([], "it is an array, want an object with columns"),
    (None, "it is null, want an object with columns"),
    ({"messages": HELLO[:1]}, "it has no message of the role assistant"),
    ({"messages": chat("", "")}, "its messages are empty"),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "message 0 has a tool call without a function's name"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{"}]}]},
        "the arguments of a tool call in message 0 is a string that is not JSON",
    ),
    ({"messages": HELLO, "tools": "{"}, "tools is a string that is not JSON"),
    ({"conversations": [{"from": "alien", "value": "a"}]}, "message 0 is from 'alien', want assistant"),
    ({"conversations": [7]}, "message 0 is a number, want an object"),
    ({"conversations": [{"from": "function_call", "value": "{"}]}, "call of message 0 is a string that is not JSON"),
    ({"prompt": "a"}, "its columns are prompt"),
    ({"prompt": "a", "completion": ""}, "its completion is empty"),
    ({"prompt": "a", "completion": 5}, "completion is a number, want an array"),
    ({"instruction": 1, "output": "a"}, "its instruction or input is not a string"),
    ({**ALPACA, "history": [1]}, "its history is not an array of pairs"),
    ({"messages": HELLO, "id": 1}, "it has no id in the column key"),
]


@pytest.mark.parametrize(("row", "problem"), INVALID)
def test_documents_of_InvalidRows(row: Any, problem: str) -> None:
    options = RowOptions(id="key") if "key" in problem else RowOptions()
    with pytest.raises(InvalidDocumentError) as caught:
        documents_of(row, options)
    assert problem in str(caught.value)


def test_ChatRows_InvalidRowsInTheirPlace(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines(ROWS[:1]) + b'\n{"messages": \n' + lines([{"a": 1}]) + lines(ROWS[1:2]))
    rows, found = ChatRows([str(path)]), []
    for document in rows:
        found.append((str(rows.place), str(document) if isinstance(document, InvalidDocumentError) else ""))
    assert found == [
        (f"{path}:1", ""),
        (f"{path}:3", "it is not JSON: Expecting value: line 1 column 14 (char 13)"),
        (
            f"{path}:4",
            "its columns are a: want messages, conversations, prompt and completion, instruction and output, or "
            "input_ids",
        ),
        (f"{path}:5", ""),
    ]
    assert len(list(rows.skip(1))) == 3


def test_documents_of_AnyRow() -> None:
    """Rows with any values are documents or have a reason."""
    rng = random.Random("rows")
    words = [
        *("messages", "conversations", "prompt", "completion", "instruction", "input", "output", "system", "history"),
        *("tools", "input_ids", "labels", "loss_mask", "seq_start_id", "completion_mask", "role", "content", "from"),
        *("value", "tool_calls", "function", "name", "arguments", "user", "assistant", "human", "gpt", "type", "text"),
    ]

    def value(depth: int) -> Any:
        kind = rng.randrange(10 if depth else 6)
        if kind < 2:
            return rng.choice(words)
        if kind < 6:
            return rng.choice([None, 0, 1, -1, 2**70, 1.5, True, "", "[]", "{", "\ud800", b"a", [0, 1, 1], [[0]], [{}]])
        if kind < 8:
            return [value(depth - 1) for _ in range(rng.randrange(4))]
        return {rng.choice(words): value(depth - 1) for _ in range(rng.randrange(5))}

    options = [
        RowOptions(),
        RowOptions(tools="drop", reasoning="drop", typed=True),
        RowOptions(vocabulary=2, meta=["input"]),
    ]
    made = 0
    for k in range(share(200_000, 10)):
        row = {rng.choice(words[:15]): value(3) for _ in range(rng.randrange(1, 5))}
        try:
            made += len(documents_of(row, options[k % 3]))
        except InvalidDocumentError:
            continue
    assert made
