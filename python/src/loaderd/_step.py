"""A step as numpy arrays: views of its Arrow buffers, and values derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loaderd._arrow_views import array_view
from loaderd._extra_columns import DocumentValues, is_document_column, token_column
from loaderd._wire import CU_SEQLENS, DOCUMENTS, INPUT_IDS, LOSS_RUNS, LOSS_WEIGHTS, SOURCES, Metadata, SourceCount
from loaderd.errors import ProtocolError, TooManySegmentsError

Ints = npt.NDArray[np.int32]
Tokens = npt.NDArray[np.int32] | npt.NDArray[np.uint16]
A = TypeVar("A", bound=npt.NDArray[Any])
IGNORED = -100
"""Label of tokens that do not count; PyTorch's cross entropy ignores it by default."""
_MOST_SEGMENTS = 65_535


@dataclass(frozen=True, slots=True)
class Sources:
    """The origin of tokens.

    Pieces `offsets[i]` ... `offsets[i+1]` - 1 make row i, in order. A piece is tokens [start, start + length) of a
    document.

    Attributes:
        offsets: int32 [rows + 1].
        sequence: uint64 [pieces], the document's sequence in the document stream; in a run with several sources, in the
            stream of the piece's source.
        start: int32 [pieces], the piece's first token in its document.
        length: int32 [pieces], in tokens.
        number: uint16 [pieces], the piece's source as an index into `RunInfo.sources`; None if not requested.
        weight: float32 [pieces], the loss weight of the piece's tokens; None if not requested.
        index: int32 [pieces], the document's number in its message; None in a run whose messages hold one document.
    """

    offsets: Ints
    sequence: npt.NDArray[np.uint64]
    start: Ints
    length: Ints
    number: npt.NDArray[np.uint16] | None = None
    weight: npt.NDArray[np.float32] | None = None
    index: Ints | None = None


