"""docs/reference/messages.md: each line of Python sends the adjacent message, and both arrive as the page states.

docs/how-to/chats.md: a row in columns of the wire and in batches.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import nats
import pyarrow as pa
import pyarrow.flight as flight
import pytest

import loaderd
from jobs import ROOT
from loaderd.producer._message import Encoder
from loaderd.torch import StepLoader

PAGE = (ROOT / "docs" / "reference" / "messages.md").read_text(encoding="utf-8")
CHATS = (ROOT / "docs" / "how-to" / "chats.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)\n\n(.*?)\n-> (.*?)\n```", re.DOTALL)
ARROW = "application/vnd.apache.arrow.stream"
ROW = re.compile(r"```text\n(\w.*?)```", re.DOTALL)
SMALL = {"packing.pool": 8, "packing.max_age": 32, "shuffle.window": 0, "steps.rows": 1, "log.level": "warn"}

Arrived = tuple[list[str], float]


def spelled(tokenizer: Any, ids: list[int]) -> list[str]:
    """Returns tokens in the page's notation."""
    names = {"<|endoftext|>": "END", "Ġ": "_"}
    return [names.get(token, token) for token in tokenizer.convert_ids_to_tokens(ids)]


def written(text: str) -> Arrived:
    """Returns the page's expectation: tokens, those with a loss in brackets, and the weight if it has one."""
    tokens, _, weight = text.partition(" weight ")
    out, inside = [], False
    for token in tokens.split():
        inside = inside or token.startswith("[")
        out.append(f"[{token.strip('[]')}]" if inside else token)
        inside = inside and not token.endswith("]")
    return out, float(weight or 1)


def read(d: Any, tokenizer: Any) -> list[Arrived]:
    """Seals the run and reads every document."""
    found = {}
    with loaderd.Client(d.flight_url, documents=True, weights=True) as client:
        client.seal()
        for step in client:
            pieces = step.sources
            tokens, mask = spelled(tokenizer, step.input_ids[0].tolist()), step.loss_mask()[0]
            at = 0
            indices = [0] * len(pieces.sequence) if pieces.index is None else pieces.index
            for sequence, index, length, weight in zip(
                pieces.sequence, indices, pieces.length, pieces.weight, strict=True
            ):
                some = range(at, at := at + int(length))
                found[int(sequence), int(index)] = (
                    [f"[{tokens[k]}]" if mask[k] else tokens[k] for k in some],
                    float(weight),
                )
    return [document for _, document in sorted(found.items())]


