"""Steps from record batches: views of Arrow's memory, equal to a row-by-row construction, and malformed batches are
rejected."""

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from loaderd import Part, ProtocolError, Step, TooManySegmentsError
from loaderd._step import _are_ends, check_ids, part_of, step_of
from loaderd._wire import Metadata

PAD = 3
PIECE = pa.struct([("sequence", pa.uint64()), ("start", pa.int32()), ("length", pa.int32())])


def metadata(rows: int, bucket: int, part: int = 0, parts: int = 1) -> Metadata:
    return Metadata(
        "r",
        7,
        part,
        parts,
        bucket,
        rows,
        tokens=part + 1,
        loss_tokens=part + 1,
        documents=part,
        max_seqlen=part + 5,
        step_tokens=9,
        step_segments=4,
        step_loss_tokens=9,
        step_loss_segments=4,
        step_rows=rows,
    )


def record(rows: list[list[list[int]]], bucket: int, dtype: pa.DataType = pa.int32()) -> pa.RecordBatch:
    """Returns rows of segments of tokens as the daemon sends them; document i of the record is its i-th segment."""
    ids = [[t for s in row for t in s] for row in rows]
    ids = [r + [PAD] * (bucket - len(r)) for r in ids]
    cu = [np.cumsum([0] + [len(s) for s in row]).tolist() for row in rows]
    pieces, n = [], 0
    for row in rows:
        pieces.append([{"sequence": n + i, "start": 10 * i, "length": len(s)} for i, s in enumerate(row)])
        n += len(row)
    columns = {
        "input_ids": pa.array(ids, pa.list_(dtype)),
        "cu_seqlens": pa.array(cu, pa.list_(pa.int32())),
        "documents": pa.array(pieces, pa.list_(PIECE)),
    }
    return pa.RecordBatch.from_pydict(columns)


def made(rows: list[list[list[int]]], bucket: int, cuts: list[int], dtype: pa.DataType = pa.int32()) -> Step:
    ends = [0, *cuts, len(rows)]
    pairs = list(pairwise(ends))
    metas = [metadata(b - a, bucket, i, len(pairs)) for i, (a, b) in enumerate(pairs)]
    return step_of(
        metas, [part_of(record(rows[a:b], bucket, dtype), m) for (a, b), m in zip(pairs, metas, strict=True)]
    )


def random_rows(rng: np.random.Generator, rows: int, bucket: int) -> list[list[list[int]]]:
    """Returns full rows, padded rows, rows of only padding, long segments and segments of one token."""
    out = []
    for _ in range(rows):
        used = int(rng.choice([0, bucket, bucket, rng.integers(1, bucket + 1)]))
        row: list[list[int]] = []
        while (left := used - sum(map(len, row))) > 0:
            row.append(rng.integers(4, 60_000, rng.integers(1, left + 1) if rng.random() < 0.7 else 1).tolist())
        out.append(row)
    return out


@pytest.mark.parametrize("seed", range(40))
def test_content_equals_a_row_by_row_construction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, int(rng.integers(1, 9)), int(rng.choice([1, 2, 7, 64])))
    bucket = max((sum(map(len, r)) for r in rows), default=1) + int(rng.integers(0, 3)) or 1
    cuts = sorted(rng.choice(np.arange(1, len(rows)), rng.integers(0, len(rows)), replace=False).tolist())
    step = made(rows, bucket, cuts, [pa.int32(), pa.uint16()][seed % 2])

    ids, segments, positions, unshifted, shifted, boundaries = [], [], [], [], [], [0]
    for row in rows:
        pad = bucket - sum(map(len, row))
        ids.append([t for s in row for t in s] + [PAD] * pad)
        segments.append([i + 1 for i, s in enumerate(row) for _ in s] + [0] * pad)
        positions.append([i for s in row for i in range(len(s))] + list(range(pad)))
        unshifted.append([t for s in row for t in [-100, *s[1:]]] + [-100] * pad)
        shifted.append([t for s in row for t in [*s[1:], -100]] + [-100] * pad)
        for n in [*map(len, row), *([pad] if pad else [])]:
            boundaries.append(boundaries[-1] + n)
    for got, want, dtype in (
        (step.input_ids, ids, [np.int32, np.uint16][seed % 2]),
        (step.segment_ids(), segments, np.uint16),
        (step.position_ids(), positions, np.int32),
        (step.labels(), unshifted, np.int32),
        (step.labels("shifted"), shifted, np.int32),
        (step.boundaries(), boundaries, np.int32),
    ):
        assert got.dtype == dtype
        assert got.tolist() == want
    assert [c.tolist() for c in step.cu_seqlens] == [np.cumsum([0, *map(len, row)]).tolist() for row in rows]
    assert all(c.dtype == np.int32 for c in step.cu_seqlens)
    counted = sum(len(s) - 1 for row in rows for s in row)
    assert (step.labels() != -100).sum() == (step.labels("shifted") != -100).sum() == counted

    sources = step.sources
    assert sources is not None and sources.offsets.tolist() == np.cumsum([0, *map(len, rows)]).tolist()
    assert sources.length.tolist() == [len(s) for row in rows for s in row]
    assert sources.start.tolist() == [10 * i for row in rows for i in range(len(row))]

    n = len(cuts) + 1
    assert (step.rows, step.bucket, step.tokens, step.max_seqlen) == (len(rows), bucket, n * (n + 1) // 2, n + 4)
    assert (step.step_tokens, step.step_segments) == (9, 4), "of the whole step, not added up"


def test_the_mask_of_a_step_of_which_one_part_alone_has_tokens_without_a_loss() -> None:
    rows = [[[4, 5], [6]], [[7, 8, 9]], [[4, 5, 6, 7]], [[8], [9, 4]]]
    runs = [[3], [3], [1, 2, 1], [0, 1, 2]]
    metas, parts = [], []
    for part, losses in enumerate((6, 4)):
        some = slice(2 * part, 2 * part + 2)
        tokens = sum(len(s) for row in rows[some] for s in row)
        batch = record(rows[some], 5)
        batch = pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(runs[some], pa.list_(pa.int32()))], [*batch.schema.names, "loss_runs"]
        )
        metas.append(dataclasses.replace(metadata(2, 5, part, 2), tokens=tokens, loss_tokens=losses))
        parts.append(part_of(batch, metas[-1]))
    assert [p.loss_runs is None for p in parts] == [True, False]  # all tokens of the first part have a loss
    want = [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 1, 0, 0]]
    assert step_of(metas, parts).loss_mask().tolist() == np.array(want, bool).tolist()


