"""Additional data of documents, from producers to the rows of a rank: values per token, and values of documents."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import nats
import numpy as np
import pyarrow as pa
import pytest
import torch

import loaderd
from loaderd.torch import StepLoader
from scale import share
from tokenized import SETTINGS, TOKENIZER

COLUMNS = {
    "twin": ("int32", -1),
    "half": ("float16", -0.5),
    "single": ("float32", 1.5),
    "byte": ("int8", -3),
    "short": ("int16", -300),
    "flag": ("bool", "true"),
}
META = {"lang": "string", "year": "int64", "score": "float64"}
NAMES = [*COLUMNS, *META]
SETUP = {
    **SETTINGS,
    "documents.multiple_per_message": True,
    **{f"documents.columns.{name}.type": kind for name, (kind, _) in COLUMNS.items()},
    **{f"documents.columns.{name}.fill": fill for name, (_, fill) in COLUMNS.items()},
    **{f"documents.meta.{name}": kind for name, kind in META.items()},
}
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream", "Loaderd-Tokenizer": TOKENIZER}
TYPES = {
    "twin": pa.int32(),
    "half": pa.float16(),
    "single": pa.float32(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "flag": pa.bool_(),
}
FILLS = {"twin": -1, "half": -0.5, "single": 1.5, "byte": -3, "short": -300, "flag": True}
EACH = 1 << 12
"""More than the tokens of any document. `twin` is EACH times a document's number, plus the token's position in it."""


def values(number: int, n: int) -> dict[str, np.ndarray]:
    """Returns the values of a document's tokens in every column."""
    return values_of(number * EACH + np.arange(n))