@dataclass(frozen=True, slots=True)
class LossRuns:
    """Which tokens have a loss.

    Runs `offsets[i]` ... `offsets[i+1]` - 1 make row i without its padding. Runs with and without a loss alternate,
    starting with one that has a loss.

    Attributes:
        offsets: int32 [rows + 1].
        length: int32 [runs], in tokens.
    """

    offsets: Ints
    length: Ints


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a step, as received in one record batch.

    All arrays are read-only and aligned, and views of its buffers if those are aligned.

    Attributes:
        input_ids: Token ids, int32 or uint16 [rows, L].
        ends: int32. Row i has `ends[offsets[i] : offsets[i+1]]`: 0, then the end of every attention segment; padding
            begins at the last value.
        offsets: int32 [rows + 1], beginning with 0.
        sources: The origin of the tokens; None if not requested.
        loss_runs: Which tokens have a loss; None if all have one, or the daemon does not send them.
        columns: Additional columns per token by name, [rows, L].
        values: Values of documents by name, one per piece.
    """

    input_ids: Tokens
    ends: Ints
    offsets: Ints
    sources: Sources | None = None
    loss_runs: LossRuns | None = None  # None: all tokens, or the daemon does not send them
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    values: Mapping[str, DocumentValues] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One rank's rows of one step: `rows` rows of `bucket` (L) tokens.

    A loss without every segment's first token has step_loss_tokens - step_loss_segments terms in the whole step.

    Attributes:
        run: The run's name.
        index: The index of the step in its run.
        bucket: The row length L in tokens.
        rows: This rank's rows.
        tokens: This rank's tokens without padding.
        loss_tokens: Those of them that have a loss.
        documents: This rank's pieces of documents.
        max_seqlen: The longest segment in tokens, without padding.
        step_tokens: Tokens of the whole step on all ranks.
        step_segments: Segments of the whole step.
        step_loss_tokens: Tokens of the whole step that have a loss.
        step_loss_segments: Segments of the whole step whose first token has a loss.
        parts: The rows as they were received.
        source_counts: This rank's counts per source name; None if sources are not requested.
        step_sources: Upper bound (exclusive) of the source numbers, the same on every rank; None if sources are not
            requested.
        weighted: Whether a piece of this rank's rows has another weight than 1.
    """

    run: str
    index: int
    bucket: int
    rows: int
    tokens: int
    loss_tokens: int
    documents: int
    max_seqlen: int
    step_tokens: int
    step_segments: int
    step_loss_tokens: int
    step_loss_segments: int
    parts: tuple[Part, ...] = field(repr=False)
    source_counts: Mapping[str, SourceCount] | None = None
    step_sources: int | None = None
    weighted: bool = False

    @property
    def input_ids(self) -> Tokens:
        """Token ids [rows, L], int32 or uint16: a view when the step has one part, else a copy."""
        return _join([p.input_ids for p in self.parts])

    @property
    def offsets(self) -> Ints:
        """Row i has `ends[offsets[i] : offsets[i+1]]`; int32 [rows + 1]."""
        return _join_offsets([p.offsets for p in self.parts])

    @property
    def ends(self) -> Ints:
        """For every row 0, then the end of each of its segments, rows concatenated; int32."""
        return _join([p.ends for p in self.parts])

    @property
    def cu_seqlens(self) -> list[Ints]:
        """For every row 0, then the end of each of its segments; int32."""
        return np.split(self.ends, self.offsets[1:-1])

    @property
    def sources(self) -> Sources | None:
        """The origin of the tokens, if the client requests documents."""
        found = [p.sources for p in self.parts if p.sources is not None]
        if not found or len(found) == 1:
            return found[0] if found else None
        columns = [
            c for c in ("sequence", "start", "length", "number", "weight", "index") if getattr(found[0], c) is not None
        ]
        return Sources(
            _join_offsets([s.offsets for s in found]), **{c: _join([getattr(s, c) for s in found]) for c in columns}
        )

    def source_ids(self) -> Ints:
        """Returns the source of every token.

        Returns:
            int32 [rows, L], indices into `RunInfo.sources`, and -1 in the padding.

        Raises:
            ValueError: If the client does not request sources, or the run has none.
        """
        found = self.sources
        if found is None or found.number is None:
            raise ValueError(f"step {self.index} has no sources: request them with sources=True")
        return self._spread(found.offsets, found.length, found.number.astype(np.int32), -1)

    def loss_weights(self) -> npt.NDArray[np.float32]:
        """Returns the loss weight of every token.

        Returns:
            float32 [rows, L], 0 in the padding.

        Raises:
            ValueError: If the client does not request weights.
        """
        found = self.sources
        if found is None or found.weight is None:
            raise ValueError(f"step {self.index} has no weights: request them with weights=True")
        return self._spread(found.offsets, found.length, found.weight, 0)

    def loss_mask(self) -> npt.NDArray[np.bool_]:
        """Returns which tokens have a loss, including those that begin a segment.

        All tokens have one if the daemon does not send loss runs.

        Returns:
            bool [rows, L], False in the padding.
        """
        runs = [p.loss_runs or _with_loss(p) for p in self.parts]
        found = LossRuns(_join_offsets([r.offsets for r in runs]), _join([r.length for r in runs]))
        first = np.repeat(found.offsets[:-1], np.diff(found.offsets))
        return self._spread(found.offsets, found.length, (np.arange(len(first)) - first) % 2 == 0, False)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Returns a column with a value per token, from its document.

        Args:
            name: The name of the column.

        Returns:
            [rows, L] of the column's configured type, with the column's fill where a document has no value. It is a
            view when the step has one part, else a copy.

        Raises:
            KeyError: If the client does not request the column.
        """
        return _join([self._asked(p.columns, name) for p in self.parts])

    def values(self, name: str) -> list[list[Any]]:
        """Returns for every row the values of its pieces' documents, in the order of `Sources`.

        Args:
            name: The name of the value.

        Returns:
            A list per row with one str, int or float per piece, or None for a document without the value.

        Raises:
            KeyError: If the client does not request them.
        """
        return [row for p in self.parts for row in self._asked(p.values, name).rows()]

    def _asked(self, found: Mapping[str, Any], name: str) -> Any:
        try:
            return found[name]
        except KeyError:
            raise KeyError(f"step {self.index} has no {name!r}: request the column with columns=[{name!r}]") from None

    @property
    def masked(self) -> bool:
        """Whether a token of these rows, padding excluded, has no loss."""
        return self.loss_tokens < self.tokens

    def _spread(self, offsets: Ints, lengths: Ints, values: A, padding: Any) -> A:
        """Expands values per run of tokens to a value per token, [rows, L]."""
        ends, rows = offsets[1:], np.repeat(np.arange(self.rows), np.diff(offsets))
        left = self.bucket - np.bincount(rows, lengths, self.rows).astype(np.int64)
        spread = np.repeat(np.insert(values, ends, padding), np.insert(lengths, ends, left))
        return cast(A, spread.reshape(self.rows, self.bucket))

    def boundaries(self) -> Ints:
        """Returns the borders of segments in the concatenated rows, where padding is a segment.

        Returns:
            int32: 0, ..., rows * L.
        """
        starts, lengths = self._segments()
        ends = starts + lengths
        return np.concatenate([np.zeros(1, np.int32), ends[lengths > 0]])

    def segment_ids(self) -> npt.NDArray[np.uint16]:
        """Returns the number of every token's segment within its row.

        Returns:
            uint16 [rows, L]: 1, 2, ... for the segments of a row, and 0 for padding.

        Raises:
            TooManySegmentsError: If a row has more than 65,535 segments.
        """
        offsets = self.offsets
        most = int(np.diff(offsets).max(initial=1)) - 1
        if most > _MOST_SEGMENTS:
            raise TooManySegmentsError(
                f"a row of step {self.index} has {most} segments, uint16 can number {_MOST_SEGMENTS}; use `cu_seqlens`"
            )
        _, lengths = self._segments()
        number = np.arange(1, len(lengths) + 1) - np.repeat(offsets[:-1], np.diff(offsets))
        number[offsets[1:] - 1] = 0  # padding begins at a row's last value
        return np.repeat(number.astype(np.uint16), lengths).reshape(self.rows, self.bucket)

    def position_ids(self) -> Ints:
        """Returns the position of every token in its segment.

        Returns:
            int32 [rows, L]: 0, 1, 2, ... in every segment, and from 0 in the padding.
        """
        starts, lengths = self._segments()
        positions = np.arange(self.rows * self.bucket, dtype=np.int32)
        positions -= np.repeat(starts, lengths)
        return positions.reshape(self.rows, self.bucket)

    def labels(self, form: Literal["unshifted", "shifted"] = "unshifted") -> Ints:
        """Returns labels, with -100 in the padding, for tokens without a loss and for one token of every segment.

        Args:
            form: "unshifted" gives the token itself, for models that shift labels; the first token of a segment has
                none, so that no document predicts the beginning of the next. "shifted" gives the next token of the same
                segment.

        Returns:
            int32 [rows, L].

        Raises:
            ValueError: If `form` is neither.
        """
        if form not in ("unshifted", "shifted"):
            raise ValueError(f'labels of the form {form!r}: want "unshifted" or "shifted"')
        starts, lengths = self._segments()
        ids = self.input_ids.reshape(-1)
        out = np.empty(ids.size, np.int32)
        if form == "unshifted":
            out[:] = ids
            out[starts[lengths > 0]] = IGNORED
        else:
            out[:-1] = ids[1:]
            out[(starts + lengths - 1)[lengths > 0]] = IGNORED
        if self.masked:
            lost = ~self.loss_mask().reshape(-1)
            if form == "unshifted":
                out[lost] = IGNORED
            else:
                out[:-1][lost[1:]] = IGNORED
        rows = out.reshape(self.rows, self.bucket)
        padding = self.ends[self.offsets[1:] - 1]
        for row in np.flatnonzero(padding < self.bucket):  # few
            rows[row, padding[row] :] = IGNORED
        return rows

    def _segments(self) -> tuple[Ints, Ints]:
        """Returns start and length of every segment and of every row's padding, which may be empty.

        Returns:
            Starts in the concatenated rows, and lengths in tokens; int32.
        """
        offsets = self.offsets
        firsts = np.arange(self.rows, dtype=np.int32) * np.int32(self.bucket)
        starts = self.ends + np.repeat(firsts, np.diff(offsets))
        return starts, np.diff(starts, append=np.int32(self.rows * self.bucket))


def part_of(batch: pa.RecordBatch, meta: Metadata, *, counted: bool = True) -> Part:
    """Returns the arrays of a record batch, checked against its metadata, and not copied unless misaligned.

    `loss_runs` is None if the metadata counts no token without a loss.

    Args:
        batch: The record batch.
        meta: Its metadata.
        counted: Whether to use the counts of the metadata. Without them the part has every column of the batch.

    Raises:
        ProtocolError: If the batch violates the wire format.
    """
    where = f"part {meta.part} of step {meta.step}"
    if batch.num_rows != meta.rows:
        raise ProtocolError(f"{where} has {batch.num_rows} rows, its metadata states {meta.rows}")
    try:
        batch.validate()  # lengths of lists and buffers; quick
    except pa.ArrowInvalid as error:
        raise ProtocolError(f"{where}: {error}") from None
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    offsets, ids = _list(columns, INPUT_IDS, where)
    if ids.dtype not in (np.int32, np.uint16) or not _are_rows(offsets, meta):
        raise ProtocolError(f"{where}: input_ids are not {meta.rows} rows of {meta.bucket} int32 or uint16")
    cu, ends = _list(columns, CU_SEQLENS, where)
    if ends.dtype != np.int32 or not _are_ends(cu, ends, meta.bucket):
        raise ProtocolError(f"{where}: cu_seqlens do not start at 0, ascend, and end within {meta.bucket} in every row")
    sources = _sources(columns, meta, where) if DOCUMENTS in columns else None
    masked = meta.loss_tokens < meta.tokens or not counted
    runs = _loss_runs(columns, meta, where) if LOSS_RUNS in columns and masked else None
    return Part(ids.reshape(meta.rows, meta.bucket), ends, cu, sources, runs, *_extra_columns(columns, meta, where))


def check_ids(part: Part, vocabulary: int, where: str) -> None:
    """Checks that all token ids are inside a vocabulary.

    An id outside would fail a GPU embedding with an assertion that names neither the step nor the id.

    Args:
        part: The rows to check.
        vocabulary: The number of ids.
        where: The name of the rows in the error.

    Raises:
        ProtocolError: If an id is outside.
    """
    ids: npt.NDArray[np.unsignedinteger[Any] | np.int32] = part.input_ids
    if ids.dtype == np.int32:
        ids = ids.view(np.uint32)  # negative values become large
    elif vocabulary > np.iinfo(np.uint16).max:
        return
    if ids.size and int(ids.max()) >= vocabulary:
        wrong = part.input_ids[ids >= vocabulary]  # in order of rows
        raise ProtocolError(
            f"{where} has {wrong.size} token ids outside the vocabulary of {vocabulary:,} ids; the first is {wrong[0]}"
        )


_OURS = frozenset((INPUT_IDS, CU_SEQLENS, DOCUMENTS, SOURCES, LOSS_RUNS, LOSS_WEIGHTS))


def _extra_columns(
    columns: dict[str, Any], meta: Metadata, where: str
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, DocumentValues]]:
    """Returns the additional columns: those per token, and those per piece."""
    tokens: dict[str, npt.NDArray[Any]] = {}
    documents: dict[str, DocumentValues] = {}
    for name in columns.keys() - _OURS:
        offsets, values = _lists(columns, name, where)
        if is_document_column(values.type):
            _apart(offsets, name, where)
            documents[name] = DocumentValues(offsets, values)
            continue
        array = token_column(values)
        if array is None or not _are_rows(offsets, meta):
            raise ProtocolError(
                f"{where}: {name} is {columns[name].type}, not {meta.rows} rows of {meta.bucket} values"
            )
        tokens[name] = _frozen(array.reshape(meta.rows, meta.bucket))
    return tokens, documents


def step_of(metas: Sequence[Metadata], parts: Sequence[Part]) -> Step:
    """Builds a step from its parts."""
    first = metas[0]
    several = len(metas) > 1
    total: Callable[[str], int] = lambda key: sum(getattr(m, key) for m in metas) if several else getattr(first, key)  # noqa: E731
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
        step_loss_tokens=first.step_loss_tokens,
        step_loss_segments=first.step_loss_segments,
        weighted=any(m.weighted for m in metas),
    )


def _added(metas: Sequence[Metadata]) -> dict[str, SourceCount] | None:
    """Returns the sum of the counts of a step's parts."""
    if metas[0].sources is None:
        return None
    out: dict[str, SourceCount] = {}
    for meta in metas:
        for name, more in (meta.sources or {}).items():
            has = out.get(name, SourceCount(0, 0))
            out[name] = SourceCount(has.tokens + more.tokens, has.loss_tokens + more.loss_tokens)
    return out


