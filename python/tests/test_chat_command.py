"""python -m loaderd.chats: what a run reads is what transformers renders and tokenizes from the same rows."""

from __future__ import annotations

import functools
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import loaderd.chats.__main__ as command
from chat_tokenizers import reference, small, with_template
from chats import CHATS, THOUGHT, TOOLS, WEATHER, chat
from jobs import THIS
from loaderd import Publisher
from loaderd.producer._dropped import dropped
from published_tokenizers import published
from test_chat import MARKED, PLAIN
from test_chat_daemon import SMALL, read, with_end
from test_token_rows import CHATS as TOKENIZED
from test_token_rows import olmo_cache

LLAMA_TOOLS = (
    "{{- bos_token }}{%- if tools %}<|start_header_id|>system<|end_header_id|>\n\n{{ tools | tojson(indent=4) }}"
    "<|eot_id|>{%- endif %}\n"
    "{%- for m in messages %}{%- if m.role == 'assistant' and m.tool_calls %}"
    "<|start_header_id|>assistant<|end_header_id|>\n\n{% generation %}{{ m.content or '' }}"
    "{%- for c in m.tool_calls %}"
    '{{ \'{"name": "\' + c.function.name + \'", "parameters": \' }}{{ c.function.arguments | tojson }}{{ "}" }}'
    "{%- if not loop.last %}{{ ', ' }}{% endif %}{%- endfor %}<|eot_id|>{% endgeneration %}"
    "{%- else %}<|start_header_id|>{{ 'ipython' if m.role == 'tool' else m.role }}<|end_header_id|>\n\n"
    "{%- if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}<|eot_id|>{% endgeneration %}"
    "{%- else %}{{ m.content | trim }}<|eot_id|>{%- endif %}{%- endif %}{%- endfor %}"
)
QWEN_THINKING = """{%- for m in messages %}
    {%- if m.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' }}
        {%- generation %}
            {%- if m.reasoning_content and enable_thinking is not false %}
                {{- '<think>\n' + m.reasoning_content.strip() + '\n</think>\n\n' }}
            {%- elif enable_thinking is defined and enable_thinking is false %}
                {{- '<think>\n\n</think>\n\n' }}
            {%- endif %}
            {{- m.content + '<|im_end|>' }}
        {%- endgeneration %}
        {{- '\n' }}
        {%- continue %}
    {%- endif %}
    {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}"""
ROWS = 5_000
Printed = pytest.CaptureFixture[str]
THINKING = [THOUGHT[0], {**THOUGHT[1], "reasoning_content": " Two.\n\nAnd two. "}]


