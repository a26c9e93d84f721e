"""A step as numpy arrays: views of the Arrow buffers it came in, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loaderd.errors import ProtocolError, TooManySegments
from loaderd.wire import CU_SEQLENS, DOCUMENTS, INPUT_IDS, SOURCES, Metadata, SourceCount

Ints = npt.NDArray[np.int32]
Tokens = npt.NDArray[np.int32] | npt.NDArray[np.uint16]
A = TypeVar("A", bound=npt.NDArray[Any])
IGNORED = -100
"""Label of tokens that do not count; cross entropy of PyTorch leaves it out by default."""
_MOST_SEGMENTS = 65_535


@dataclass(frozen=True, slots=True)
class Sources:
    """Where tokens came from. Pieces `offsets[i]` ... `offsets[i+1]` - 1 make row i, in order: tokens [start, start +
    length) of the document with that sequence in the document stream, in a run with several sources in the stream of the piece's
    source, `RunInfo.sources[number]`. `offsets` is int32 [rows + 1], `sequence` uint64, `start` and `length` int32, `number` uint16, None where
    it is not asked for."""

    offsets: Ints
    sequence: npt.NDArray[np.uint64]
    start: Ints
    length: Ints
    number: npt.NDArray[np.uint16] | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a step, as they came in one record batch. All arrays are read-only and aligned, views of its buffers
    where those are.

    `input_ids` is int32 or uint16 [rows, L]. The attention segments of row i end at `ends[offsets[i] : offsets[i+1]]`:
    0, then the end of every segment; the last value is where padding begins. Both are int32, `offsets` is [rows + 1]
    and begins with 0."""

    input_ids: Tokens
    ends: Ints
    offsets: Ints
    sources: Sources | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One rank's rows of one step: `rows` rows of `bucket` (L) tokens.

    `tokens`, `loss_tokens` and `documents` count this rank's tokens without padding, those with a label, and pieces;
    `max_seqlen` is the longest segment, padding left out. `step_tokens` and `step_segments` count those of the whole
    step on all ranks: a loss that leaves out every segment's first token has step_tokens - step_segments terms. (None
    from a daemon that does not tell.) Of a run with several sources `source_counts` has, by name, what this rank's rows have of each, and
    `step_sources` bounds their numbers, the same on every rank; else they are None."""

    run: str
    index: int
    bucket: int
    rows: int
    tokens: int
    loss_tokens: int
    documents: int
    max_seqlen: int
    step_tokens: int | None
    step_segments: int | None
    parts: tuple[Part, ...]
    source_counts: Mapping[str, SourceCount] | None = None
    step_sources: int | None = None

    @property
    def input_ids(self) -> Tokens:
        """Token ids [rows, L], int32 or uint16: a view when the step came in one part, else a copy."""
        return _join([p.input_ids for p in self.parts])

    @property
    def offsets(self) -> Ints:
        """Row i has `ends[offsets[i] : offsets[i+1]]`; int32 [rows + 1]."""
        return _join_offsets([p.offsets for p in self.parts])

    @property
    def ends(self) -> Ints:
        """For every row 0, then the end of each of its segments, one row after the other; int32."""
        return _join([p.ends for p in self.parts])

    @property
    def cu_seqlens(self) -> list[Ints]:
        """For every row 0, then the end of each of its segments; int32."""
        return np.split(self.ends, self.offsets[1:-1])

    @property
    def sources(self) -> Sources | None:
        """Where the tokens came from, when the client asks for documents."""
        found = [p.sources for p in self.parts if p.sources is not None]
        if not found or len(found) == 1:
            return found[0] if found else None
        columns = ["sequence", "start", "length"] + ["number"] * (found[0].number is not None)
        return Sources(
            _join_offsets([s.offsets for s in found]), *(_join([getattr(s, c) for s in found]) for c in columns)
        )

    def source_ids(self) -> Ints:
        """The source of every token, an index into `RunInfo.sources`, and -1 in the padding; int32 [rows, L]. Raises ValueError where the client
        does not ask for sources, or the run has none."""
        found = self.sources
        if found is None or found.number is None:
            raise ValueError(f"step {self.index} came without sources: a client of a run with several asks for them with sources=True")
        ends, rows = found.offsets[1:], np.repeat(np.arange(self.rows), np.diff(found.offsets))
        padding = self.bucket - np.bincount(rows, found.length, self.rows).astype(np.int64)
        numbers = np.insert(found.number.astype(np.int32), ends, -1)
        return np.repeat(numbers, np.insert(found.length, ends, padding)).reshape(self.rows, self.bucket)

    def boundaries(self) -> Ints:
        """0, ..., rows * L: where segments begin and end in the rows laid end to end, padding being segments of its
        own; int32."""
        starts, lengths = self._segments()
        ends = starts + lengths
        return np.concatenate([np.zeros(1, np.int32), ends[lengths > 0]])

    def segment_ids(self) -> npt.NDArray[np.uint16]:
        """1, 2, ... for the segments of a row and 0 for padding; uint16 [rows, L]. Raises TooManySegments above 65,535
        in a row."""
        offsets = self.offsets
        most = int(np.diff(offsets).max(initial=1)) - 1
        if most > _MOST_SEGMENTS:
            raise TooManySegments(
                f"a row of step {self.index} has {most} segments, uint16 numbers {_MOST_SEGMENTS}; use `cu_seqlens`"
            )
        _, lengths = self._segments()
        number = np.arange(1, len(lengths) + 1) - np.repeat(offsets[:-1], np.diff(offsets))
        number[offsets[1:] - 1] = 0  # the last value of a row is where its padding begins
        return np.repeat(number.astype(np.uint16), lengths).reshape(self.rows, self.bucket)

    def position_ids(self) -> Ints:
        """0, 1, 2, ... from the beginning of every segment, and again in the padding; int32 [rows, L]."""
        starts, lengths = self._segments()
        positions = np.arange(self.rows * self.bucket, dtype=np.int32)
        positions -= np.repeat(starts, lengths)
        return positions.reshape(self.rows, self.bucket)

    def labels(self, form: Literal["unshifted", "shifted"] = "unshifted") -> Ints:
        """Labels int32 [rows, L], -100 where there is none; both forms have `tokens` less the number of segments of
        them.

        "unshifted": the token itself, for models that shift by themselves; the first token of a segment has none, so
        that no document predicts the beginning of the next. "shifted": the next token of the same segment."""
        if form not in ("unshifted", "shifted"):
            raise ValueError(f'labels of the form {form!r}: use "unshifted" or "shifted"')
        starts, lengths = self._segments()
        ids = self.input_ids.reshape(-1)
        out = np.empty(ids.size, np.int32)
        if form == "unshifted":
            out[:] = ids
            out[starts[lengths > 0]] = IGNORED
        else:
            out[:-1] = ids[1:]
            out[(starts + lengths - 1)[lengths > 0]] = IGNORED
        rows = out.reshape(self.rows, self.bucket)
        padding = self.ends[self.offsets[1:] - 1]
        for row in np.flatnonzero(padding < self.bucket):  # few
            rows[row, padding[row] :] = IGNORED
        return rows

    def _segments(self) -> tuple[Ints, Ints]:
        """Start (rows laid end to end) and length of every segment and of every row's padding, which may be empty;
        int32."""
        offsets = self.offsets
        firsts = np.arange(self.rows, dtype=np.int32) * np.int32(self.bucket)
        starts = self.ends + np.repeat(firsts, np.diff(offsets))
        return starts, np.diff(starts, append=np.int32(self.rows * self.bucket))


def part_of(batch: pa.RecordBatch, meta: Metadata) -> Part:
    """The arrays of a record batch, checked against its metadata, and not copied unless misaligned. Raises
    ProtocolError."""
    where = f"part {meta.part} of step {meta.step}"
    if batch.num_rows != meta.rows:
        raise ProtocolError(f"{where} has {batch.num_rows} rows, its metadata says {meta.rows}")
    try:
        batch.validate()  # lengths of lists and buffers; quick
    except pa.ArrowInvalid as error:
        raise ProtocolError(f"{where}: {error}") from None
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    offsets, ids = _list(columns, INPUT_IDS, where)
    if ids.dtype not in (np.int32, np.uint16) or not np.array_equal(offsets, np.arange(meta.rows + 1) * meta.bucket):
        raise ProtocolError(f"{where}: input_ids are not {meta.rows} rows of {meta.bucket} int32 or uint16")
    cu, ends = _list(columns, CU_SEQLENS, where)
    if ends.dtype != np.int32 or not _are_ends(cu, ends, meta.bucket):
        raise ProtocolError(
            f"{where}: cu_seqlens do not begin with 0, ascend, and end within {meta.bucket} in every row"
        )
    sources = _sources(columns, meta, where) if DOCUMENTS in columns else None
    return Part(ids.reshape(meta.rows, meta.bucket), ends, cu, sources)


def step_of(metas: Sequence[Metadata], parts: Sequence[Part]) -> Step:
    """A step from its parts."""
    first = metas[0]
    total: Callable[[str], int] = lambda key: sum(getattr(m, key) for m in metas)  # noqa: E731
    return Step(
        run=first.run,
        index=first.step,
        bucket=first.bucket,
        rows=total("rows"),
        tokens=total("tokens"),
        loss_tokens=total("loss_tokens"),
        documents=total("documents"),
        max_seqlen=max(m.max_seqlen for m in metas),
        step_tokens=first.step_tokens,
        step_segments=first.step_segments,
        parts=tuple(parts),
        source_counts=_added(metas),
        step_sources=first.step_sources,
    )


def _added(metas: Sequence[Metadata]) -> dict[str, SourceCount] | None:
    """The counts of a step's parts together."""
    if metas[0].sources is None:
        return None
    out: dict[str, SourceCount] = {}
    for meta in metas:
        for name, more in (meta.sources or {}).items():
            has = out.get(name, SourceCount(0, 0))
            out[name] = SourceCount(has.tokens + more.tokens, has.loss_tokens + more.loss_tokens)
    return out


