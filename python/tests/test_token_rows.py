"""Chats that other libraries tokenized: their ids, losses and boundaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loaderd import InvalidDocumentError
from loaderd.chats import ChatRows
from loaderd.chats._token_rows import token_documents


def packed(chats: list[tuple[list[int], list[int]]]) -> dict[str, list[int]]:
    """Returns chats, each of ids and losses, in a row as fill_packing_strategy of Megatron-Bridge does."""
    row: dict[str, list[int]] = {"input_ids": [], "loss_mask": [], "seq_start_id": []}
    for ids, loss in chats:
        row["seq_start_id"].append(len(row["input_ids"]))
        row["input_ids"] += ids
        row["loss_mask"] += [*loss[1:], 0]  # aligned to the labels
    return row


CHATS = [([1, 2, 3, 4], [0, 0, 1, 1]), ([5, 6], [0, 1]), ([7, 8, 9], [0, 1, 0])]


def read(rows: Any) -> list[tuple[list[int], list[int]]]:
    return [(document["ids"].tolist(), document["loss"].astype(int).tolist()) for document in rows]


def test_token_documents_MegatronBridge(tmp_path: Path) -> None:
    rows = [packed(CHATS), packed(CHATS[1:])]
    np.save(tmp_path / "packed.npy", rows, allow_pickle=True)  # type: ignore[arg-type]
    np.save(tmp_path / "arrays.npy", np.array([{k: np.array(v) for k, v in row.items()} for row in rows], object))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "packed.idx.parquet")
    (tmp_path / "packed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("packed.npy", "arrays.npy", "packed.idx.parquet", "packed.jsonl"):
        found = ChatRows([str(tmp_path / name)])
        assert read(found) == CHATS + CHATS[1:]
        for first in range(6):
            assert read(found.skip(first)) == (CHATS + CHATS[1:])[first:]


def test_token_documents_TRL() -> None:
    row = {"input_ids": [1, 2, 3, 4, 5], "seq_lengths": [2, 3]}
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [1, 1, 1, 1, 1]),
        ({"completion_mask": [0, 1, 0, 1, 1]}, [0, 1, 0, 1, 1]),
        ({"completion_mask": [0, 1, 0, 1, 1], "assistant_masks": [1, 1, 1, 0, 1]}, [0, 1, 0, 0, 1]),
        ({"labels": [-100, 2, -100, 4, -100]}, [0, 1, 0, 1, 0]),
    ]
    for more, loss in cases:
        whole = token_documents({"input_ids": row["input_ids"], **more}, 6)
        assert read(whole) == [([1, 2, 3, 4, 5], loss)]
        assert read(token_documents({**row, **more}, 6)) == [([1, 2], loss[:2]), ([3, 4, 5], loss[2:])]
    padded = token_documents(
        {"input_ids": [1, 2, 0, 0], "attention_mask": [1, 1, 0, 0], "labels": [-100, 2, -100, -100]}, 6
    )
    assert read(padded) == [([1, 2], [0, 1])]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"input_ids": []}, "are empty"),
        ({"input_ids": [[1]]}, "not a list of integers"),
        ({"input_ids": [1.5]}, "not a list of integers"),
        ({"input_ids": "abc"}, "not a list of integers"),
        ({"input_ids": [1, 9]}, "from 1 to 9, want 0 to 5"),
        ({"input_ids": [1, -1]}, "from -1 to 1"),
        ({"input_ids": [1, 2], "completion_mask": [1]}, "completion_mask has 1 values, its input_ids have 2"),
        ({"input_ids": [1, 2], "assistant_masks": [1, 2]}, "values other than 0 and 1"),
        ({"input_ids": [1, 2], "labels": [2, -100]}, "neither its input_ids nor -100"),
        ({"input_ids": [1, 2], "seq_lengths": [1]}, "do not add up to its 2"),
        ({"input_ids": [1, 2], "seq_start_id": [1]}, "not increasing positions"),
        ({"input_ids": [1, 2], "seq_start_id": [0, 2]}, "not increasing positions"),
        ({"input_ids": [1, 2], "attention_mask": [0, 0]}, "no tokens"),
    ],
)
def test_token_documents_InvalidRows(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidDocumentError, match=problem):
        token_documents(row, 6)