def run(*arguments: object) -> int:
    return command.main([str(argument) for argument in arguments])


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def saved(tokenizer: Any, folder: Path, template: str | None = None) -> Path:
    if template is not None:
        tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def test_Command_PublishesWhatTransformersRenders(
    daemon: Any, tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chats of several forms and formats, tools, thinking and token ids, each once, by marks and by turns."""
    monkeypatch.setattr(command, "_tokenizer", functools.cache(command._tokenizer))  # reading it takes seconds
    tokenizer = with_template("qwen3", "qwen2_5_training")
    folder = saved(tokenizer, tmp_path / "qwen")
    (tmp_path / "thinking.jinja").write_text(QWEN_THINKING)
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    d = daemon({**SMALL, "packing.buckets": "512", "tokenizer.name": published("qwen3"), "tokenizer.end": end})
    some = [row for row in CHATS.values() if len(row) > 1]
    rows = [*({"messages": row} for row in some), {"messages": TOOLS, "tools": [WEATHER]}]
    first = write(tmp_path / "a.jsonl", rows)
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]
    pq.write_table(pa.Table.from_pylist([{"conversations": turns}]), tmp_path / "b.parquet")
    same = ("--tokenizer", folder, "--source", "chats", "--daemon", d.nats_url)
    for _ in range(2):
        assert run(first, tmp_path / "b.parquet", *same) == 0
    assert f"published {len(some) + 2} documents" in capsys.readouterr().out
    want = [reference(tokenizer, row) for row in some]
    want += [reference(tokenizer, TOOLS, tools=[WEATHER]), reference(tokenizer, chat("Hi", "Yes"))]

    thinking = write(tmp_path / "c.jsonl", [{"messages": THINKING}])
    for k, more in enumerate(((), ("--thinking", "off"), ("--reasoning", "drop"), ("--as-tokens",))):
        assert run(thinking, *same, "--name", f"c{k}", "--template", tmp_path / "thinking.jinja", *more) == 0
        given = [THOUGHT[0], {k: v for k, v in THINKING[1].items() if k != "reasoning_content"}]
        want.append(
            reference(
                tokenizer,
                given if more[:1] == ("--reasoning",) else THINKING,
                chat_template=QWEN_THINKING,
                **({"enable_thinking": False} if "off" in more else {}),
            )
        )
    printed = capsys.readouterr().err
    assert "dropped 1 texts (reasoning), the first:\n" in printed and "c.jsonl:1: reasoning of message 1" in printed

    np.save(tmp_path / "d.npy", [{"input_ids": [5, 6, 7, 8], "loss_mask": [0, 0, 1, 0], "seq_start_id": [0, 2]}])  # type: ignore[arg-type]
    texts = write(tmp_path / "e.jsonl", [{"prompt": "2+2=", "completion": "4"}])
    assert run(tmp_path / "d.npy", olmo_cache(tmp_path / "olmo", TOKENIZED), texts, *same, "--name", "d") == 0
    want += [([5, 6], [False, False]), ([7, 8], [False, True])]
    want += [(ids, list(map(bool, loss))) for ids, loss in TOKENIZED]
    want.append((tokenizer("2+2=4")["input_ids"], [False] * 4 + [True]))
    assert read(d) == {k + 1: with_end(*w, end) for k, w in enumerate(want) if any(w[1])}


@pytest.mark.parametrize("name", ["chatml", "by turns", "llama with tools", "qwen with thinking", "qwen3", "llama3_1"])
def test_Command_DryRunHasTheTextOfTransformers(name: str, tmp_path: Path, capsys: Printed) -> None:
    tokenizer = {
        "chatml": lambda: small(MARKED),
        "by turns": lambda: small(PLAIN),
        "llama with tools": lambda: with_template("llama3", "llama3_training"),
        "qwen with thinking": lambda: with_template("qwen3", "qwen3_training"),
        "qwen3": lambda: with_template("qwen3", "qwen3"),
        "llama3_1": lambda: with_template("llama3_2", "llama3_1"),
    }[name]()
    template = {"llama with tools": LLAMA_TOOLS, "qwen with thinking": QWEN_THINKING}.get(name)
    folder = saved(tokenizer, tmp_path / "tokenizer", template)
    chats = [row for row in CHATS.values() if row[-1]["role"] == "assistant"] + [THINKING]
    rows: list[dict[str, Any]] = [{"messages": row} for row in chats]
    tools: list[Any] = [None] * len(chats)
    if name in ("llama with tools", "qwen3", "llama3_1"):
        chats.append([*TOOLS[:2], {**TOOLS[2], "tool_calls": TOOLS[2]["tool_calls"][:1]}, TOOLS[3], TOOLS[5]])
        text = json.loads(json.dumps(chats[-1]))
        for call in text[2]["tool_calls"]:  # as in the format of OpenAI
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
        rows.append({"messages": text, "tools": [WEATHER]})
        tools.append([WEATHER])
    path = write(tmp_path / "rows.jsonl", rows)
    more = ("--turns", "last", "--template-arg", "date_string=26 Jul 2024")
    assert run(path, "--tokenizer", folder, "--source", "x", "--dry-run", "--show", 99, *more) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1].startswith(f"{len(chats)} documents, ") and len(shown) == len(chats) + 1
    for row, of, line in zip(chats, tools, shown, strict=False):
        parts = json.loads(line.partition(": ")[2])["parts"]
        text = tokenizer.apply_chat_template(row, tokenize=False, date_string="26 Jul 2024", tools=of)
        assert "".join(part["text"] for part in parts) == text
        answer = row[-1]["content"].rpartition("</think>")[2].strip()
        assert answer in "".join(part["text"] for part in parts if part["loss"])


def test_Command_KilledAndRepeatedPublishesEachRowOnce(daemon: Any, tmp_path: Path) -> None:
    tokenizer = small(PLAIN)
    folder = saved(tokenizer, tmp_path / "tokenizer")
    d = daemon({**SMALL, "packing.buckets": "64", "tokenizer.name": folder / "tokenizer.json", "tokenizer.end": 0})
    rows: list[Any] = [{"messages": chat(f"question {k}", f"answer {k}")} for k in range(ROWS)]
    rows[5::1000] = [{"messages": "bad"}] * len(rows[5::1000])
    path = write(tmp_path / "rows.jsonl", rows)
    line = [sys.executable, "-m", "loaderd.chats", path, "--tokenizer", folder, "--source", "chats"]
    line += ["--daemon", d.nats_url, "--skip-invalid", "--invalid-to", tmp_path / "invalid.jsonl"]

    def stored() -> int:
        with Publisher(d.nats_url, source="chats", name="chats", report=0) as publisher:
            return publisher.position

    for killed in range(2):
        before = stored()
        process = subprocess.Popen([str(x) for x in line], env=THIS.environ(), stdout=subprocess.PIPE)
        while stored() <= before:
            assert process.poll() is None, killed
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert stored() < ROWS
    done = subprocess.run([str(x) for x in line], env=THIS.environ(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    texts = [tokenizer.decode(ids) for ids, _ in read(d).values()]
    want = [k for k in range(ROWS) if k % 1000 != 5]
    assert [int(re.findall(r"answer (\d+)", text)[0]) for text in texts] == want
    invalid = [json.loads(text) for text in (tmp_path / "invalid.jsonl").read_text().splitlines()]
    assert {row["row"] for row in invalid} == {k + 1 for k in range(5, ROWS, 1000)}
    assert {row["reason"] for row in invalid} == {"messages is a string that is not JSON"}


def test_Command_InvalidRowsAndDroppedTexts(
    daemon: Any, tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = "{% if messages[0].content == 'x' %}{{ raise_exception('no x') }}{% endif %}"
    folder = saved(small(fails + PLAIN), tmp_path / "tokenizer")
    d = daemon({**SMALL, "tokenizer.name": folder / "tokenizer.json", "tokenizer.end": 0})
    rows = [chat("a", "b"), chat("x", "b"), [{"role": "oracle", "content": "c"}], chat("c", "d"), TOOLS]
    path = write(tmp_path / "rows.jsonl", [{"messages": row} for row in rows])
    same = (path, "--tokenizer", folder, "--source", "chats", "--daemon", d.nats_url)
    fault = f"{path}:2: document 1: cannot render the chat template: TemplateError: no x"
    assert run(*same) == 1 and f"error: {fault} (--skip-invalid" in capsys.readouterr().err
    assert run(*same, "--skip-invalid", "--dropped", "reject") == 0
    printed = capsys.readouterr()
    assert "published 1 documents" in printed.out and "skipped 3 invalid rows" in printed.out
    assert f"  {fault}\n  {path}:3: message 0 has the role 'oracle'" in printed.err
    assert f"{path}:5: document 4: the template omits tool call of message 2: 'weather'" in printed.err
    assert run(*same, "--skip-invalid", "--name", "again") == 0
    dropped_call = f"{path}:5: tool call of message 2: 'weather'"
    assert f"dropped 4 texts (tool call), the first:\n  {dropped_call}" in capsys.readouterr().err
    other = write(tmp_path / "other.jsonl", [{"messages": chat("e", "f")}])
    for wrong, problem in (
        (("none.jsonl",), "none.jsonl: no such file"),
        ((other,), "input 'chats' has fewer than the"),
        ((path, "--token-file", tmp_path / "none"), "none"),
    ):
        assert run(*wrong, *same[1:]) == 1
        assert problem in capsys.readouterr().err
    other = write(tmp_path / "token.jsonl", [{"messages": chat("g", "h")}])
    monkeypatch.setenv("LOADERD_STREAM__DIR", str(tmp_path))
    by_token = (other, *same[1:-1], f"nats://{d.nats}", "--name", "by token")
    assert run(*by_token) == 1
    assert "requires --token-file, a file with the content of producer.token" in capsys.readouterr().err
    assert run(*by_token, "--token-file", d.folder / "data" / "producer.token") == 0


def test_Command_ErrorsNameItsOptions(tmp_path: Path, capsys: Printed) -> None:
    path = write(tmp_path / "rows.jsonl", [{"messages": THOUGHT}])
    same = (path, "--source", "x", "--dry-run", "--tokenizer")
    assert run(*same, saved(with_template("qwen3", "qwen3"), tmp_path / "qwen3")) == 1
    printed = capsys.readouterr().err
    assert "marks (--template), or --turns last" in printed and "turns=" not in printed
    assert run(*same, saved(with_template("llama2", "phi3_training"), tmp_path / "llama2")) == 1
    assert "Publish such chats as tokens: --as-tokens" in capsys.readouterr().err


def test_dropped_FindsEveryKind() -> None:
    def kinds(rendered: str, messages: Any, tools: Any = None) -> list[str]:
        return [text.kind for text in dropped(rendered, messages, tools)]

    assert kinds("Hi Hello", chat("Hi", " Hello ")) == []
    assert kinds("Hi", chat("Hi", "Hello")) == ["content"]
    assert kinds("Hi", chat("Hi", "Hi")) == ["content"]  # once is too few
    assert kinds("Hi a1, a", chat("Hi", "a1, a", "1", "a")) == ["content"] * 2  # in other texts alone
    assert kinds("Hello Hi", chat("Hi", "Hello")) == []  # in another order
    assert kinds("Hi <think>\nb\n</think>\n\nc", chat("Hi", "<think>b</think>c")) == []
    assert kinds("Hi c", chat("Hi", "<think>b</think>c")) == ["content"]
    assert kinds('Hi "a\\"b"', chat("Hi", 'a"b')) == []
    thought = [{"role": "assistant", "content": "a", "thinking": "because"}]
    assert kinds("a", thought) == ["reasoning"] and kinds("because a", thought) == []
    call = {"function": {"name": "f", "arguments": {"x": ["y z", 12], "n": True}}}
    called = [{"role": "assistant", "tool_calls": [call]}]
    assert kinds('f {"x": ["y z", 12]}', called) == []
    assert kinds("f y z", called) == ["tool call"] and kinds("", called) == ["tool call"] * 3
    text = [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"x":"y z"}'}}]}]
    assert kinds("f y z", text) == [] and kinds("f", text) == ["tool call"]
    assert kinds("a", chat("a"), [WEATHER]) == ["tool"] and kinds("weather a", chat("a"), [WEATHER]) == []
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert kinds("a", parts) == ["content"]