def values_of(twin: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the values of tokens in every column, by their twins."""
    return {
        "twin": twin.astype(np.int32),
        "half": (twin % 100 / 4).astype(np.float16),
        "single": (twin * 0.5).astype(np.float32),
        "byte": (twin % 100 - 50).astype(np.int8),
        "short": (twin % 3000).astype(np.int16),
        "flag": twin % 3 == 0,
    }


def meta(number: int) -> dict[str, Any]:
    """Returns a document's meta: none, partial or complete."""
    said = {
        "lang": ["de", "", "日本語", "fr"][number % 4],
        "year": 1900 + number,
        "score": number / 8,
        "unasked": [1, {"x": "}"}],
    }
    return {} if number % 5 == 0 else {k: v for i, (k, v) in enumerate(said.items()) if number % 7 != i}


def stream_of(columns: dict[str, Any]) -> bytes:
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def message_of(documents: dict[int, np.ndarray]) -> bytes:
    """Returns a record batch of documents, by number. Every third has no columns, and some have a null among the
    values."""
    of = {i: values(i, len(ids)) for i, ids in documents.items()}
    cols: dict[str, Any] = {"ids": pa.array(documents.values(), pa.list_(pa.int32()))}
    for name, kind in TYPES.items():
        rows = [
            None
            if i % 3 == 0 and name != "twin"
            else [None if i % 11 == 0 and name == "half" else v for v in of[i][name].tolist()]
            for i in documents
        ]
        cols[name] = pa.array(rows, pa.list_(kind))
    said = [meta(i) for i in documents]
    cols["lang"] = pa.array([m.get("lang") for m in said], pa.dictionary(pa.int16(), pa.string()))
    cols["year"] = pa.array([m.get("year") for m in said], pa.int64())
    cols["score"] = pa.array([m.get("score") for m in said], pa.float64())
    return stream_of(cols)


def expected(name: str, twin: int) -> Any:
    """Returns a token's expected value in a column, by its twin. Tokens without a document, those with twin -1
    included, have the fill."""
    number = twin // EACH
    if twin < 0 or number % 3 == 0 or (number % 11 == 0 and name == "half"):
        return FILLS[name]
    return values_of(np.array([twin]))[name][0]


def send(d: Any, sent: dict[int, np.ndarray], *, tokens: bool = True) -> None:
    """Publishes documents in messages of up to 30. Each one divisible by 13 is a separate message of token ids, with
    a header."""

    async def run() -> None:
        nc = await nats.connect(d.nats_url)
        js = nc.jetstream()
        rest = dict(sent)
        while rest:
            some = {i: rest.pop(i) for i in list(rest)[:30]}
            alone = [i for i in some if i % 13 == 0 and tokens]
            await js.publish("docs.web", message_of({i: x for i, x in some.items() if i not in alone}), headers=ARROW)
            for i in alone:
                headers = {
                    "Content-Type": "application/vnd.loaderd.tokens",
                    "Loaderd-Tokenizer": TOKENIZER,
                    "Loaderd-Meta": json.dumps(meta(i)),
                }
                await js.publish("docs.web", some[i].astype("<i4").tobytes(), headers=headers)
        await nc.close()

    asyncio.run(run())


def made(n: int, longest: int, seed: int = 3) -> dict[int, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {i: draw.integers(10, 900, draw.integers(1, longest), dtype=np.int32) for i in range(1, n + 1)}


@pytest.mark.parametrize(
    ("settings", "once"),
    [
        ({}, True),
        ({"packing.method": "concat", "packing.buckets": 64, "packing.atom": 0.5}, True),
        ({"packing.method": "seamless", "packing.buckets": 64, "packing.overlap": 0.3}, False),
        ({"packing.method": "bucketllm", "documents.bos": 7}, True),
        (
            {
                "documents.fim.rate": 0.7,
                "documents.fim.tokens.prefix": 1,
                "documents.fim.tokens.middle": 2,
                "documents.fim.tokens.suffix": 3,
                "documents.bos": 7,
                "documents.max_tokens.at": 100,
            },
            False,
        ),
    ],
)
def test_values_stand_with_their_tokens(daemon, settings, once):
    d, sent = daemon({**SETUP, **settings}), made(share(700, 2), 160)
    send(d, sent)
    seen: Counter[int] = Counter()
    of_meta: dict[int, tuple[Any, ...]] = {}
    langs = set()
    with loaderd.Client(d.flight_url, documents=True, columns=NAMES) as client:
        client.seal()
        for step in client:
            twins, ids = step.column("twin"), step.input_ids
            found = {name: step.column(name) for name in COLUMNS}
            said = {name: step.values(name) for name in META}
            assert {name: x.dtype.name for name, x in found.items()} == {
                name: kind for name, (kind, _) in COLUMNS.items()
            }
            seen.update(twins[twins >= 0].tolist())
            pieces = step.sources
            for row in range(step.rows):
                for slot, twin in enumerate(twins[row].tolist()):
                    if twin >= 0:
                        assert ids[row, slot] == sent[twin // EACH][twin % EACH]
                    for name, column in found.items():
                        assert column[row, slot] == (twin if name == "twin" else expected(name, twin)), (name, twin)
                at, first = 0, pieces.offsets[row]
                for k in range(first, pieces.offsets[row + 1]):
                    n = int(pieces.length[k])
                    own = {t // EACH for t in twins[row, at : at + n].tolist() if t >= 0}
                    assert len(own) <= 1
                    for number in own:
                        of_meta[number] = tuple(said[name][row][k - first] for name in META)
                    langs.add(said["lang"][row][k - first])
                    at += n
                assert all(len(said[name][row]) == pieces.offsets[row + 1] - first for name in META)
                assert (twins[row, at:] == -1).all()
    assert d.metric("loaderd_undecodable_documents_total") == 0
    ours = {i * EACH + k for i, ids in sent.items() if i % 13 for k in range(len(ids))}
    if once:
        assert seen.keys() == ours and set(seen.values()) == {1}
    elif "packing.method" in settings:
        assert seen.keys() <= ours and len(seen) > 0.8 * len(ours) and max(seen.values()) > 1
    else:
        assert seen.keys() == {t for t in ours if t % EACH < 100} and set(seen.values()) == {1}
    assert of_meta == {i: tuple(meta(i).get(name) for name in META) for i in of_meta}
    assert len(of_meta) > len(sent) * 5 // 7
    assert langs == {"de", "", "日本語", "fr", None}


def test_batches_of_torch_have_them(daemon):
    d, sent = daemon(SETUP), made(500, 160)
    send(d, sent)
    with loaderd.Client(d.flight_url, columns=NAMES) as client:
        client.seal()
        steps = list(client)
    loaders = [
        StepLoader(
            d.flight_url, rank=r, world_size=2, columns=["lang", "twin", "half", "flag", "byte", "short", "single"]
        )
        for r in (0, 1)
    ]
    mock = loaders[0].get_mock_batch()
    assert (mock["half"] == -0.5).all() and mock["lang"] == [[None]] * len(mock["half"])
    for i, (step, *batches) in enumerate(zip(steps, *loaders, strict=True)):
        for name, (kind, _) in COLUMNS.items():
            tensor = torch.cat([b[name] for b in batches])
            assert tensor.dtype == getattr(torch, kind) == mock[name].dtype
            assert np.array_equal(tensor.numpy(), step.column(name))
        assert [row for b in batches for row in b["lang"]] == step.values("lang")
        assert "year" not in batches[0]
        if i == 20:  # a daemon that is killed and restarted returns the same
            d.kill()
            d.start()
    assert len(steps) > 40
    for loader in loaders:
        loader.close()


def test_runs_without_columns_have_none(daemon):
    d = daemon({**SETTINGS, "documents.multiple_per_message": True})
    with (
        loaderd.Client(d.flight_url, columns=["twin"]) as client,
        pytest.raises(loaderd.InvalidTicketError, match=r"unknown column.*twin.*want columns from input_ids"),
    ):
        next(client)
    with loaderd.Client(d.flight_url) as client:
        assert not {*NAMES} & {*client.info().columns}