def test_arrays_are_read_only_views_of_the_batch() -> None:
    batch = record([[[5, 6, 7], [8]], [[9]]], 4, pa.uint16())
    part = part_of(batch, metadata(2, 4))
    assert part.sources is not None
    for array, buffer in (
        (part.input_ids, batch["input_ids"].values.buffers()[1]),
        (part.ends, batch["cu_seqlens"].values.buffers()[1]),
        (part.offsets, batch["cu_seqlens"].buffers()[1]),
        (part.sources.sequence, batch["documents"].values.field(0).buffers()[1]),
    ):
        assert np.shares_memory(array, np.frombuffer(buffer, np.uint8))
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert np.shares_memory(step_of([metadata(2, 4)], [part]).input_ids, part.input_ids)


def test_repr_of_a_step_has_no_tokens() -> None:
    step = made([[[1, 2, 3]] * 40] * 20, 128, [10])
    assert repr(step).startswith("Step(run='r', index=7, bucket=128, rows=20") and len(repr(step)) < 400


def test_a_slice_of_a_batch() -> None:
    rows = [[[5, 6], [7]], [[8]], [[9, 10, 11, 12]]]
    part = part_of(record(rows, 4).slice(1, 2), metadata(2, 4))
    assert (part.input_ids.tolist(), part.ends.tolist(), part.offsets.tolist()) == (
        [[8, PAD, PAD, PAD], [9, 10, 11, 12]],
        [0, 1, 0, 4],
        [0, 2, 4],
    )


def lists(values: list[list[int] | None], dtype: pa.DataType = pa.int32()) -> pa.Array:
    return pa.array(values, pa.list_(dtype))


GOOD_IDS, GOOD_CU = lists([[1, 2, 3, 4], [5, 6, 7, 8]]), lists([[0, 4], [0, 1, 3]])


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"input_ids": GOOD_IDS}, "no column cu_seqlens"),
        ({"cu_seqlens": GOOD_CU}, "no column input_ids"),
        ({"input_ids": pa.array([1, 2]), "cu_seqlens": GOOD_CU}, "no column input_ids of lists"),
        ({"input_ids": lists([[1, 2, 3, 4], None]), "cu_seqlens": GOOD_CU}, "without nulls"),
        ({"input_ids": lists([[1, 2, 3, 4], [1, 2, None, 4]]), "cu_seqlens": GOOD_CU}, "without nulls"),
        ({"input_ids": lists([[1, 2, 3, 4], [5, 6, 7]]), "cu_seqlens": GOOD_CU}, "2 rows of 4"),
        ({"input_ids": lists([[1, 2, 3], [4, 5, 6, 7, 8]]), "cu_seqlens": GOOD_CU}, "2 rows of 4"),
        ({"input_ids": lists([[1] * 4] * 2, pa.int64()), "cu_seqlens": GOOD_CU}, "int32 or uint16"),
        ({"input_ids": GOOD_IDS, "cu_seqlens": lists([[0, 4], []])}, "cu_seqlens do not"),
        ({"input_ids": GOOD_IDS, "cu_seqlens": lists([[0, 4], [1, 2]])}, "cu_seqlens do not"),
        ({"input_ids": GOOD_IDS, "cu_seqlens": lists([[0, 4], [0, 2, 2]])}, "cu_seqlens do not"),
        ({"input_ids": GOOD_IDS, "cu_seqlens": lists([[0, 5], [0, 1]])}, "cu_seqlens do not"),
        ({"input_ids": GOOD_IDS, "cu_seqlens": lists([[0, 4], [0, 3, -1]])}, "cu_seqlens do not"),
        ({"input_ids": GOOD_IDS, "cu_seqlens": lists([[0, 4], [0, 1]], pa.int64())}, "cu_seqlens do not"),
        ({"input_ids": GOOD_IDS, "cu_seqlens": GOOD_CU, "documents": lists([[1], [2]])}, "documents"),
        ({"input_ids": lists([[1] * 4] * 3), "cu_seqlens": lists([[0, 4]] * 3)}, "has 3 rows"),
    ],
)
def test_a_malformed_batch_is_refused(columns: dict[str, pa.Array], match: str) -> None:
    with pytest.raises(ProtocolError, match=match):
        part_of(pa.RecordBatch.from_arrays(list(columns.values()), list(columns)), metadata(2, 4))


