"""Messages of several documents, from record batches to the rows of a rank."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import nats
import numpy as np
import pyarrow as pa
import pytest

import loaderd
from tokenized import SETTINGS, VOCABULARY

FINGERPRINT = SETTINGS["tokenizer.fingerprint"]
END, BOS, PREFIX, MIDDLE, SUFFIX = VOCABULARY - 1, 990, 991, 992, 993
"""Tokens around and within documents; those of documents are below 900."""

Sent = tuple[list[int], list[bool], float]
"""A document's ids, which of them have a loss, and its weight."""
Read = dict[tuple[int, int], Sent]
"""Documents by message and position in it."""


def stream_of(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def publish_batches(nats_url: str, messages: int, *, masked: float = 1.0, seed: int = 7) -> dict[int, list[Sent]]:
    """Publishes messages of 1 to 50 documents of 1 to 60 tokens, a share of them with a loss on some tokens. Returns
    the content of each."""
    draw, sent = np.random.default_rng(seed), {}

    async def publish() -> None:
        nc = await nats.connect(nats_url)
        headers = {"Content-Type": "application/vnd.apache.arrow.stream", "Loaderd-Tokenizer": FINGERPRINT}
        for message in range(messages):
            ids = [draw.integers(0, 900, draw.integers(1, 60)).tolist() for _ in range(draw.integers(1, 50))]
            masks = [draw.random(len(x)) < (0.8 if draw.random() < masked else 1) for x in ids]
            for x in masks:
                x[0] = True
            weights = draw.choice([0.5, 1, 2], len(ids))
            batch = pa.record_batch(
                {
                    "ids": pa.array(ids, pa.list_(pa.int32())),
                    "loss": pa.array([None if x.all() else x.tolist() for x in masks], pa.list_(pa.bool_())),
                    "weight": pa.array(weights, pa.float32()),
                    "id": [f"{message}/{i}" for i in range(len(ids))],
                }
            )
            ack = await nc.jetstream().publish("docs.web", stream_of(batch), headers=headers)
            sent[ack.seq] = [(x, m.tolist(), float(w)) for x, m, w in zip(ids, masks, weights, strict=True)]
        await nc.close()

    asyncio.run(publish())
    return sent


def read(d: Any, *, seal: bool = True) -> tuple[Read, list[bytes]]:
    """Returns all documents that a run reads, reassembled from their pieces, and the bytes of all steps."""
    got: dict[tuple[int, int], dict[int, tuple[int, bool]]] = {}
    weights, steps = {}, []
    with loaderd.Client(d.flight_url, documents=True, weights=True) as client:
        if seal:
            client.seal()
        for step in client:
            pieces, mask, ids = step.sources, step.loss_mask(), step.input_ids
            steps.append(ids.tobytes() + mask.tobytes())
            for row in range(step.rows):
                at = 0
                for k in range(pieces.offsets[row], pieces.offsets[row + 1]):
                    key, start, n = (
                        (int(pieces.sequence[k]), int(pieces.index[k])),
                        int(pieces.start[k]),
                        int(pieces.length[k]),
                    )
                    assert weights.setdefault(key, float(pieces.weight[k])) == pieces.weight[k]
                    document = got.setdefault(key, {})
                    for i in range(n):
                        assert start + i not in document
                        document[start + i] = int(ids[row, at + i]), bool(mask[row, at + i])
                    at += n
    whole = {}
    for key, tokens in got.items():
        in_order = [tokens[i] for i in range(len(tokens))]
        whole[key] = [t for t, _ in in_order], [has for _, has in in_order], weights[key]
    return whole, steps


def test_documents_of_a_message_are_packed_one_by_one(daemon):
    d = daemon({**SETTINGS, "documents.multiple_per_message": True})
    sent = publish_batches(d.nats_url, 40)
    got, _ = read(d)
    assert got == {
        (sequence, i): ([*ids, END], mask + mask[-1:], weight)
        for sequence, documents in sent.items()
        for i, (ids, mask, weight) in enumerate(documents)
    }
    assert len(got) > 500


def pieces_of(ids: list[int], mask: list[bool], at: int, do: str) -> list[tuple[list[int], list[bool], bool]]:
    """Returns what a limit leaves of a document: ids, losses, and whether the document ends there."""
    n = len(ids)
    if not at or n <= at:
        return [(ids, mask, True)]
    if do == "drop":
        return [([], [], False)]
    if do == "cut":
        return [(ids[:at], mask[:at], False)]
    k = -(-n // at)
    return [(ids[n * i // k : n * (i + 1) // k], mask[n * i // k : n * (i + 1) // k], i == k - 1) for i in range(k)]


def filled_out(ids: list[int]) -> tuple[list[int], bool]:
    """Returns a document reassembled from fill-in-the-middle, and whether it was transformed."""
    if ids[0] != PREFIX:
        assert not {PREFIX, MIDDLE, SUFFIX} & set(ids)
        return ids, False
    assert [ids.count(t) for t in (PREFIX, MIDDLE, SUFFIX)] == [1, 1, 1]
    s, m = ids.index(SUFFIX), ids.index(MIDDLE)
    assert 0 < s < m
    return (ids[m + 1 :] + ids[s + 1 : m] if s == 1 else ids[1:s] + ids[m + 1 :] + ids[s + 1 : m]), True


@pytest.mark.parametrize(
    ("fim", "at", "do"),
    [(0.0, 0, "cut"), (0.5, 0, "cut"), (0.5, 20, "cut"), (0.5, 20, "drop"), (0.0, 20, "split"), (0.5, 20, "split")],
)
def test_documents_of_a_message_are_transformed_one_by_one(daemon: Any, fim: float, at: int, do: str) -> None:
    settings = {
        **SETTINGS,
        "documents.multiple_per_message": True,
        "documents.bos": BOS,
        "documents.fim.rate": fim,
        **{
            f"documents.fim.tokens.{part}": i
            for part, i in (("prefix", PREFIX), ("middle", MIDDLE), ("suffix", SUFFIX))
        },
        "documents.max_tokens.at": at,
        "documents.max_tokens.do": do,
        "serve.cache_bytes": 4096,  # forces nearly every document to be read again
    }
    d = daemon(settings)
    sent = publish_batches(d.nats_url, 40, masked=0.3)
    got, steps = read(d)
    filled, pieces = 0, 0
    for sequence, documents in sent.items():
        index = 0
        for ids, mask, weight in documents:
            for own, losses, ends in pieces_of(ids, mask, at, do):
                key = sequence, index
                index += 1
                if not any(losses):
                    assert key not in got
                    continue
                tokens, has, weighs = got.pop(key)
                pieces += 1
                assert tokens[0] == BOS and has[0] == losses[0] and weighs == weight
                assert (tokens[-1] == END) == ends and BOS not in tokens[1:] and END not in tokens[:-1]
                if ends:
                    assert has[-1] == mask[-1]
                    tokens, has = tokens[:-1], has[:-1]
                if not all(mask):
                    assert (tokens[1:], has[1:]) == (own, losses)
                    continue
                whole, was = filled_out(tokens[1:])
                filled += was
                assert whole == own and all(has)
    assert not got, "nothing else comes"
    assert pieces > 300 and (not fim or 100 < filled < 0.5 * pieces) and (fim or not filled)
    audit = subprocess.run(
        [d.binary, "run", "audit", "--run", "default", *d.flags],
        cwd=d.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert audit.returncode == 0, audit.stdout + audit.stderr
    d.kill()
    d.start()
    assert read(d, seal=False)[1] == steps
