"""The loader of a training loop: one rank's batches of every step, in order, resumable at any step."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset, get_worker_info

from loaderd._client import Client
from loaderd._connection import TLS
from loaderd._daemons import URLs
from loaderd.errors import ClosedClientError, WorldMismatchError
from loaderd._empty_pass import EmptyPassLog
from loaderd._prefetch import Prefetcher
from loaderd._step_stream import StepStream
from loaderd._step import Step
from loaderd.torch._batch import BatchFormat, make_batch
from loaderd.torch._buffers import Buffers
from loaderd.torch._device import Batch, Mover, to_device
from loaderd.torch._mock import mock_step
from loaderd.torch._ranks import RankInfo, find_rank
from loaderd.torch._counts import BatchCounts, BatchCounter
from loaderd.torch._state import check_state, make_state
from loaderd._wire import DEFAULT_JOB, MixtureChange, RunInfo, RunLength, RunStatus

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


log = logging.getLogger("loaderd")

_MEASURE_LOOK = 0.2
"""Seconds between two polls during a measurement."""


class StepLoader(IterableDataset[Batch]):
    """Yields one dict per step of a run: this rank's rows, [rows, L] with the step's bucket L, the same L on every
    rank.

    | key | value |
    | --- | --- |
    | `input_ids` | `dtype` [rows, L] |
    | `labels` | `dtype` [rows, L]; -100 in padding, for tokens without a loss and on one token of every segment |
    | `position_ids` | `dtype` [rows, L]: 0, 1, ... from the beginning of every segment |
    | `segment_ids` | int32 [rows, L]: 1, 2, ... within the row, 0 for padding |
    | `cu_seqlens` | int32: 0, and the end of every segment in the concatenated rows |
    | `max_seqlen` | int: the longest of these segments |
    | `num_loss_tokens` | int: labels other than -100 in this batch |
    | `num_loss_tokens_global` | int: the sum over the batches of all ranks |
    | `sources` | int32 [rows, L]: the number of the token's source, an index into `sources` of the loader; -1 in padding; by default in a run with several |
    | `num_sources` | int: upper bound (exclusive) of these numbers, the same on every rank |
    | `loss_weights` | float32 [rows, L], if `fields` names it: the loss weight of the label, as its document has it, 0 in padding |
    | a name in `columns` | [rows, L] of the column's type, its fill where documents have no value; for values of documents (`documents.meta`) a list per row, with a str, int, float or None per piece |

    A column is aligned with its tokens: with "shifted" labels the value of a label's token is the next one in the
    row.

    "unshifted" labels are for models that shift labels themselves: the first token of every segment has none.
    "shifted" labels are the next token of the segment; its last has none. In `cu_seqlens` the padding of a row is
    one more segment, so that every token is covered and the last value is rows * L.

    A loader is one pass over the run: a new loop over it continues with the next step, and so does `next()` after an
    exception. It ends when the run is sealed and read. One thread reads, copies and moves, at most `prefetch_factor`
    batches ahead. A batch stays valid while any of its tensors is referenced; unreferenced memory is reused.
    """

    def __init__(
        self,
        url: URLs,
        *,
        run: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        mesh: DeviceMesh | None = None,
        mesh_dims: Sequence[str | int] | str | int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype = torch.int64,
        labels: Literal["unshifted", "shifted"] = "unshifted",
        prefetch_factor: int = 2,
        cu_seqlens_capacity: int | Literal["auto"] | None = None,
        fields: Sequence[str] | None = None,
        columns: Sequence[str] = (),
        pin_memory: bool | None = None,
        job: str = DEFAULT_JOB,
        commit_as: str | None = None,
        token: str | None = None,
        tls: TLS | None = None,
        timeout: float = 300.0,
        connect_timeout: float = 60.0,
    ) -> None:
        """The loader connects on first use, so it may be created before processes are forked or torch.distributed is
        initialized.

        `run`: its name, refused when the daemon serves another. `rank` and `world_size`, or `mesh` with its data-parallel
        dimensions `mesh_dims` (by default found by their names), else torch.distributed, else RANK and WORLD_SIZE,
        else a world of one. `device`: where tensors are placed; None leaves them on the CPU. `pin_memory`: pinned
        host memory; by default if CUDA is available and can be the target. `dtype`: torch.int64 or torch.int32.
        `cu_seqlens_capacity`: a fixed number of `cu_seqlens` (the last value repeats; a step with more raises
        ValueError), or "auto": the next power of two. `fields`: the requested keys, all by default. `columns`:
        additional columns of the documents. `keeper`: the keeper of `commit` (as in `Client.commit`). `url`, `job`,
        `token`, `tls`, `timeout`, `connect_timeout`: as in `loaderd.Client`.
        """
        self._form = BatchFormat.checked(fields, dtype, labels, cu_seqlens_capacity, columns)
        if prefetch_factor < 1:
            raise ValueError(f"prefetch_factor {prefetch_factor}: want at least 1 batch")
        if rank is not None or world_size is not None or mesh is not None or mesh_dims is not None:
            find_rank(rank, world_size, mesh, mesh_dims)  # raises errors of these arguments immediately
        self._where = rank, world_size, mesh, mesh_dims
        self._device = None if device is None else torch.device(device)
        self._pin = pin_memory
        self._prefetch_factor = prefetch_factor
        self._keeper = keeper
        self._connect: dict[str, Any] = {"url": url, "run": run, "token": token, "tls": tls, "job": job, "sources": self._form.sources, "weights": self._form.weights}
        self._connect["columns"] = self._form.columns
        self._connect |= {"timeout": timeout, "connect_timeout": connect_timeout}
        self._step = 0  # the next step to yield
        self._run_id: str | None = None  # of the run, once known
        self._saved: int | None = None  # step of the last state that was taken or restored
        self._counter = BatchCounter()
        self._empty_pass_log = EmptyPassLog()
        self._closed = False
        self._client: Client | None = None
        self._info: RunInfo | None = None
        self._reader: Prefetcher[_Ready] | None = None
        self._stream: StepStream | None = None  # of the current reader, or the last one
        self._place: RankInfo | None = None  # while reading

    # Iteration

    def __iter__(self) -> Iterator[Batch]:
        self._check_process()
        self._empty_pass_log.started()
        return self

    def __next__(self) -> Batch:
        self._check_process()
        while True:
            reader, began = self._reader or self._open(), time.monotonic()
            try:
                ready = next(reader)
            except StopIteration:
                self._empty_pass_log.ended(self.run, self._step)
                raise
            except Exception:
                self._counter.waited += time.monotonic() - began
                self._stop()  # the next call opens another reader, at the same step
                if reader.stale:  # the timeout expired while the caller was not waiting
                    continue
                raise
            waited = time.monotonic() - began
            if ready.step != self._step:  # an interrupt dropped a step between the reader and here
                self._stop()
                continue
            batch = ready.mover.receive(ready.batch, ready.copied)
            self._empty_pass_log.yielded()
            self._counter.waited += waited
            self._counter.add(ready.counts)
            self._step = ready.step + 1  # last: a step that fails or is interrupted before is returned again
            return batch

    # Properties of the run

    @property
    def step(self) -> int:
        """The index of the step that the next `next()` yields; also how many were yielded since the run began."""
        return self._step

    @property
    def run(self) -> str:
        """The run's name."""
        return self._describe().name

    @property
    def fingerprint(self) -> str:
        """The identity of the run's configuration and tokenizer: equal fingerprints and equal documents give equal
        batches.
        """
        return self._describe().fingerprint

    @property
    def info(self) -> RunInfo:
        """The run as it was on the loader's first request: vocabulary size, pad id, row lengths, configuration."""
        return self._describe()

    @property
    def buckets(self) -> tuple[int, ...]:
        """Every row length L of the run, ascending; batches have only the shapes [rows(L), L]."""
        return self._describe().buckets

    @property
    def sources(self) -> tuple[str, ...]:
        """The current names of the run's sources by their numbers."""
        return self._connected().info().sources

    @property
    def total_steps(self) -> int | None:
        """The number of steps of the run from its first to its last, if known exactly; else None. It is for
        schedules of the learning rate:

            total = loader.total_steps or loader.measure()
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-4, total_steps=total)

        It is known when the run has ended, or when all sources are sealed and the run is measured, which the daemon
        does automatically if little is left. It is None while a source is not sealed, while the run is being
        measured, and for a run without an end; `loader.length` then has an estimate. It is constant until the run is
        changed by a new mixture or a flush. Every access calls the daemon: read it on one rank and broadcast it, or
        store it.
        """
        length = self.length
        return length.steps if length is not None and length.exact else None

    @property
    def length(self) -> RunLength | None:
        """The current knowledge of how many steps the run will have: exact, or an estimate with its error. None
        while unknown."""
        return self._connected().info().length

    def measure(self, timeout: float | None = None) -> int:
        """Makes the daemon count how many steps the run will have, and waits for the number, which is `total_steps`
        afterwards. Call it on one rank.

        All sources must be sealed. The remaining documents are read and tokenized an additional time, which takes as
        long as the daemon's tokenizer needs for them. Raises InvalidTicketError while a source is not sealed or for a run
        without an end. Raises TimeoutError when the number is not available after `timeout` seconds; the daemon
        continues to count.
        """
        client, began = self._connected(), time.monotonic()
        client.measure()
        while True:
            length = client.info().length
            if length is not None and length.exact:
                return length.steps
            if length is not None and (length.open or length.endless or length.idle):
                client.measure()  # the run was changed; this raises the reason
            if timeout is not None and time.monotonic() - began >= timeout:
                raise TimeoutError(f"the run is not measured after {timeout:g} s: {length}")
            time.sleep(_MEASURE_LOOK)

    @property
    def counts(self) -> BatchCounts:
        """The counts of the yielded batches since the loader was created, and the time that it waited.
        `loaderd.torch.log` logs them."""
        return self._counter.counts()

    def status(self) -> RunStatus:
        """Returns the run's status as on the daemon's live page and in `loaderd status`: a sentence, what to do, all
        figures. Every call requests it from the daemon."""
        return self._connected().status()

    def rows(self, bucket: int) -> int:
        """Returns this rank's rows of every step with this row length. Raises WorldMismatchError when the world size does
        not divide the step's rows.
        """
        info = self._describe()
        if bucket not in info.rows:
            raise ValueError(f"run {info.name} has no bucket {bucket}: want one of {list(info.buckets)}")
        total, world_size = info.rows[bucket], self.world_size
        if total % world_size:
            raise WorldMismatchError(f"cannot divide the {total} rows of a step of bucket {bucket} among {world_size} ranks")
        return total // world_size

    @property
    def rank(self) -> int:
        """The data-parallel rank whose rows are read."""
        return (self._place or find_rank(*self._where)).rank

    @property
    def world_size(self) -> int:
        """The number of data-parallel ranks."""
        return (self._place or find_rank(*self._where)).world_size

    def get_mock_batch(self, bucket: int | None = None) -> Batch:
        """Returns a batch of synthetic tokens with the keys, shapes, types and device of real ones, by default of
        the largest bucket.

        Every row is one segment of L tokens, the maximum cost of attention. Use it to measure memory and to compile
        before the first step. The position in the run does not change.
        """
        info = self._describe()
        bucket = max(info.buckets) if bucket is None else bucket
        sources = len(info.sources) > 1 if self._form.sources is None else self._form.sources
        step = mock_step(info, bucket, self.rows(bucket), self.world_size, self._form.columns, sources)
        return to_device(make_batch(step, self._form, Buffers()), self._device)

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last batch that was *yielded*: a few numbers and names, the same on every
        rank at the same step.

        Prefetched batches are not covered and are yielded again after a resume.
        """
        info = self._describe()
        self._saved = self._step
        return make_state(info, self._step, self._identify())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continues at the position of a state, before the first batch or between two. The world size may differ
        from that of the saving job.

        Raises RunMismatchError, PlanMismatchError or RunReplacedError when the state is of another run, of another plan, or of a
        run of that name that was deleted since and created again. Raises ValueError for a state that this version
        cannot read.
        """
        step = check_state(state_dict, self._describe())
        self._stop()
        self._run_id = state_dict.get("run_id") or None
        self._connected().keep_to_id(self._run_id)
        self._step = self._saved = step

    def commit(self, step: int | None = None) -> int:
        """Commits to the daemon that the trainer's own checkpoint is *durable* and covers all steps before `step`,
        so that their documents may be released.

        By default `step` is that of the last state that was taken or restored here, never that of batches which no
        state covers. Call it on one rank, or all, once the checkpoint is complete on every rank. Returns the step
        before which every job has committed.
        """
        if step is None:
            if self._saved is None:
                raise ValueError("cannot commit: no state was taken for a checkpoint; call state_dict() first or give the step")
            step = self._saved
        return self._connected().commit(step, self._commit_as)

    # The mixture

    def set_mixture(self, weights: Mapping[str, float], *, once: bool = False) -> MixtureChange:
        """Sets other weights of the run's sources, effective from the next planned document; call it on one rank.
        The result has the first step that can differ (earlier ones are planned) and the share that each source is to
        have. A source that is not named keeps its current share as weight.

        With `once` the run's plan has one change per position of the loader. A trainer that was killed, resumes from
        its checkpoint and repeats a decision gets the recorded change (`again`), regardless of the weights in its
        new request.

        Raises ValueError for a weight that is not a number from 0 to 1e9. Raises InvalidTicketError for weights that no
        mixture can have, and if all sources are exhausted. Raises ForbiddenError for a caller without the role operate,
        or train where the daemon has flight.train_may_mix. `loaderd.Client.mix` can also add and remove sources.
        """
        return MixtureChange.decode(self._connected().mix(weights, decided=self._step if once else None))

    # Closing

    def close(self) -> None:
        """Stops prefetching and disconnects. No thread remains."""
        self._closed = True
        self._stop()
        if self._client is not None:
            self._client.close()

    def __enter__(self) -> StepLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            "cannot copy a StepLoader or send it to another process: it reads in its own thread; "
            "give a DataLoader num_workers=0, or create the loader in the other process"
        )

    # Internals

    def _check_process(self) -> None:
        if self._closed:
            raise ClosedClientError("the loader is closed")
        if get_worker_info() is not None:
            raise RuntimeError(
                "a StepLoader in a DataLoader worker would read every step once per worker: it already prefetches in a "
                "thread, so give the DataLoader num_workers=0"
            )
        alone = self._place is not None and self._place.source == "default"
        if alone and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            raise RuntimeError(
                "the loader started reading as the only rank, before torch.distributed was initialised: start after "
                "init_process_group, or give rank= and world_size="
            )

    def _connected(self) -> Client:
        self._check_process()
        if self._client is None:
            self._client = Client(**self._connect)
        return self._client

    def _describe(self) -> RunInfo:
        if self._info is None:
            self._info = self._connected().info()
        return self._info

    def _identify(self) -> str | None:
        """Returns the run's id. A run that began after the loader's first request has its id with its first step."""
        known = self._stream.run_id if self._stream else None
        self._run_id = self._run_id or self._describe().run_id or known
        return self._run_id

    def _open(self) -> Prefetcher[_Ready]:
        """Opens a reader at the current step, with the state that its thread needs."""
        self._describe()  # a state can then be taken even if the daemon is down
        client, place = self._connected(), find_rank(*self._where)
        client.rank, client.world_size, client.peer = place.rank, place.world_size, place.peer
        mover = Mover(self._device, self._pin)
        unused = 4 * (self._prefetch_factor + 2)  # a batch has three tensors of one size, and one of another bucket's
        make = _Maker(self._form, Buffers(pinned=mover.pinned, keep=unused), mover)
        self._place = place
        client.keep_to_id(self._identify())
        stream = self._stream = client.stream(self._step, masks=self._form.masks)
        self._reader = Prefetcher(stream, self._prefetch_factor, make)
        return self._reader

    def _stop(self) -> None:
        reader, self._reader, self._place = self._reader, None, None
        if reader is not None:
            if self._stream is not None and not self._closed:
                self._stream.suspend()
            reader.close()


@dataclass(frozen=True, slots=True)
class _Ready:
    step: int
    batch: Batch
    copied: torch.cuda.Event | None
    mover: Mover
    counts: BatchCounts


@dataclass(frozen=True, slots=True)
class _Maker:
    """Builds batches in the reader's thread. It does not reference the loader, so that an abandoned loader is
    collected and its thread ends.
    """

    form: BatchFormat
    buffers: Buffers
    mover: Mover
    warned: list[int] = field(default_factory=list)

    def __call__(self, step: Step) -> _Ready:
        if step.weighted and not self.form.weights and not self.warned:
            self.warned.append(step.index)
            log.warning(
                'step %d has documents with a loss weight, but the batches omit it: add "loss_weights" to the fields of StepLoader and multiply the losses by it',
                step.index,
            )
        with self.mover.on_gpu():
            batch, copied = self.mover.send(make_batch(step, self.form, self.buffers))
            return _Ready(step.index, batch, copied, self.mover, BatchCounts.of(step))