def _lists(columns: dict[str, Any], name: str, where: str) -> tuple[Ints, Any]:
    """Returns offsets, shifted to begin with 0, and values of a list column.

    The caller checks that the offsets ascend.
    """
    column = columns.get(name)
    if not isinstance(column, pa.ListArray) or column.null_count:
        raise ProtocolError(f"{where}: no column {name} of lists without nulls")
    offsets = _view(column.offsets)
    first, last, values = int(offsets[0]), int(offsets[-1]), column.values
    if first or last != len(values):
        values = values.slice(first, last - first)
    return offsets - offsets[0] if first else offsets, values


def _list(columns: dict[str, Any], name: str, where: str) -> tuple[Ints, Any]:
    """Returns `_lists` of values without nulls: nested ones as Arrow arrays, others as numpy views."""
    offsets, values = _lists(columns, name, where)
    if values.null_count:
        raise ProtocolError(f"{where}: no column {name} of lists without nulls")
    return offsets, values if pa.types.is_nested(values.type) else _view(values)


def _apart(offsets: Ints, name: str, where: str) -> None:
    """Checks that lists do not overlap.

    Raises:
        ProtocolError: If they do.
    """
    if np.count_nonzero(offsets[1:] < offsets[:-1]):
        raise ProtocolError(f"{where}: the lists of {name} overlap")


