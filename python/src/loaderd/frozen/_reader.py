"""An iterator over the steps of a folder, for one rank."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from loaderd._step import Part, Step, check_ids, part_of, step_of
from loaderd._wire import (
    CU_SEQLENS,
    DOCUMENTS,
    INPUT_IDS,
    LOSS_RUNS,
    LOSS_WEIGHTS,
    SOURCES,
    Metadata,
    SourceCount,
    token_ids,
)
from loaderd.errors import LoaderdError
from loaderd.frozen._formats import rows_of

_OURS = (CU_SEQLENS, LOSS_RUNS, LOSS_WEIGHTS, DOCUMENTS, SOURCES)
"""Columns that are read to count a step's contents, if the folder has them."""


class Frozen(Iterator[Step]):
    """Iterates over the steps that `loaderd run export` has written into a folder.

    Every rank gets byte for byte what `loaderd.Client` with the same arguments got. For any world size W, rank r has
    rows `[r*R/W, (r+1)*R/W)` of the R rows of a step. A reader with `step=next_step`, or `load_state_dict()` of a
    stored `state_dict()`, continues there, on any number of ranks.

    Attributes:
        folder: The folder.
        manifest: The content of its manifest.json.
        run: The run's name.
        fingerprint: The identity of the run's configuration and tokenizer.
        first: The folder's first step.
        end: The step after its last.
        next_step: The step that `next()` returns.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        rank: int = 0,
        world_size: int = 1,
        step: int | None = None,
        steps: int | None = None,
        documents: bool = False,
        sources: bool | None = False,
        weights: bool = False,
        columns: Sequence[str] = (),
        check: bool = False,
    ) -> None:
        """Opens a folder.

        Args:
            folder: The folder that `loaderd run export` has written.
            rank: The data-parallel rank whose rows are read, 0 to `world_size` - 1.
            world_size: The number of ranks.
            step: The index of the first step; None means the folder's first.
            steps: How many steps are read; None reads all.
            documents: As in `loaderd.Client`.
            sources: As in `loaderd.Client`; None requests them if the folder has them.
            weights: As in `loaderd.Client`.
            columns: As in `loaderd.Client`.
            check: Whether to compare every file with its SHA-256 first.

        Raises:
            ValueError: If the folder was exported without a requested column, or has no such step.
            LoaderdError: If the export is incomplete, has another version, or a checked file has changed.
        """
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size}: want a rank from 0 to world_size - 1")
        self.folder, self.rank, self.world_size = Path(folder), rank, world_size
        self.manifest: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        if self.manifest.get("version") != 1:
            raise LoaderdError(
                f"{self.folder}/manifest.json has version {self.manifest.get('version')}, this package reads version 1"
            )
        if not self.manifest["complete"]:
            raise LoaderdError(f"the export in {self.folder} is incomplete: repeat the same loaderd run export")
        self.first, self.end = int(self.manifest["first"]), int(self.manifest["end"])
        self.run, self.fingerprint = str(self.manifest["run"]), str(self.manifest["fingerprint"])
        self._ids = token_ids(self.manifest["config"])
        self._types = {c["name"]: str(c["type"]) for c in self.manifest["schema"]}
        self._sources = SOURCES in self._types if sources is None else sources
        self._documents, self._weights = documents or self._sources or weights, weights
        self._extra_columns = tuple(columns)
        wanted = [
            INPUT_IDS,
            CU_SEQLENS,
            *((DOCUMENTS,) * self._documents),
            *((SOURCES,) * self._sources),
            *((LOSS_WEIGHTS,) * weights),
            *columns,
        ]
        if missing := [name for name in wanted if name not in self._types]:
            raise ValueError(
                f"the export in {self.folder} has no column {', '.join(missing)}; it has {', '.join(self._types)}"
            )
        self._columns = list(dict.fromkeys([INPUT_IDS, *(name for name in _OURS if name in self._types), *columns]))
        self._until = self.end if steps is None else min(self.end, (self.first if step is None else step) + steps)
        self.next_step = self.first
        self._open: Iterator[Step] | None = None
        self._seek(self.first if step is None else step)
        if check:
            self.check()

    def check(self) -> None:
        """Compares every file with the manifest.

        Raises:
            LoaderdError: At the first file that differs.
        """
        for part in self.manifest["parts"]:
            for file in part["files"]:
                with (self.folder / file["name"]).open("rb") as data:
                    digest = (
                        hashlib.file_digest(data, "sha256").hexdigest()
                        if hasattr(hashlib, "file_digest")
                        else hashlib.sha256(data.read()).hexdigest()
                    )
                if digest != file["sha256"]:
                    raise LoaderdError(f"{self.folder / file['name']} has changed since it was exported")

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the next step, for a checkpoint."""
        return {"run": self.run, "fingerprint": self.fingerprint, "step": self.next_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at the position of another reader of the same run.

        Args:
            state: What `state_dict()` of that reader returned.

        Raises:
            ValueError: If the state belongs to another plan, or to a step that the folder does not have.
        """
        if state["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"the state belongs to the plan {state['fingerprint']}, {self.folder} has the plan {self.fingerprint}"
            )
        self._seek(int(state["step"]))

    def __next__(self) -> Step:
        """Returns the next step.

        Raises:
            LoaderdError: If the world size does not divide the rows of the step, a file is damaged, or the step has
                tokens without a loss and the export has no column `loss_runs`.
            ProtocolError: If a token id is outside the run's vocabulary.
            StopIteration: After the last step.
        """
        if self._open is None:
            self._open = self._steps(self.next_step)
        step = next(self._open)
        self.next_step = step.index + 1
        return step

    def _seek(self, step: int) -> None:
        if not self.first <= step <= self.end:
            raise ValueError(f"step {step}: {self.folder} has steps {self.first} to {self.end - 1}")
        self.next_step, self._open = step, None

    def _steps(self, first: int) -> Iterator[Step]:
        for part in self.manifest["parts"]:
            if part["first"] + part["steps"] <= first or part["first"] >= self._until:
                continue
            name = f"part-{part['first']:08d}"
            counts = json.loads((self.folder / f"{name}.steps.json").read_text(encoding="utf-8"))
            rows = _RowRegrouper(rows_of(self.manifest["format"], self.folder, name, self._columns, self._types))
            for of in counts:
                batch = rows.take(of["rows"])
                if first <= of["step"] < self._until:
                    yield self._step(of, batch)

    def _step(self, of: dict[str, Any], batch: pa.RecordBatch) -> Step:
        """Returns this rank's rows.

        Raises:
            LoaderdError: If the folder does not record which tokens have no loss.
        """
        total = batch.num_rows
        if LOSS_RUNS not in self._types and of["step_loss_tokens"] < of["step_tokens"]:
            raise LoaderdError(
                f"step {of['step']} has tokens without a loss, and the export in {self.folder} has no column "
                f"{LOSS_RUNS}: export it with that column"
            )
        if total % self.world_size:
            raise LoaderdError(
                f"cannot divide the {total} rows of step {of['step']} among {self.world_size} ranks: want a divisor of "
                f"{total}"
            )
        rows = total // self.world_size
        mine = _decoded(batch.slice(self.rank * rows, rows))
        shared: dict[str, Any] = {
            k: of[k] for k in ("step_tokens", "step_segments", "step_loss_tokens", "step_loss_segments")
        }
        meta = Metadata(
            self.run,
            of["step"],
            0,
            1,
            of["bucket"],
            rows,
            0,
            0,
            0,
            0,
            **shared,
            step_rows=total,
            step_sources=of.get("step_sources"),
        )
        part = part_of(mine, meta, counted=False)
        check_ids(part, self._ids, f"step {meta.step} of run {meta.run} in {self.folder}")
        meta = self._counted(meta, part)
        if meta.loss_tokens == meta.tokens:
            part = replace(part, loss_runs=None)
        return step_of([meta], [self._asked(part)])

    def _counted(self, meta: Metadata, part: Part) -> Metadata:
        """Returns the metadata with the counts of a part's rows, as the daemon counts them."""
        lasts = part.offsets[1:] - 1
        segments = np.diff(part.ends)
        segments[lasts[:-1]] = 0  # the difference across the border of two rows
        tokens = int(part.ends[lasts].sum())
        meta = replace(
            meta,
            tokens=tokens,
            loss_tokens=tokens,
            max_seqlen=int(segments.max(initial=0)),
            documents=len(segments) - meta.rows + 1,
        )
        if part.loss_runs is not None:
            meta = replace(meta, loss_tokens=int(step_of([meta], [part]).loss_mask().sum()))
        if part.sources is None:
            return meta
        weight = part.sources.weight
        meta = replace(
            meta, documents=len(part.sources.length), weighted=weight is not None and bool((weight != 1).any())
        )
        return replace(meta, sources=self._counts(step_of([meta], [part]))) if part.sources.number is not None else meta

    def _counts(self, step: Step) -> dict[str, SourceCount]:
        """Returns the counts of the rows per source."""
        numbers, mask = step.source_ids(), step.loss_mask()
        names = self.manifest.get("sources") or []
        return {
            names[n]: SourceCount(int((numbers == n).sum()), int(mask[numbers == n].sum()))
            for n in np.unique(numbers[numbers >= 0]).tolist()
        }

    def _asked(self, part: Part) -> Part:
        """Returns a part without the columns that the caller did not request."""
        if part.sources is None or not self._documents:
            return replace(part, sources=None)
        found = part.sources
        return replace(
            part,
            sources=replace(
                found, number=found.number if self._sources else None, weight=found.weight if self._weights else None
            ),
        )


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch with texts of documents in dictionaries, as the daemon sends them."""
    columns = []
    for column in batch.columns:
        if pa.types.is_list(column.type) and pa.types.is_string(column.type.value_type):
            column = pa.ListArray.from_arrays(column.offsets, column.values.dictionary_encode())
        columns.append(column)
    return pa.record_batch(columns, names=batch.schema.names)


class _RowRegrouper:
    """Regroups the rows of batches into batches of other sizes."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def take(self, rows: int) -> pa.RecordBatch:
        """Returns the next rows in one batch: a view if one input batch has them all."""
        found: list[pa.RecordBatch] = []
        while rows:
            if self._rest is None or not self._rest.num_rows:
                self._rest = next(self._batches, None)
                if self._rest is None:
                    raise LoaderdError("a file has fewer rows than its steps: the file is damaged")
            found.append(self._rest.slice(0, rows))
            rows -= found[-1].num_rows
            self._rest = self._rest.slice(found[-1].num_rows)
        if len(found) == 1:
            return found[0]
        return pa.Table.from_batches(found).combine_chunks().to_batches()[0]
