"""Chats through a daemon: a reader gets what transformers and TRL produce from the same chats."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
import pytest

from chat_tokenizers import MODELS, SPOKEN, TURN_ENDS, llama, llama_json, reference, with_template
from chats import CHATS, TOOLS, WEATHER, chat
from loaderd import Chat, Client, InvalidDocumentError, documents, publish
from published_templates import site, template
from published_tokenizers import published
from scale import everything, quick
from test_flight import action
from test_flight import read as read_columns

ENDS = {
    "qwen3": "<|endoftext|>",
    "deepseek_v3": "<｜▁pad▁｜>",
    "llama3": "<|end_of_text|>",
    "gemma3": "<eos>",
    "command_r_plus": "<EOS_TOKEN>",
}
"""End-of-document tokens, which differ from the end-of-turn tokens."""
SMALL = {
    "packing.buckets": "256",
    "packing.pool": 16,
    "packing.max_age": 64,
    "shuffle.window": 4,
    "steps.rows": 1,
    "log.level": "warn",
}

Read = dict[int, tuple[list[int], list[bool]]]


def read(daemon: Any) -> Read:
    """Seals the run and reassembles every document: sequence -> ids, and which of them have a loss."""
    action(daemon, "seal")
    found: dict[int, dict[int, tuple[int, int]]] = {}
    for _, columns in read_columns(daemon, rank=0, world=1, columns=["input_ids", "labels", "documents"]):
        for ids, labels, pieces in zip(columns["input_ids"], columns["labels"], columns["documents"], strict=True):
            at = 0
            for piece in pieces:
                document = found.setdefault(piece["sequence"], {})
                for k in range(piece["start"], piece["start"] + piece["length"]):
                    assert k not in document
                    document[k] = (int(ids[at]), int(labels[at]))
                    assert labels[at] in (ids[at], -100)
                    at += 1
    whole = {sequence: [tokens[k] for k in range(len(tokens))] for sequence, tokens in sorted(found.items())}
    return {
        sequence: ([i for i, _ in tokens], [label != -100 for _, label in tokens]) for sequence, tokens in whole.items()
    }


def weights(daemon: Any) -> dict[int, float]:
    """Returns the weight of every document that is read."""
    found = {}
    ticket = {"rank": 0, "world": 1, "columns": ["documents", "loss_weights"]}
    for chunk in flight.connect(daemon.flight_url).do_get(
        flight.Ticket(json.dumps(ticket).encode()), daemon.with_token
    ):
        for pieces, some in zip(
            chunk.data["documents"].to_pylist(), chunk.data["loss_weights"].to_pylist(), strict=True
        ):
            found |= {piece["sequence"]: weight for piece, weight in zip(pieces, some, strict=False)}
    return found


def with_end(ids: list[int], mask: list[bool], end: int) -> tuple[list[int], list[bool]]:
    return [*ids, end], [*mask, mask[-1]]


@pytest.mark.parametrize("name", quick(MODELS, ["qwen3"]))
def test_chats_of_models_arrive(daemon: Any, name: str) -> None:
    tokenizer = with_template(name, MODELS[name])
    end = tokenizer.convert_tokens_to_ids(ENDS[name])
    d = daemon(
        {
            **SMALL,
            "tokenizer.name": published(name),
            "tokenizer.end": end,
            "tokenizer.fingerprint": Chat(tokenizer).fingerprint,
        }
    )
    sent = [(some, None) for some in CHATS.values()]
    if name in ("qwen3", "deepseek_v3"):
        sent.append((TOOLS, [WEATHER]))
    rows = [{"chat": some, "tools": tools, "name": str(k)} for k, (some, tools) in enumerate(sent)]
    columns = {"messages": "chat", "tools": "tools", "id": "name"}
    assert publish(documents(rows, **columns, chat=tokenizer), d.nats_url, source="parts").documents == len(rows)
    as_tokens = Chat(tokenizer, as_tokens=True)
    publish(documents(rows, messages="chat", tools="tools", chat=as_tokens), d.nats_url, source="parts")
    want: Read = {}
    for k, (some, tools) in enumerate(sent):
        ids, mask = reference(tokenizer, some, tools=tools)
        if any(mask):  # a document without any loss is skipped
            want[k + 1] = want[len(sent) + k + 1] = with_end(ids, mask, end)
    assert len(want) == 2 * (len(sent) - 1)
    assert read(d) == want


def test_parts_of_a_text_that_gets_a_blank_in_front(daemon: Any, tmp_path: Path) -> None:
    tokenizer = llama(SPOKEN.replace("Answer: ", "Answer:"))
    (tmp_path / "tokenizer.json").write_text(llama_json())
    d = daemon({**SMALL, "tokenizer.name": tmp_path / "tokenizer.json", "tokenizer.end": 2})
    chats = [chat("who?", "the daemon", " and?", "<s>it"), chat("a", "b", "c", "")]
    publish([{"messages": some} for some in chats], d.nats_url, source="parts", chat=tokenizer)
    assert read(d) == {k + 1: with_end(*reference(tokenizer, some), 2) for k, some in enumerate(chats)}


def test_chats_among_texts_and_what_fails(daemon: Any) -> None:
    tokenizer = with_template("qwen3", "qwen3_instruct_2507")
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    d = daemon({**SMALL, "tokenizer.name": published("qwen3"), "tokenizer.end": end})
    refused: list[InvalidDocumentError] = []
    some = chat("Hi", "Hello!", "Again", " Hello.")
    sent: list[Any] = [
        "plain text",
        {"messages": some, "id": "a", "meta": {"stars": 3}, "weight": 0.5},
        {"messages": [{"role": "assistant", "content": "Hello?"}], "id": "no question"},
        {"messages": some, "chat_template_kwargs": {"tokenize": True}, "id": "bad arguments"},
        {"parts": [("Q: 1", False), (" A: 2", True)]},
        {"messages": some, "weight": -1, "id": "bad weight"},
        {"parts": [("nothing learnt", False)]},
        {"ids": [1, 2, 3, 4, 5], "loss": [False, True, True, False, False], "id": "t"},
        {"ids": [1, 2, 3, 4, 5], "loss_runs": [1, 4]},
    ]
    done = publish(
        sent,
        d.nats_url,
        source="mixed",
        tokenizer=tokenizer,
        chat=Chat(tokenizer, end_loss=True),
        on_reject=refused.append,
    )
    assert (done.documents, done.rejected) == (6, 3)
    assert [str(r).partition(":")[0] for r in refused] == [
        "document 2 ('no question')",
        "document 3 ('bad arguments')",
        "document 5 ('bad weight')",
    ]
    with pytest.raises(
        InvalidDocumentError, match=r"document 0 .'x'.: cannot render the chat template: TemplateError: not like this"
    ):
        fails = Chat(tokenizer, template="{{ raise_exception('not like this') }}")
        publish([{"messages": some, "id": "x"}, "never sent"], d.nats_url, source="mixed", chat=fails)

    def ids(text: str) -> list[int]:
        return list(tokenizer(text)["input_ids"])

    marked = with_template("qwen3", "qwen3_instruct_2507_training")
    chat_ids, mask = reference(marked, some)
    mask = [
        m and not (tokenizer.decode([i]) == "\n" and before == tokenizer.eos_token_id)
        for i, m, before in zip(chat_ids, mask, [0, *chat_ids], strict=False)
    ]
    assert read(d) == {
        1: ([*ids("plain text"), end], [True] * (len(ids("plain text")) + 1)),
        2: ([*chat_ids, end], [*mask, True]),
        3: ([*ids("Q: 1"), *ids(" A: 2"), end], [False] * len(ids("Q: 1")) + [True] * (len(ids(" A: 2")) + 1)),
        5: ([1, 2, 3, 4, 5, end], [False, True, True, False, False, False]),
        6: ([1, 2, 3, 4, 5, end], [True, False, False, False, False, False]),
    }
    assert weights(d) == {1: 1.0, 2: 0.5, 3: 1.0, 5: 1.0, 6: 1.0}
    with Client(d.flight_url) as client:
        now = client.stats()
    assert (now["skipped_documents"]["undecodable"], now["documents"], now["skipped_documents"]["masked"]) == (0, 5, 1)


@everything
@pytest.mark.parametrize("name", MODELS)
def test_other_trainers_mask_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL trains on exactly the same tokens. So does Axolotl with the published template, except for empty answers."""
    monkeypatch.setattr(
        sys, "path", [*sys.path, str(site()), str(Path(__file__).resolve().parents[2] / "bench" / "python" / "chats")]
    )
    import chat_masks as masks

    answered = {label: some for label, some in CHATS.items() if label != "no answer"}
    chats = list(answered.values())
    tokenizer = with_template(name, MODELS[name])
    assert masks.loaderd(tokenizer, chats) == masks.trl(tokenizer, chats, tmp_path)
    if name in ("qwen3", "deepseek_v3"):  # without marks the beginning of their answers is undefined
        return
    plain = MODELS[name].removesuffix("_training")
    tokenizer = with_template(name, plain)
    theirs = masks.axolotl(tokenizer, chats, template(plain), [TURN_ENDS[name]])
    differ = [label for label, a, b in zip(answered, masks.loaderd(tokenizer, chats), theirs, strict=False) if a != b]
    assert differ == ["an empty answer"]