def _are_rows(offsets: Ints, meta: Metadata) -> bool:
    """Reports whether lists have a value for every token of a batch's rows."""
    return offsets.tobytes() == _offsets_of(meta.rows, meta.bucket)


@lru_cache(maxsize=64)
def _offsets_of(rows: int, bucket: int) -> bytes:
    """Returns the offsets of `rows` lists of `bucket` values.

    They are cached because steps share few shapes.
    """
    return (np.arange(rows + 1, dtype=np.int64) * bucket).astype(np.int32).tobytes()


def _are_ends(offsets: Ints, ends: Ints, bucket: int) -> bool:
    """Reports whether lists begin with 0, ascend, and end within a row.

    Each list begins with 0, so that no value ascends from one list to the next unless a list ends below 0.
    """
    rows = len(offsets) - 1
    if rows < 1:
        return True
    if np.count_nonzero(offsets[1:] <= offsets[:-1]) or np.count_nonzero(ends[offsets[:-1]]):
        return False
    lasts = ends[offsets[1:] - 1].view(np.uint32)  # negative values become large
    return not np.count_nonzero(lasts > bucket) and np.count_nonzero(ends[1:] > ends[:-1]) == len(ends) - rows


_KINDS: dict[Any, np.dtype[Any]] = {
    pa.int32(): np.dtype(np.int32),
    pa.uint16(): np.dtype(np.uint16),
    pa.uint64(): np.dtype(np.uint64),
    pa.float32(): np.dtype(np.float32),
}