def test_payloads(daemon: Callable[..., Any], tokenizer: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    fingerprint = loaderd.Chat(tokenizer).fingerprint
    d = daemon({**SMALL, "tokenizer.name": tmp_path / "tokenizer.json", "packing.buckets": 64})
    examples = [e for e in EXAMPLE.findall(PAGE) if ARROW not in e[1]]
    assert len(examples) == len(re.findall("```python", PAGE)) - 1 == 8
    sent: list[tuple[str, dict[str, str], bytes]] = []
    given: list[tuple[Any, dict[str, Any]]] = []
    with monkeypatch.context() as m:
        publish = loaderd.publish
        m.setattr(
            loaderd,
            "publish",
            lambda documents, url, **more: (given.append((documents, more)), publish(documents, url, **more)),
        )
        for code, head, payload, _ in examples:
            exec(code, {"loaderd": loaderd, "url": d.nats_url, "tokenizer": tokenizer})
            subject, *lines = head.splitlines()
            headers = dict(line.split(": ", 1) for line in lines)
            if "Loaderd-Tokenizer" in headers:
                assert headers["Loaderd-Tokenizer"] == "sha256:..."
                headers["Loaderd-Tokenizer"] = fingerprint
                ids = payload.removesuffix(" as int32, little-endian").split()
                sent.append((subject, headers, b"".join(int(i).to_bytes(4, "little") for i in ids)))
            else:
                sent.append((subject, headers, payload.encode()))

    for (documents, more), (subject, headers, payload) in zip(given, sent, strict=True):
        assert subject == f"docs.{more['source']}"
        chat = loaderd.Chat(tokenizer) if "chat" in more else None
        message = Encoder(more["source"], fingerprint=fingerprint, chat=chat).encode(documents[0], 0)
        assert {k: v for k, v in message.headers.items() if k != "Nats-Msg-Id"} == headers
        as_json = headers.get("Content-Type") == "application/json"
        assert json.loads(message.payload) == json.loads(payload) if as_json else message.payload == payload

    async def raw() -> None:
        nc = await nats.connect(d.nats_url)
        for subject, headers, payload in sent:
            await nc.jetstream().publish(subject, payload, headers=headers or None)
        await nc.close()

    asyncio.run(raw())
    wanted = [written(arrives) for _, _, _, arrives in examples]
    assert read(d, tokenizer) == wanted * 2


def test_several_in_a_message(daemon: Callable[..., Any], tokenizer: Any, tmp_path: Any) -> None:
    tokenizer.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    d = daemon(
        {
            **SMALL,
            "tokenizer.name": tmp_path / "tokenizer.json",
            "packing.buckets": 64,
            "documents.multiple_per_message": True,
        }
    )
    [(code, head, payload, arrives)] = [e for e in EXAMPLE.findall(PAGE) if ARROW in e[1]]
    exec(code, {"loaderd": loaderd, "url": d.nats_url, "tokenizer": tokenizer})

    async def stored() -> Any:
        nc = await nats.connect(d.operator_url)
        try:
            return await nc.jetstream().get_msg("DOCS", 1)
        finally:
            await nc.close()

    message = asyncio.run(stored())
    headers = {k: v for k, v in message.headers.items() if k.startswith(("Content-Type", "Loaderd-Tokenizer"))}
    subject, *lines = head.splitlines()
    assert message.subject == subject
    assert headers == dict(line.split(": ", 1) for line in lines) | {
        "Loaderd-Tokenizer": loaderd.Chat(tokenizer).fingerprint
    }
    rows = [json.loads(line) for line in payload.replace(" in an Arrow IPC stream", "").splitlines()]
    assert pa.ipc.open_stream(message.data).read_all().to_pylist() == rows
    assert read(d, tokenizer) == [written(one) for one in arrives.split("\n-> ")]


def test_row(daemon: Callable[..., Any], tokenizer: Any, tmp_path: Any) -> None:
    """Checks the row of docs/how-to/chats.md, in columns of the wire and in batches."""
    tokenizer.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    d = daemon({**SMALL, "tokenizer.name": tmp_path / "tokenizer.json", "packing.buckets": 12, "packing.holdback": 0})
    loaderd.publish([{"parts": [("2+2=", False), ("4", True)], "weight": 0.5}, "Hi"], d.nats_url, source="web")
    wire, batches = (dict(re.split(r"  +", line) for line in block.splitlines()) for block in ROW.findall(CHATS))

    def labels(ids: list[int]) -> str:
        return " ".join("-" if i == -100 else spelled(tokenizer, [i])[0] for i in ids)

    def numbers(values: Any) -> str:
        return " ".join(f"{v:g}" for v in values)

    with loaderd.Client(d.flight_url) as client:
        client.seal()
    [chunk] = flight.connect(d.flight_url).do_get(
        flight.Ticket(json.dumps({"columns": list(wire)}).encode()), d.with_token
    )
    [row], meta = chunk.data.to_pylist(), json.loads(chunk.app_metadata.to_pybytes())
    pad = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    assert [
        *spelled(tokenizer, row["input_ids"][:9]),
        *["PAD" if i == pad else "" for i in row["input_ids"][9:]],
    ] == wire["input_ids"].split()
    assert labels(row["labels"]) == wire["labels"]
    for name in ("segment_ids", "cu_seqlens", "loss_runs", "loss_weights"):
        assert numbers(row[name]) == wire[name]
    assert (meta["step_loss_tokens"], meta["step_loss_segments"]) == (5, 1)
    fields = ["labels", "loss_weights", "num_loss_tokens_global"]
    for form in ("unshifted", "shifted"):
        with StepLoader(d.flight_url, labels=form, fields=fields, job=form) as loader:
            batch = next(loader)
        assert labels(batch["labels"][0].tolist()) == batches[f"labels, {form}"]
        assert numbers(batch["loss_weights"][0].tolist()) == batches[f"loss_weights, {form}"]
        assert batch["num_loss_tokens_global"] == 4
    for said in (
        "| `step_loss_tokens` | 5 |",
        "| `step_loss_segments` | 1 |",
        "| `num_loss_tokens_global` in the batch | 4 |",
    ):
        assert said in CHATS