def _list(columns: dict[str, Any], name: str, where: str) -> tuple[Ints, Any]:
    """Offsets, made to begin with 0, and values of a list column: Arrow's for nested ones, else a numpy view."""
    column = columns.get(name)
    if not isinstance(column, pa.ListArray) or column.null_count or column.values.null_count:
        raise ProtocolError(f"{where}: no column {name} of lists without nulls")
    offsets = _view(column.offsets)
    values = column.values
    if (np.diff(offsets) < 0).any():
        raise ProtocolError(f"{where}: the lists of {name} overlap")
    values = values.slice(offsets[0], offsets[-1] - offsets[0])
    if offsets[0]:
        offsets = offsets - offsets[0]
    return offsets, values if pa.types.is_nested(values.type) else _view(values)


def _are_ends(offsets: Ints, ends: Ints, bucket: int) -> bool:
    if len(offsets) < 2:
        return True
    if (np.diff(offsets) < 1).any():
        return False
    lasts = offsets[1:] - 1
    rises = np.diff(ends) > 0
    rises[lasts[:-1]] = True  # from one row's last to the next one's first
    return bool((ends[offsets[:-1]] == 0).all() and rises.all() and (ends[lasts] <= bucket).all())


_KINDS: dict[Any, np.dtype[Any]] = {pa.int32(): np.dtype(np.int32), pa.uint16(): np.dtype(np.uint16), pa.uint64(): np.dtype(np.uint64)}


