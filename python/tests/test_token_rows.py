"""Chats that other libraries tokenized: their ids, losses and boundaries."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loaderd import InvalidDocumentError
from loaderd.chats import ChatRows, RowOptions
from loaderd.chats._errors import FileError
from loaderd.chats._token_rows import token_documents
from scale import share


def packed(chats: list[tuple[list[int], list[int]]]) -> dict[str, list[int]]:
    """Returns chats, each of ids and losses, in a row as fill_packing_strategy of Megatron-Bridge does."""
    row: dict[str, list[int]] = {"input_ids": [], "loss_mask": [], "seq_start_id": []}
    for ids, loss in chats:
        row["seq_start_id"].append(len(row["input_ids"]))
        row["input_ids"] += ids
        row["loss_mask"] += [*map(bool, loss[1:]), False]  # aligned to the labels
    return row


CHATS = [([1, 2, 3, 4], [0, 0, 1, 1]), ([5, 6], [0, 1]), ([7, 8, 9], [0, 1, 0])]


def read(rows: Any) -> list[tuple[list[int], list[int]]]:
    return [(document["ids"].tolist(), document["loss"].astype(int).tolist()) for document in rows]


def test_token_documents_MegatronBridge(tmp_path: Path) -> None:
    rows = [packed(CHATS), packed(CHATS[1:])]
    np.save(tmp_path / "packed.npy", rows, allow_pickle=True)  # type: ignore[arg-type]
    np.save(tmp_path / "arrays.npy", np.array([{k: np.array(v) for k, v in row.items()} for row in rows], object))
    (tmp_path / "shards").mkdir()
    for path in ("packed.idx.parquet", "shards/shard_0.idx.pq"):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / path, row_group_size=500)
    (tmp_path / "packed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("packed.npy", "arrays.npy", "packed.idx.parquet", "shards", "packed.jsonl"):
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


def olmo_cache(folder: Path, chats: Any, kind: Any = np.uint32, size: int = 1 << 20) -> Path:
    """Writes chats as convert_hf_to_numpy_sft of open-instruct does, in parts of `size` tokens (there of 1 GiB)."""
    (folder / "tokenizer").mkdir(parents=True)
    for name in ("tokenizer/tokenizer.json", "dataset_statistics.json"):
        (folder / name).write_text("{}")
    tokens = np.array([token for ids, _ in chats for token in ids], kind)
    losses = np.array([loss for _, some in chats for loss in some], np.bool_)
    ends = np.cumsum([len(ids) for ids, _ in chats]).tolist()
    for part, begin in enumerate(range(0, len(tokens), size)):
        end = min(begin + size, len(tokens))
        for name, values in (("token_ids", tokens), ("labels_mask", losses)):
            file = np.memmap(folder / f"{name}_part_{part:04d}.npy", values.dtype, "w+", shape=(end - begin,))
            file[:] = values[begin:end]
            file.flush()
        with gzip.open(folder / f"token_ids_part_{part:04d}.csv.gz", "wt") as file:
            for first, last in zip([0, *ends], ends, strict=False):
                if last > begin and first < end:
                    file.write(f"{max(0, first - begin)},{min(end, last) - begin}\n")
    return folder


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_ChatRows_OlmoCore(kind: Any, tmp_path: Path) -> None:
    whole = olmo_cache(tmp_path / "whole", CHATS, kind)
    for path in (whole, whole / "token_ids_part_0000.npy"):
        found = ChatRows([str(path)])
        assert read(found) == CHATS
        assert [read(found.skip(first)) for first in range(4)] == [CHATS[first:] for first in range(4)]
    parts = olmo_cache(tmp_path / "parts", CHATS, kind, 5)  # the second chat is in two parts
    assert read(ChatRows([str(parts)])) == [CHATS[0], ([5], [0]), ([6], [1]), CHATS[2]]
    with pytest.raises(InvalidDocumentError, match="from 7 to 9, want 0 to 8"):
        raise list(ChatRows([str(whole)], RowOptions(vocabulary=9)))[2]


BOUNDS = "token_ids_part_0000.csv.gz"
DAMAGED: list[tuple[str, bytes | None, str]] = [
    (BOUNDS, None, "has no boundaries, token_ids_part_0000.csv.gz: `loaderd import"),
    (BOUNDS, b"0,4\n4,6\n", "ends at token 6, but token_ids_part_0000.npy has 9 tokens"),
    (BOUNDS, b"0,4\n5,9\n", ":2 is a document of the tokens 5 to 9: want one that starts at 4 and ends by 9"),
    (BOUNDS, b"0,4\n4,10\n", "want one that starts at 4 and ends by 9"),
    (BOUNDS, b"0,4\n4,4\n4,9\n", "want one that starts at 4"),
    (BOUNDS, b"0,4\n4\n", ":2 is '4\\\\n', want start,end"),
    (BOUNDS, b"start,end\n", "want start,end"),
    (BOUNDS, b"\xff\n", "cannot be read"),
    ("token_ids_part_0000.npy", b"\0" * 10, "has 10 bytes, but labels_mask_part_0000.npy has 9 tokens: want 1, 2, 4"),
    ("token_ids_part_0000.npy", b"\0" * 27, "has 27 bytes"),
    ("labels_mask_part_0000.npy", b"", "has 0 tokens"),
    ("labels_mask_part_0000.npy", None, "another format|no files"),
    ("_checkpoint.json", b"{}", "is unfinished"),
]


@pytest.mark.parametrize(("name", "data", "problem"), DAMAGED)
def test_ChatRows_DamagedOlmoCore(name: str, data: bytes | None, problem: str, tmp_path: Path) -> None:
    folder = olmo_cache(tmp_path / "cache", CHATS)
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(gzip.compress(data) if name == BOUNDS else data)
    path = folder if name.startswith("_") else folder / "token_ids_part_0000.npy"
    with pytest.raises(FileError, match=problem):
        list(ChatRows([str(path)]))


def test_ChatRows_OlmoCoreWithATruncatedFile(tmp_path: Path) -> None:
    folder = olmo_cache(tmp_path / "cache", CHATS)
    data = (folder / BOUNDS).read_bytes()
    for size in range(len(data)):
        (folder / BOUNDS).write_bytes(data[:size])
        with pytest.raises(FileError):
            list(ChatRows([str(folder)]))
    (folder / BOUNDS).write_bytes(gzip.compress(b"")[:10] + b"\7")  # a block of an invalid type
    with pytest.raises(FileError, match="cannot be read: Error -3"):
        list(ChatRows([str(folder)]))
    (folder / BOUNDS).write_bytes(data)
    (folder / "labels_mask_part_0000.npy").write_bytes(b"\0\1\2\0\0\0\0\0\0")
    bad, *good = ChatRows([str(folder)])
    assert "its labels_mask has values other than 0 and 1" in str(bad) and len(good) == 2


def damage(rng: random.Random, data: bytes) -> bytes | None:
    """Returns the content of a damaged file; None for a missing one."""
    kind = rng.choice(("missing", "truncated", "longer", "flipped", "flipped", "replaced", "removed", "moved"))
    at, size = rng.randrange(len(data) + 1), rng.randrange(1, 9)
    if kind == "flipped":
        changed = bytearray(data)
        for _ in range(size if data else 0):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    return {
        "missing": None,
        "truncated": data[:at],
        "longer": data + rng.randbytes(size),
        "replaced": rng.randbytes(at),
        "removed": data[:at] + data[at + size :],
        "moved": data[at:] + data[:at],
    }[kind]


def test_ChatRows_RandomlyDamagedOlmoCore(tmp_path: Path) -> None:
    """Damaged files yield documents, errors of documents, or one error that names a file."""
    rng, outcomes = random.Random("olmo"), Counter[str]()
    whole = olmo_cache(tmp_path / "whole", CHATS * 3, np.uint16, 11)
    files = {path.name: path.read_bytes() for path in sorted(whole.glob("*_part_*"))}
    folder = tmp_path / "damaged"
    folder.mkdir()
    for _ in range(share(4000, 10)):
        damaged = dict(files)
        for name in rng.sample(sorted(files), rng.choice((1, 1, 2, len(files)))):
            lines = name.endswith(".gz") and rng.random() < 0.5  # in a valid archive
            data = damage(rng, gzip.decompress(files[name]) if lines else files[name])
            if data is None:
                del damaged[name]
            else:
                damaged[name] = gzip.compress(data) if lines else data
        if rng.random() < 0.1:
            name = rng.choice([name for name in files if name.startswith("token_ids") and name.endswith(".npy")])
            kind = rng.choice((np.uint8, np.uint32, np.uint64, np.float64, ">u2", np.complex128))
            damaged[name] = np.frombuffer(files[name], np.uint16).astype(kind).tobytes()
        for path in folder.iterdir():
            path.unlink()
        for name, data in damaged.items():
            (folder / name).write_bytes(data)
        rows = ChatRows([str(rng.choice([folder, *(folder / name for name in files if name.endswith(".npy"))]))])
        try:
            for document in rows:
                if not isinstance(document, InvalidDocumentError):
                    assert document["ids"].dtype == np.int32 and len(document["ids"]) == len(document["loss"]) > 0
                assert Path(rows.place.file).name in damaged
                outcomes[type(document).__name__] += 1
        except FileError as error:
            assert str(folder) in str(error)
            outcomes["FileError"] += 1
    assert min(outcomes[name] for name in ("dict", "InvalidDocumentError", "FileError")) > share(40, 10), outcomes


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"input_ids": []}, "are empty"),
        ({"input_ids": [[1]]}, "not an array of integers"),
        ({"input_ids": [1.5]}, "not an array of integers"),
        ({"input_ids": "abc"}, "not an array of integers"),
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
