"""The rows of one part's files, in any format, as Arrow record batches in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# folder, name of the part, columns, their types in the manifest
Rows = Iterator[pa.RecordBatch]
_TEXT, _INTEGER, _FLOAT = "utf8", "int64", "float64"


def rows_of(kind: str, folder: Path, part: str, columns: Sequence[str], types: Mapping[str, str]) -> Rows:
    """Returns the rows of a part's files."""
    return _KINDS[kind](folder, part, columns, types)


def _arrow(folder: Path, part: str, columns: Sequence[str], types: Mapping[str, str]) -> Rows:
    with pa.memory_map(str(folder / f"{part}.arrow")) as source, pa.ipc.open_file(source) as file:
        for i in range(file.num_record_batches):
            yield file.get_batch(i).select(list(columns))


def _parquet(folder: Path, part: str, columns: Sequence[str], types: Mapping[str, str]) -> Rows:
    import pyarrow.parquet as pq

    with pq.ParquetFile(folder / f"{part}.parquet") as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, list(columns)).combine_chunks()
            yield from table.to_batches()


def _npy(folder: Path, part: str, columns: Sequence[str], types: Mapping[str, str]) -> Rows:
    where = folder / part
    yield pa.record_batch([_npy_column(where, name, types[name]) for name in columns], names=list(columns))


def _load(path: Path) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _npy_column(where: Path, name: str, kind: str) -> pa.Array:
    single = where / f"{name}.npy"
    offsets_of = where / f"{name}.offsets.npy"
    if not offsets_of.exists():
        values = _load(single)
        if values.ndim == 1:
            return pa.array(values)
        rows, length = values.shape
        offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(length)
        return pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)))
    offsets = _load(offsets_of).astype(np.int32)
    if not single.exists():  # documents
        fields = {
            p.name.split(".")[-2]: pa.array(_load(p)) for p in sorted(where.glob(f"{name}.*.npy")) if p != offsets_of
        }
        return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(list(fields.values()), names=list(fields)))
    values = _load(single)
    if (texts := where / f"{name}.texts.json").exists():
        words = pa.array(json.loads(texts.read_text(encoding="utf-8")), pa.string())
        places = pa.array(values, mask=values < 0)
        return pa.ListArray.from_arrays(offsets, pa.DictionaryArray.from_arrays(places, words))
    valid = where / f"{name}.valid.npy"
    return pa.ListArray.from_arrays(
        offsets, pa.array(values, mask=~_load(valid)) if valid.exists() else pa.array(values)
    )


def _mds(folder: Path, part: str, columns: Sequence[str], types: Mapping[str, str]) -> Rows:
    data = memoryview((folder / f"{part}.mds").read_bytes())
    places = np.frombuffer(data, "<u4", int.from_bytes(data[:4], "little") + 1, 4)
    config = json.loads(bytes(data[4 * (len(places) + 1) : places[0]]))
    names, sizes = config["column_names"], config["column_sizes"]
    found: dict[str, list[memoryview]] = {name: [] for name in names}
    for at in places[:-1].tolist():
        varying = sum(size is None for size in sizes)
        lengths = iter(np.frombuffer(data, "<u4", varying, at).tolist())
        at += 4 * varying
        for name, size in zip(names, sizes, strict=True):
            length = next(lengths) if size is None else size
            found[name].append(data[at : at + length])
            at += length
    encodings = dict(zip(names, config["column_encodings"], strict=True))
    yield pa.record_batch([_mds_column(found, encodings, name, types[name]) for name in columns], names=list(columns))


def _mds_column(
    found: Mapping[str, Sequence[memoryview]], encodings: Mapping[str, str], name: str, kind: str
) -> pa.Array:
    if name not in found:  # documents
        fields = {
            full.rpartition(".")[2]: _mds_lists(v, encodings[full])
            for full, v in found.items()
            if full.startswith(name + ".")
        }
        order = ["index"] * ("index" in fields) + ["sequence", "start", "length"]
        offsets = fields["length"][0]
        return pa.ListArray.from_arrays(
            offsets, pa.StructArray.from_arrays([pa.array(fields[f][1]) for f in order], names=order)
        )
    encoding = encodings[name]
    if encoding == "json":
        of = pa.string() if _TEXT in kind else pa.int64() if _INTEGER in kind else pa.float64()
        return pa.array([json.loads(bytes(v)) for v in found[name]], pa.list_(of))
    if not encoding.startswith("ndarray:"):
        return pa.array(np.frombuffer(b"".join(found[name]), np.dtype(encoding)))
    offsets, values = _mds_lists(found[name], encoding)
    return pa.ListArray.from_arrays(offsets, pa.array(values.astype(np.bool_) if "bool" in kind else values))


def _mds_lists(rows: Sequence[memoryview], encoding: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    dtype, head = np.dtype(encoding.partition(":")[2]), 5  # one dimension, with a length of 32 bits
    lengths = [(len(row) - head) // dtype.itemsize for row in rows]
    return np.cumsum([0, *lengths], dtype=np.int32), np.frombuffer(b"".join(row[head:] for row in rows), dtype)


_KINDS: dict[str, Callable[[Path, str, Sequence[str], Mapping[str, str]], Rows]] = {
    "arrow": _arrow,
    "parquet": _parquet,
    "npy": _npy,
    "mds": _mds,
}
