"""The loader of a training loop: one rank's batches of every step, in order, resumable at any of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset, get_worker_info

from loaderd.client import Client
from loaderd.connection import TLS
from loaderd.daemons import URLs
from loaderd.errors import ClosedClient, WorldMismatch
from loaderd.passes import Passes
from loaderd.prefetch import Prefetcher
from loaderd.reading import StepStream
from loaderd.step import Step
from loaderd.torch.batch import Form, make_batch
from loaderd.torch.buffers import Buffers
from loaderd.torch.device import Batch, Mover, to_device
from loaderd.torch.mock import mock_step
from loaderd.torch.ranks import Place, find_place
from loaderd.torch.seen import Seen, Tally
from loaderd.torch.state import check_state, make_state
from loaderd.wire import DEFAULT_JOB, MixtureChange, RunInfo, RunLength, RunStatus

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


log = logging.getLogger("loaderd")

_MEASURE_LOOK = 0.2
"""Seconds between two looks at a run that is measured."""


class StepLoader(IterableDataset[Batch]):
    """Yields one dict for every step of a run: this rank's rows, [rows, L] with the step's bucket L, the same L on
    every rank.

    | key | value |
    | --- | --- |
    | `input_ids` | `dtype` [rows, L] |
    | `labels` | `dtype` [rows, L]; -100 in padding, for tokens without a loss and on one token of every segment |
    | `position_ids` | `dtype` [rows, L]: 0, 1, ... from the beginning of every segment |
    | `segment_ids` | int32 [rows, L]: 1, 2, ... within the row, 0 for padding |
    | `cu_seqlens` | int32: 0, and the end of every segment of the rows laid end to end |
    | `max_seqlen` | int: the longest of these segments |
    | `num_loss_tokens` | int: labels other than -100 in this batch |
    | `num_loss_tokens_global` | int: in the batches of all ranks together |
    | `sources` | int32 [rows, L]: the number of the token's source, an index into `sources` of the loader; -1 in padding; by default of a run with several |
    | `num_sources` | int: these numbers are below it, on every rank |
    | `loss_weights` | float32 [rows, L], where `fields` names it: the factor of the label's loss that its document carries, 0 in padding |
    | a name in `columns` | [rows, L] of the column's type, its fill where documents have no value; of values of documents (`documents.meta`) a list for every row, with a str, int, float or None for every piece |

    A column stands with its token: with "shifted" labels the value of a label's token is the next one in the row.

    "unshifted" labels are for models that shift by themselves: the first token of every segment has none. "shifted"
    ones are the next token of the segment; its last has none. In `cu_seqlens` the padding of a row is one more segment,
    so that every token is covered and the last value is rows * L.

    A loader is one pass over the run: leaving a loop and entering another goes on with the next step, and so does
    asking again after an exception. It ends when the run is sealed and read. Reading, copying and moving happen in one
    thread, at most `prefetch` batches ahead. A batch is the caller's for as long as any tensor of it lives; memory that
    nobody holds is used again.
    """

    def __init__(
        self,
        url: URLs,
        *,
        run: str | None = None,
        rank: int | None = None,
        world: int | None = None,
        mesh: DeviceMesh | None = None,
        mesh_dims: Sequence[str | int] | str | int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype = torch.int64,
        labels: Literal["unshifted", "shifted"] = "unshifted",
        prefetch: int = 2,
        cu_seqlens_capacity: int | Literal["auto"] | None = None,
        fields: Sequence[str] | None = None,
        columns: Sequence[str] = (),
        pin_memory: bool | None = None,
        job: str = DEFAULT_JOB,
        keeper: str | None = None,
        token: str | None = None,
        tls: TLS | None = None,
        patience: float = 300.0,
        connect_timeout: float = 60.0,
    ) -> None:
        """Nothing is connected before it is needed, so a loader may be made before processes are forked or
        torch.distributed begins.

        `run`: its name, refused when the daemon serves another. `rank` and `world`, or `mesh` with its data-parallel
        dimensions `mesh_dims` (told by their names when left out), else torch.distributed, else RANK and WORLD_SIZE,
        else a world of one. `device`: where tensors go; None leaves them on the CPU. `pin_memory`: pinned host memory;
        by default when CUDA is there and can be the target. `dtype`: torch.int64 or torch.int32. `cu_seqlens_capacity`:
        a fixed number of `cu_seqlens` (the last value repeats; a step with more raises ValueError), or "auto": the next
        power of two. `fields`: the keys wanted, all by default. `columns`: columns that documents bring along, wanted besides. `keeper`: the name under which `commit` is kept
        (as `Client.commit`).
        `url`, `job`, `token`, `tls`, `patience`, `connect_timeout`: as `loaderd.Client`.
        """
        self._form = Form.checked(fields, dtype, labels, cu_seqlens_capacity, columns)
        if prefetch < 1:
            raise ValueError(f"prefetch {prefetch}: want 1 or more batches")
        if rank is not None or world is not None or mesh is not None or mesh_dims is not None:
            find_place(rank, world, mesh, mesh_dims)  # what is wrong in these is said at once
        self._where = rank, world, mesh, mesh_dims
        self._device = None if device is None else torch.device(device)
        self._pin = pin_memory
        self._prefetch = prefetch
        self._keeper = keeper
        self._connect: dict[str, Any] = {"url": url, "run": run, "token": token, "tls": tls, "job": job, "sources": self._form.sources, "weights": self._form.weights}
        self._connect["columns"] = self._form.columns
        self._connect |= {"patience": patience, "connect_timeout": connect_timeout}
        self._step = 0  # the next one to yield
        self._run_id: str | None = None  # of the run, once it is known
        self._saved: int | None = None  # step of the last state that was taken or restored
        self._tally = Tally()
        self._passes = Passes()
        self._closed = False
        self._client: Client | None = None
        self._info: RunInfo | None = None
        self._reader: Prefetcher[_Ready] | None = None
        self._stream: StepStream | None = None  # that it reads, or the last one did
        self._place: Place | None = None  # while reading

    # Iteration

    def __iter__(self) -> Iterator[Batch]:
        self._check_process()
        self._passes.begun()
        return self

    def __next__(self) -> Batch:
        self._check_process()
        while True:
            reader, began = self._reader or self._open(), time.monotonic()
            try:
                ready = next(reader)
            except StopIteration:
                self._passes.ended(self.run, self._step)
                raise
            except Exception:
                self._tally.waited += time.monotonic() - began
                self._stop()  # the next call opens another reader, at the same step
                if reader.stale:  # patience is for those who wait
                    continue
                raise
            waited = time.monotonic() - began
            if ready.step != self._step:  # an interrupt came between the reader and here
                self._stop()
                continue
            batch = ready.mover.receive(ready.batch, ready.copied)
            self._passes.yielded()
            self._tally.waited += waited
            self._tally.add(ready.seen)
            self._step = ready.step + 1  # last: what fails or is interrupted before comes again
            return batch

    # What is read

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
        """What identifies the run's configuration and tokenizer: batches under one fingerprint and the same documents
        are equal.
        """
        return self._describe().fingerprint

    @property
    def info(self) -> RunInfo:
        """The run as it was when the loader first asked: vocabulary size, pad id, row lengths, configuration."""
        return self._describe()

    @property
    def buckets(self) -> tuple[int, ...]:
        """Every row length L that batches have, ascending: [rows(L), L] are all shapes there are."""
        return self._describe().buckets

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the run's sources by their numbers, as they are now."""
        return self._connected().info().sources

    @property
    def total_steps(self) -> int | None:
        """How many steps the run has from its first to its last one, where that is known exactly; else None. It is for schedules of the learning rate:

            total = loader.total_steps or loader.measure()
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-4, total_steps=total)

        It is known when all sources are sealed and the run is measured, which the daemon does by itself where little is left, or has ended. It is None while a source
        is not sealed, while the run is being measured, and for one without an end; `loader.length` then has an estimate. It stays what it is until somebody changes
        the run: its mixture, a drain. Every call asks the daemon: have one rank ask and tell the others, or keep the number.
        """
        length = self.length
        return length.steps if length is not None and length.exact else None

    @property
    def length(self) -> RunLength | None:
        """How many steps the run will have as far as that is known now: exactly, or an estimate with its error. None while nothing is known."""
        return self._connected().info().length

    def measure(self, timeout: float | None = None) -> int:
        """Has the daemon count how many steps the run will have, and waits for the number: `total_steps` from then on. Call it on one rank.

        All sources must be sealed. Documents that are left are read and tokenized once more: that takes as long as the daemon's tokenizer does for them. Raises
        BadTicket while a source is not sealed or for a run without an end, and TimeoutError when the number is not there after `timeout` seconds; the daemon goes on
        with it.
        """
        client, began = self._connected(), time.monotonic()
        client.measure()
        while True:
            length = client.info().length
            if length is not None and length.exact:
                return length.steps
            if length is not None and (length.open or length.endless or length.idle):
                client.measure()  # somebody has changed the run: it says why there is no number
            if timeout is not None and time.monotonic() - began >= timeout:
                raise TimeoutError(f"the run is not measured after {timeout:g} s: {length}")
            time.sleep(_MEASURE_LOOK)

    @property
    def seen(self) -> Seen:
        """What this loader has yielded since it was made, and how long it waited: see `loaderd.torch.log` for a logger of these."""
        return self._tally.seen()

    def status(self) -> RunStatus:
        """How the run does, as the daemon's live page and `loaderd status` say it: a sentence, what to do, all figures. Every call asks the daemon."""
        return self._connected().status()

    def rows(self, bucket: int) -> int:
        """This rank's rows of every step with this row length. Raises WorldMismatch when the world does not divide the
        step.
        """
        info = self._describe()
        if bucket not in info.rows:
            raise ValueError(f"the run {info.name} has no bucket {bucket}, but {list(info.buckets)}")
        total, world = info.rows[bucket], self.world
        if total % world:
            raise WorldMismatch(f"{world} ranks do not divide the {total} rows of a step of bucket {bucket}")
        return total // world

    @property
    def rank(self) -> int:
        """The data-parallel rank whose rows are read."""
        return (self._place or find_place(*self._where)).rank

    @property
    def world(self) -> int:
        """The number of data-parallel ranks."""
        return (self._place or find_place(*self._where)).world

    def get_mock_batch(self, bucket: int | None = None) -> Batch:
        """A batch of made-up tokens with the keys, shapes, types and device of real ones, of the largest bucket unless
        told otherwise.

        Every row is one segment of L tokens, the most that attention can cost. For measuring memory and compiling
        before the first step; the position in the run does not change.
        """
        info = self._describe()
        bucket = max(info.buckets) if bucket is None else bucket
        sources = len(info.sources) > 1 if self._form.sources is None else self._form.sources
        step = mock_step(info, bucket, self.rows(bucket), self.world, self._form.columns, sources)
        return to_device(make_batch(step, self._form, Buffers()), self._device)

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """The position behind the last batch that was *yielded*: a few numbers and names, the same on every rank at the
        same step.

        What was only read ahead is not covered and comes again after a resume.
        """
        info = self._describe()
        self._saved = self._step
        return make_state(info, self._step, self._identify())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on at the position of a state, before the first batch or between two; the world may be another than the
        one that saved it.

        Raises RunMismatch, PlanMismatch or RunReplaced when the state is of another run, of another plan, or of a run of that name that was
        deleted since and begun again; ValueError when it is no state that this version reads.
        """
        step = check_state(state_dict, self._describe())
        self._stop()
        self._run_id = state_dict.get("run_id") or None
        self._connected().keep_to_id(self._run_id)
        self._step = self._saved = step

    def commit(self, step: int | None = None) -> int:
        """Tells the daemon that the trainer's own checkpoint is *durable* and covers all steps before `step`, so that
        their documents may go.

        By default the step of the state that was last taken or restored here, never that of batches which no state
        covers. Call it from one rank, or all, once the checkpoint is complete on every rank. Returns the step before
        which every keeper has committed.
        """
        if step is None:
            if self._saved is None:
                raise ValueError("no state was taken for a checkpoint to hold: call state_dict() first or name the step")
            step = self._saved
        return self._connected().commit(step, self._keeper)

    # The mixture

    def set_mixture(self, weights: Mapping[str, float], *, once: bool = False) -> MixtureChange:
        """Gives the sources of the run other weights, from the next document on that is planned; call it on one rank. The answer has the first step that
        can differ (those before it are planned) and the share that each source is to have. A source that is not named keeps its present share as weight.

        With `once` the run's plan has one change for each position of the loader: a trainer that was killed, resumes from its checkpoint and decides again
        where it has decided before is answered with that change, which stays as it is (`again`), whatever weights it asks for now.

        Raises ValueError for a weight that is no number from 0 to 1e9; BadTicket for weights that no mixture can have, and where all sources are used up;
        Forbidden for a caller who may not: it takes the role operate, or train where the daemon has flight.train_may_mix. `loaderd.Client.mix` does more: sources that come and go.
        """
        return MixtureChange.decode(self._connected().mix(weights, decided=self._step if once else None))

    # The end

    def close(self) -> None:
        """Stops reading ahead and disconnects. No thread is left."""
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
            "a StepLoader cannot be copied or sent to another process: it reads in a thread of its own; "
            "give a DataLoader num_workers=0, or make the loader in the other process"
        )

    # Inside

    def _check_process(self) -> None:
        if self._closed:
            raise ClosedClient("the loader is closed")
        if get_worker_info() is not None:
            raise RuntimeError(
                "a StepLoader in a DataLoader worker would read every step once a worker: it already reads ahead in a "
                "thread, so give the DataLoader num_workers=0"
            )
        alone = self._place is not None and self._place.source == "default"
        if alone and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            raise RuntimeError(
                "the loader began to read as the only rank, before torch.distributed was initialised: begin after "
                "init_process_group, or give rank= and world="
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
        """The run's id. One that began after the loader asked first tells it with its first step."""
        known = self._stream.run_id if self._stream else None
        self._run_id = self._run_id or self._describe().run_id or known
        return self._run_id

    def _open(self) -> Prefetcher[_Ready]:
        """A reader from the present step on, and what its thread needs."""
        self._describe()  # a state can then be taken whether the daemon is there or not
        client, place = self._connected(), find_place(*self._where)
        client.rank, client.world, client.peer = place.rank, place.world, place.peer
        mover = Mover(self._device, self._pin)
        unused = 4 * (self._prefetch + 2)  # a batch has three tensors of a size, and one of another bucket's
        make = _Maker(self._form, Buffers(pinned=mover.pinned, keep=unused), mover)
        self._place = place
        client.keep_to_id(self._identify())
        stream = self._stream = client.stream(self._step, masks=self._form.masks)
        self._reader = Prefetcher(stream, self._prefetch, make)
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
    seen: Seen


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes batches in the reader's thread. It knows nothing of the loader, so that one left behind is collected and
    its thread ends.
    """

    form: Form
    buffers: Buffers
    mover: Mover
    warned: list[int] = field(default_factory=list)

    def __call__(self, step: Step) -> _Ready:
        if step.weighted and not self.form.weights and not self.warned:
            self.warned.append(step.index)
            log.warning(
                'step %d has documents whose loss has a weight, and the batches do not: give StepLoader fields with "loss_weights", and multiply the losses by them',
                step.index,
            )
        with self.mover.on_gpu():
            batch, copied = self.mover.send(make_batch(step, self.form, self.buffers))
            return _Ready(step.index, batch, copied, self.mover, Seen.of(step))