@pytest.mark.parametrize("offsets", [[0, 4, 900], [0, 9, 8], [-4, 4, 8], [4, 8, 12]])
@pytest.mark.parametrize("column", ["input_ids", "cu_seqlens"])
def test_offsets_that_reach_beyond_the_values_are_refused(column: str, offsets: list[int]) -> None:
    """pyarrow creates no such batch, but can read one."""
    batch = pa.RecordBatch.from_pydict({"input_ids": GOOD_IDS, "cu_seqlens": GOOD_CU})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    good, bad = np.array(batch[column].offsets, np.int32).tobytes(), np.array(offsets, np.int32).tobytes()
    data = sink.getvalue().to_pybytes()
    assert data.count(good) == 1
    with pytest.raises(ProtocolError):
        part_of(pa.ipc.open_stream(data.replace(good, bad)).read_next_batch(), metadata(2, 4))


def test_too_many_segments_for_uint16() -> None:
    fits, more = 65_535, 65_536
    assert made([[[4]] * fits], fits, []).segment_ids().max() == fits
    step = made([[[4]] * more], more, [])
    with pytest.raises(TooManySegmentsError, match="65536 segments"):
        step.segment_ids()
    assert step.position_ids().max() == 0 and len(step.cu_seqlens[0]) == more + 1


def test_labels_of_an_unknown_form() -> None:
    with pytest.raises(ValueError, match="unshifted"):
        made([[[4]]], 1, []).labels("sideways")  # type: ignore[arg-type]


def test_where_segments_end_is_checked_in_every_row():
    rng = np.random.default_rng(5)
    found = {True: 0, False: 0}
    for _ in range(3000):
        rows = [
            [0, *np.sort(rng.integers(1, 9, rng.integers(0, 4)))]
            if rng.random() < 0.9
            else rng.integers(-4, 9, rng.integers(0, 4)).tolist()
            for _ in range(rng.integers(0, 4))
        ]
        good = all(row and row[0] == 0 and row[-1] <= 7 and all(a < b for a, b in pairwise(row)) for row in rows)
        offsets, ends = (
            np.cumsum([0, *map(len, rows)], dtype=np.int32),
            np.array([end for row in rows for end in row], np.int32),
        )
        assert bool(_are_ends(offsets, ends, 7)) is good, rows
        found[good] += 1
    assert min(found.values()) > 500


@pytest.mark.parametrize(
    ("ids", "dtype", "vocabulary", "wrong"),
    [
        ([99, 0], np.int32, 100, None),
        ([99, 100], np.int32, 100, 100),
        ([7, -1], np.int32, 100, -1),
        ([-(2**31), 7], np.int32, 2**31 - 1, -(2**31)),
        ([99, 0], np.uint16, 100, None),
        ([99, 100], np.uint16, 100, 100),
        ([65_535, 0], np.uint16, 65_535, 65_535),
        ([65_535, 0], np.uint16, 65_536, None),
        ([], np.int32, 100, None),
    ],
)
def test_ids_outside_the_vocabulary_are_refused(ids: list[int], dtype: Any, vocabulary: int, wrong: int | None) -> None:
    part = Part(np.array([ids], dtype), np.zeros(2, np.int32), np.array([0, 2], np.int32))
    if wrong is None:
        check_ids(part, vocabulary, "it")
        return
    with pytest.raises(
        ProtocolError, match=f"it has 1 token ids outside the vocabulary of {vocabulary:,} ids; the first is {wrong}"
    ):
        check_ids(part, vocabulary, "it")