def _view(values: Any) -> Any:
    """An Arrow array of integers as a numpy view, or a copy where it lies at an address that its type does not allow. That
    happens to messages of a few KiB, which lie where they came to in what was read from the network; larger ones get memory
    of their own. Arrow's own `to_numpy` imports pandas where that is installed, for half a second."""
    kind, memory = _KINDS.get(values.type), values.buffers()[1]
    if kind is None:
        return _frozen(values.to_numpy())  # what no daemon of ours sends: the caller refuses it by its type
    if memory is None or not len(values):
        return _frozen(np.empty(0, kind))
    array = np.frombuffer(memory, kind, len(values), values.offset * kind.itemsize)
    return _frozen(array if array.flags.aligned else array.copy())


def _sources(columns: dict[str, Any], meta: Metadata, where: str) -> Sources:
    offsets, pieces = _list(columns, DOCUMENTS, where)
    try:
        sequence, start, length = (_view(pieces.field(name)) for name in ("sequence", "start", "length"))
    except (KeyError, AttributeError, pa.ArrowInvalid) as error:
        raise ProtocolError(f"{where}: column documents: {error}") from error
    if SOURCES not in columns:
        return Sources(offsets, sequence, start, length)
    of_numbers, number = _list(columns, SOURCES, where)
    if number.dtype != np.uint16 or not np.array_equal(of_numbers, offsets):
        raise ProtocolError(f"{where}: sources are not a uint16 for every piece")
    rows = np.repeat(np.arange(meta.rows), np.diff(offsets))
    used = np.bincount(rows, length, meta.rows)
    if length.dtype != np.int32 or (length < 1).any() or (used > meta.bucket).any() or (number >= (meta.step_sources or 0)).any():
        raise ProtocolError(f"{where}: the pieces of a row are longer than {meta.bucket} tokens, or of sources that the step has not")
    return Sources(offsets, sequence, start, length, number)


def _join(arrays: list[A]) -> A:
    if len(arrays) == 1:
        return arrays[0]
    return _frozen(cast(A, np.concatenate(arrays)))


def _frozen(array: A) -> A:
    array.flags.writeable = False
    return array


def _join_offsets(offsets: list[Ints]) -> Ints:
    if len(offsets) == 1:
        return offsets[0]
    counts = np.concatenate([np.diff(o) for o in offsets])
    return np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
