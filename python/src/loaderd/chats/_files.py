"""Rows of JSON lines, JSON arrays, Parquet, Arrow IPC, packed NumPy files and parts of OLMo-core.

The content determines the format, except for OLMo-core's parts, which the names of their files determine.
"""

from __future__ import annotations

import codecs
import json
import pickle
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loaderd.chats._errors import FileError
from loaderd.chats._olmo_cache import mask_of, read_part
from loaderd.errors import LoaderdError
from loaderd.producer import InvalidDocumentError

MOST_BYTES = 256 << 20
"""Maximum bytes of a row of JSON."""
_CHUNK = 1 << 20
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
_NPY = b"\x93NUMPY"
_ARROW_STREAM = b"\xff\xff\xff\xff"

Rows = Iterator[tuple[int, Any, bool]]
"""Number, row or its error, and whether the row is of columns with types."""


def read_rows(path: str, columns: Collection[str]) -> Rows:
    """Yields the rows of a file. Except for packed NumPy files, at most a batch is in memory.

    Args:
        path: The file.
        columns: The columns to read from formats with columns.

    Raises:
        FileError: If the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            begin = file.read(8)
        if (mask := mask_of(Path(path))) is not None and not begin.startswith(_NPY):
            yield from ((number, row, False) for number, row in enumerate(read_part(Path(path), mask)))
        elif begin.startswith(b"PAR1"):
            yield from _typed(_parquet(path, columns))
        elif begin.startswith((b"ARROW1", _ARROW_STREAM)):
            yield from _typed(_arrow(path, columns, begin.startswith(b"ARROW1")))
        elif begin.startswith(_NPY):
            yield from ((number, row, False) for number, row in enumerate(_packed(path)))
        else:
            compression = next((name for magic, name in _COMPRESSIONS.items() if begin.startswith(magic)), None)
            with pa.input_stream(path, compression=compression, buffer_size=_CHUNK) as stream:
                yield from _json(path, stream)
    except LoaderdError:
        raise
    except (OSError, EOFError, pa.ArrowException, pickle.UnpicklingError, ValueError, zlib.error) as error:
        raise FileError(f"{path} cannot be read: {error}") from error


def _typed(batches: Iterator[pa.RecordBatch]) -> Rows:
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            yield number, row, True
            number += 1


def _parquet(path: str, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        known = [name for name in file.schema_arrow.names if name in columns]
        yield from file.iter_batches(batch_size=256, columns=known or None)


def _arrow(path: str, columns: Collection[str], seekable: bool) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as source:
        reader: Any = pa.ipc.open_file(source) if seekable else pa.ipc.open_stream(source)
        known = [name for name in reader.schema.names if name in columns] or reader.schema.names
        batches = map(reader.get_batch, range(reader.num_record_batches)) if seekable else reader
        for batch in batches:
            chosen = batch.select(known)
            yield from (chosen.slice(begin, 256) for begin in range(0, len(chosen), 256))


def _json(path: str, stream: Any) -> Rows:
    """Yields the rows of JSON lines, or of one array. Numbers are lines, from 1, or positions in the array."""
    begin = b""
    while not begin.strip() and (more := stream.read(_CHUNK)):
        begin += more
    text = begin.removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        return
    if text.lstrip().startswith(b"["):
        yield from ((number, row, False) for number, row in enumerate(_array(path, text, stream)))
        return
    if not text.lstrip().startswith(b"{"):
        raise FileError(
            f"{path} has another format: want JSON lines, Parquet, Arrow IPC, packed .npy of Megatron-Bridge, or "
            "token_ids*.npy of OLMo-core with its labels_mask*.npy (`loaderd import` reads other token ids)"
        )
    number, rest, more = 1, text, text
    while more:
        more = stream.read(_CHUNK)
        lines = (rest + more).split(b"\n")
        rest = lines.pop() if more else b""
        if len(rest) > MOST_BYTES:
            raise FileError(f"{path}:{number + len(lines)} is longer than {MOST_BYTES:,} bytes")
        for line in lines:
            if line.strip():
                yield number, _parsed(line), False
            number += 1


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return InvalidDocumentError(f"it is not JSON: {error}")


def _array(path: str, text: bytes, stream: Any) -> Iterator[Any]:
    """Yields the elements of an array, which may be longer than memory.

    Raises:
        FileError: If the rest of the array cannot be parsed.
    """
    parse = json.JSONDecoder().raw_decode
    decode = codecs.getincrementaldecoder("utf-8")().decode
    number, size, more = 0, _CHUNK, text
    try:
        held = decode(text)
        at = held.index("[") + 1
        while True:
            while held[at : at + 1] in tuple(" \t\r\n,"):
                at += 1
            try:
                if held[at : at + 1] == "]":
                    return
                row, end = parse(held, at)
                complete = end < len(held)  # a number may continue
            except ValueError:
                complete = False
                if not more or len(held) - at > MOST_BYTES:
                    raise
            if not complete and more:
                more = stream.read(size)
                held, at, size = held[at:] + decode(more, final=not more), 0, min(2 * size, MOST_BYTES)
                continue
            yield row
            number, at, size = number + 1, end, _CHUNK
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: element {number} is not JSON, or the array does not end: {error}") from error


def _packed(path: str) -> Iterator[Any]:
    """Yields the rows of a packed file of Megatron-Bridge: an array of dicts, which is pickled.

    Only arrays and numbers are unpickled, because other pickles may run programs.

    Raises:
        FileError: If the file has another array.
    """
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        _, _, kind = header(file)
        if not kind.hasobject:
            raise FileError(f"{path} is an array of {kind}: `loaderd import` reads token ids of NumPy")
        rows = _Unpickler(file).load()
    if not isinstance(rows, np.ndarray) or rows.ndim != 1:
        raise FileError(f"{path} is not a list of packed rows")
    yield from rows


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = {"_reconstruct", "scalar"} if module.endswith("core.multiarray") else {"ndarray", "dtype"}
        if module.partition(".")[0] == "numpy" and name in known:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it contains {module}.{name}, which is not data")