def _view(values: Any) -> Any:
    """Returns an Arrow array of numbers as `array_view`, read-only."""
    kind = _KINDS.get(values.type)
    if kind is None:
        return _frozen(values.to_numpy())  # a loaderd daemon never sends this; the caller rejects its type
    return _frozen(array_view(values, kind))


def _sources(columns: dict[str, Any], meta: Metadata, where: str) -> Sources:
    offsets, pieces = _list(columns, DOCUMENTS, where)
    _apart(offsets, DOCUMENTS, where)
    try:
        sequence, start, length = (_view(pieces.field(name)) for name in ("sequence", "start", "length"))
        several = any(field.name == "index" for field in pieces.type)
        index = _view(pieces.field("index")) if several else None
    except (KeyError, AttributeError, pa.ArrowInvalid) as error:
        raise ProtocolError(f"{where}: column documents: {error}") from error
    number = _of_pieces(columns, SOURCES, np.dtype(np.uint16), offsets, where) if SOURCES in columns else None
    weight = (
        _of_pieces(columns, LOSS_WEIGHTS, np.dtype(np.float32), offsets, where) if LOSS_WEIGHTS in columns else None
    )
    if number is None and weight is None:
        return Sources(offsets, sequence, start, length, index=index)
    rows = np.repeat(np.arange(meta.rows), np.diff(offsets))
    used = np.bincount(rows, length, meta.rows)
    unknown = number is not None and (number >= (meta.step_sources or 0)).any()
    if length.dtype != np.int32 or (length < 1).any() or (used > meta.bucket).any() or unknown:
        raise ProtocolError(
            f"{where}: the pieces of a row have more than {meta.bucket} tokens, or a source that the step does not have"
        )
    return Sources(offsets, sequence, start, length, number, weight, index)


def _of_pieces(columns: dict[str, Any], name: str, kind: np.dtype[Any], offsets: Ints, where: str) -> Any:
    """Returns the values of a column with one value per piece."""
    of_values, values = _list(columns, name, where)
    if values.dtype != kind or not np.array_equal(of_values, offsets):
        raise ProtocolError(f"{where}: {name} does not have one {kind} per piece")
    return values


def _with_loss(part: Part) -> LossRuns:
    """Returns the runs of rows in which all tokens have a loss: one run each."""
    return LossRuns(np.arange(len(part.offsets), dtype=np.int32), part.ends[part.offsets[1:] - 1])


def _loss_runs(columns: dict[str, Any], meta: Metadata, where: str) -> LossRuns:
    offsets, length = _list(columns, LOSS_RUNS, where)
    _apart(offsets, LOSS_RUNS, where)
    rows = np.repeat(np.arange(meta.rows), np.diff(offsets))
    if length.dtype != np.int32 or (length < 0).any() or (np.bincount(rows, length, meta.rows) > meta.bucket).any():
        raise ProtocolError(f"{where}: loss_runs are not runs of at most {meta.bucket} tokens per row")
    return LossRuns(offsets, length)


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
