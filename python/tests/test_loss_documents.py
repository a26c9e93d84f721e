"""A document's loss in the wire format: parts, masks, runs and weights, and which values are refused."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from loaderd import InvalidDocumentError, documents
from loaderd.producer._message import Encoder, Message
from tokenized import TOKENIZER

JSON = "application/json"


def encode(document: Any) -> Message:
    return Encoder("web", fingerprint=TOKENIZER).encode(document, 4)


@pytest.mark.parametrize(
    "given",
    [
        [{"text": "Q", "loss": False}, {"text": "A é"}],
        [("Q", False), ("A é", True)],
        (["Q", np.False_], ["A é", np.True_]),
        ({"text": t, "loss": t != "Q"} for t in ("Q", "A é")),
    ],
)
def test_parts(given: Any) -> None:
    message = encode({"parts": given, "meta": {"stars": 3}, "id": "a", "weight": 0.25})
    assert json.loads(message.payload) == {
        "parts": [{"text": "Q", "loss": False}, {"text": "A é", "loss": True}],
        "meta": {"stars": 3},
    }
    assert message.headers == {"Content-Type": JSON, "Nats-Msg-Id": "a", "Loaderd-Weight": "0.25"}
    assert json.loads(encode({"parts": []}).payload) == {"parts": []}


@pytest.mark.parametrize(
    ("said", "header"),
    [
        ({"loss": [True, True, False, True]}, "2,1,1"),
        ({"loss": [False, False, True, True]}, "0,2,2"),
        ({"loss": [0, 1, 0, 0]}, "0,1,1,2"),
        ({"loss": np.array([0, 0, 0, 0])}, "0,4"),
        ({"loss": (np.True_, np.True_, np.False_, np.False_)}, "2,2"),
        ({"loss": [True] * 4}, None),
        ({"loss_runs": [2, 1, 1]}, "2,1,1"),
        ({"loss_runs": np.array([0, 4], np.uint8)}, "0,4"),
        ({"loss_runs": [4]}, None),
        ({"loss_runs": [1, 0, 3]}, None),
        ({"loss": None, "loss_runs": None}, None),
    ],
)
def test_loss_of_tokens(said: dict[str, Any], header: str | None) -> None:
    message = encode({"ids": [5, 6, 7, 8], **said})
    assert message.headers.get("Loaderd-Loss") == header
    assert message.payload == np.array([5, 6, 7, 8], "<i4").tobytes()


def test_loss_of_no_tokens() -> None:
    assert "Loaderd-Loss" not in encode({"ids": [], "loss": []}).headers
    assert "Loaderd-Loss" not in encode({"ids": [], "loss_runs": []}).headers


@pytest.mark.parametrize(
    ("weight", "header"),
    [
        (0.5, "0.5"),
        (0, "0.0"),
        (2, "2.0"),
        (np.float32(0.1), "0.10000000149011612"),
        (np.int64(3), "3.0"),
        (1e-50, "1e-50"),
        (1, None),
        (1.0, None),
        (None, None),
    ],
)
def test_weights(weight: Any, header: str | None) -> None:
    for document in ({"text": "a"}, {"ids": [1]}, {"parts": [("a", True)]}):
        assert encode({**document, "weight": weight}).headers.get("Loaderd-Weight") == header


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"parts": "ab"}, "parts is a str, want a list"),
        ({"parts": {"text": "a"}}, "parts is a dict"),
        ({"parts": 5}, "parts is a int"),
        ({"parts": ["ab"]}, "part 0 is a str, want"),
        ({"parts": [("a", True), ("b",)]}, "part 1 is a tuple, want"),
        ({"parts": [("a", True), (b"b", True)]}, "part 1: its text is a bytes, want str"),
        ({"parts": [{"loss": True}]}, "part 0: its text is a NoneType"),
        ({"parts": [{"text": "a", "loss": 1}]}, "part 0: its loss is 1, want True or False"),
        ({"parts": [{"text": "a", "loss": None}]}, "part 0: its loss is None"),
        ({"parts": [("a", "yes")]}, "part 0: its loss is 'yes'"),
        ({"parts": [{"text": "a", "weight": 1}]}, r"part 0 has unknown keys \['weight'\]"),
        ({"parts": [("a", True)], "text": "a"}, "both text and parts: want one of"),
        ({"parts": [("a", True)], "loss": [True]}, "loss requires ids; for a text, give parts"),
        ({"text": "a", "loss_runs": [1]}, "loss_runs requires ids"),
        ({"text": "a", "tools": []}, "tools requires messages"),
        ({"ids": [1, 2], "loss": [True]}, "loss has 1 entries, the document has 2 tokens"),
        ({"ids": [1, 2], "loss": [True, True, False]}, "loss has 3 entries"),
        ({"ids": [1, 2], "loss": [0, 2]}, "values other than True and False"),
        ({"ids": [1, 2], "loss": [-1, 1]}, "values other than True and False"),
        ({"ids": [1, 2], "loss": [0.0, 1.0]}, "values other than True and False"),
        ({"ids": [1, 2], "loss": ["True", "False"]}, "values other than True and False"),
        ({"ids": [1, 2], "loss": "11"}, "loss is a str, want a bool for each token"),
        ({"ids": [1, 2], "loss": True}, "loss is a bool, want a bool for each token"),
        ({"ids": [1, 2], "loss": [[True, False]]}, "loss has 2 dimensions"),
        ({"ids": [1, 2], "loss": [[True], [True, False]]}, "loss: "),
        ({"ids": [1, 2], "loss_runs": [1]}, "loss_runs add up to 1, the document has 2 tokens"),
        ({"ids": [1, 2], "loss_runs": [1, 2]}, "loss_runs add up to 3"),
        ({"ids": [1, 2], "loss_runs": []}, "loss_runs add up to 0"),
        ({"ids": [1, 2], "loss_runs": [3, -1]}, "loss_runs from -1 to 3"),
        ({"ids": [1, 2], "loss_runs": [2**31]}, "loss_runs from 2147483648"),
        ({"ids": [1, 2], "loss_runs": [1.0, 1.0]}, "loss_runs are float64, want integers"),
        ({"ids": [1, 2], "loss_runs": [True, True]}, "loss_runs are bool, want integers"),
        ({"ids": [1, 2], "loss_runs": "1,1"}, "loss_runs is a str"),
        ({"ids": [1, 2], "loss": [True, True], "loss_runs": [2]}, "both loss and loss_runs"),
        ({"text": "a", "weight": -0.5}, "weight is -0.5: want a finite number, 0 or more"),
        ({"text": "a", "weight": float("nan")}, "weight is nan"),
        ({"text": "a", "weight": float("inf")}, "weight is inf"),
        ({"text": "a", "weight": 1e39}, "weight is 1e"),
        ({"text": "a", "weight": 10**400}, "weight is 1000"),
        ({"text": "a", "weight": "0.5"}, "weight is a str, want a number"),
        ({"text": "a", "weight": True}, "weight is a bool"),
    ],
)
def test_what_is_refused(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidDocumentError, match=f"document 4: .*{problem}"):
        encode(document)
    with pytest.raises(ValueError, match=rf"document 4 \('page 7'\): .*{problem}") as caught:
        encode({**document, "id": "page 7"})
    assert caught.value.facts == {"position": "4"}  # type: ignore[attr-defined]


def test_loss_and_weight_are_part_of_ids_that_are_made() -> None:
    plain = encode({"ids": [1, 2]}).id
    assert plain == encode([1, 2]).id == encode({"ids": [1, 2], "loss": [1, 1], "weight": 1}).id
    said = encode({"ids": [1, 2], "loss": [1, 0], "weight": 0.5}).id
    headers = b"\0Loaderd-Loss\x001,1" + b"\0Loaderd-Weight\x000.5"
    assert said == hashlib.sha256(b"web\0\x004\0" + np.array([1, 2], "<i4").tobytes() + headers).hexdigest()[:32]
    assert (
        len({plain, said, encode({"ids": [1, 2], "loss": [1, 0]}).id, encode({"ids": [1, 2], "weight": 0.5}).id}) == 4
    )


def test_columns_of_datasets() -> None:
    rows = [
        {
            "q": "Q",
            "a": "A",
            "quality": 0.5,
            "mask": [1, 0],
            "runs": [0, 2],
            "tokens": [3, 4],
            "chat": [{"role": "user", "content": "x"}],
            "more": None,
        }
    ]
    assert list(documents(rows, parts=lambda row: [(row["q"], False), (row["a"], True)], weight="quality")) == [
        {"parts": [("Q", False), ("A", True)], "weight": 0.5}
    ]
    assert list(documents(rows, ids="tokens", loss="mask")) == [{"ids": [3, 4], "loss": [1, 0]}]
    assert list(documents(rows, ids="tokens", loss_runs="runs")) == [{"ids": [3, 4], "loss_runs": [0, 2]}]
    chats = documents(
        rows, messages="chat", tools="more", chat_template_kwargs=lambda row: {"x": 1}, chat="renders", weight="quality"
    )
    assert list(chats) == [
        {"messages": rows[0]["chat"], "tools": None, "chat_template_kwargs": {"x": 1}, "weight": 0.5}
    ]
    assert chats.chat == chats.skip(1).chat == "renders"
    assert list(documents([{"text": "a", "w": 2}], weight="w")) == [{"text": "a", "weight": 2}]
    for wrong, problem in (
        ({"text": "a", "parts": "b"}, "text and parts: want one of them"),
        ({"ids": "a", "messages": "b"}, "ids and messages: want one of them"),
        ({"loss": "a"}, "loss requires ids"),
        ({"tools": "a"}, "tools requires messages"),
        ({"parts": "a", "tokenizer": TOKENIZER}, "omit it with parts"),
        ({"messages": "a", "tokenizer": TOKENIZER}, "omit it with messages, which require chat="),
        ({"parts": "a", "tokenizer": TOKENIZER, "encode": list}, "and no parts="),
    ):
        with pytest.raises(ValueError, match=problem):
            documents(rows, **wrong)  # type: ignore[arg-type]
