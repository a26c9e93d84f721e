"""The loader of a training loop: one rank's batches of every step, in order, resumable at any step."""

from __future__ import annotations

import html
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.utils.data import IterableDataset

from loaderd._connection import TLS
from loaderd._daemons import URLs
from loaderd._empty_pass import EmptyPassLog
from loaderd._loader_state import LoaderState
from loaderd._wire import DEFAULT_JOB, MixtureChange, RunInfo, RunLength, RunStatus
from loaderd.torch._batch import BatchFormat, make_batch
from loaderd.torch._buffers import Buffers
from loaderd.torch._counts import BatchCounter, BatchCounts
from loaderd.torch._device import Batch, to_device
from loaderd.torch._document_run import DocumentRun, Input
from loaderd.torch._guard import ProcessGuard
from loaderd.torch._mock import mock_step
from loaderd.torch._options import ClientOptions, PrefetchOptions, RankOptions
from loaderd.torch._prefetcher import BatchPrefetcher
from loaderd.torch._progress import Progress, is_interactive
from loaderd.torch._ranks import check_agreement, restart_agreements
from loaderd.torch._run_client import RunClient

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class StepLoader(IterableDataset[Batch]):
    """Yields one dict per step of a run: this rank's rows, [rows, L] with the step's bucket L.

    L is the same on every rank.

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
    | `sources` | int32 [rows, L]: the token's source, an index into `sources` of the loader; -1 in padding |
    | `num_sources` | int: upper bound (exclusive) of these numbers, the same on every rank |
    | `loss_weights` | float32 [rows, L]: the loss weight of the label, as its document has it; 0 in padding |
    | a name in `columns` | [rows, L] of the column's type, its fill where documents have no value |

    `sources` and `num_sources` are present by default in a run with several sources, `loss_weights` if `fields` names
    it. For values of documents (`documents.meta`) a column is a list per row, with a str, int, float or None per piece.
    A column is aligned with its tokens: with "shifted" labels the value of a label's token is the next one in the row.

    "unshifted" labels are for models that shift labels themselves: the first token of every segment has none. "shifted"
    labels are the next token of the segment; its last has none. In `cu_seqlens` the padding of a row is one more
    segment, so that every token is covered and the last value is rows * L.

    A loader is one pass over the run: a new loop over it continues with the next step, and so does `next()` after an
    exception. It ends when the run is sealed and read. One thread reads, copies and moves, at most `prefetch_factor`
    batches ahead. A batch stays valid while any of its tensors is referenced; unreferenced memory is reused.

    Example:
        ```python
        with StepLoader("grpc://127.0.0.1:8815", device="cuda") as loader:
            for batch in loader:
                loss = train(batch)
                if checkpoint_due():
                    save(model, loader.state_dict())
                    loader.commit()
        ```

        Without a daemon, in a notebook: the loader starts a private one, which reads the documents meanwhile.

        ```python
        loader = StepLoader(documents="corpus/*.jsonl", tokenizer="gpt2", settings={"steps.rows": 8})
        batch = next(loader)
        ```
    """

    def __init__(
        self,
        url: URLs | None = None,
        *,
        documents: Input | None = None,
        tokenizer: object = None,
        folder: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None,
        publish: Mapping[str, Any] | None = None,
        progress: bool | None = None,
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
        """Creates a loader, which connects on first use.

        It may therefore be created before processes are forked or torch.distributed is initialized.

        Args:
            url: The addresses of the daemons, as in `loaderd.Client`. Give this or `documents`.
            documents: What a private daemon reads, which starts on first use and stops with `close()`, with the loader
                or with this process: a path, folder, pattern or address (hf://datasets/OWNER/NAME/*.parquet, s3://...),
                a list of them, or an iterable of documents as `loaderd.publish` accepts them, such as texts or a
                dataset of Hugging Face. They are published in the background while steps are read; the run ends with
                the last one. The daemon stores a copy of them.
            tokenizer: The tokenizer of `documents`, as in `loaderd.serve`.
            folder: Where the private daemon keeps its data, so that a later loader with the same arguments continues
                the run, and publishes no document twice. Without it the data are temporary.
            settings: Settings of the private daemon by name, such as {"steps.rows": 8, "packing.buckets": [1024]}.
            publish: Options of `loaderd.publish`, or for paths those of the command `loaderd publish`, such as
                {"text_column": "content"}.
            progress: Whether iterating shows a bar of tqdm with step, tokens/s and the cause of a stall. By default
                with `documents`, if tqdm is installed and this is a notebook or a terminal.
            run: The name that the daemon's run must have; None accepts the first run found.
            rank: The data-parallel rank. By default rank and world size are those of `mesh`, else of
                torch.distributed, else those of RANK and WORLD_SIZE, else this is the only rank.
            world_size: The number of data-parallel ranks.
            mesh: A device mesh that has the rank.
            mesh_dims: The mesh's data-parallel dimensions by name or number; by default they are found by their names.
            device: Where tensors are placed; None leaves them on the CPU.
            dtype: torch.int64 or torch.int32, the type of token ids, labels and positions.
            labels: "unshifted" or "shifted".
            prefetch_factor: How many batches are read ahead, 1 or more.
            cu_seqlens_capacity: A fixed number of `cu_seqlens`: the last value repeats, and a step with more raises
                ValueError. "auto" is the next power of two; None has no fixed number.
            fields: The requested keys; None requests all but `loss_weights`.
            columns: Names of additional columns of the documents.
            pin_memory: Whether host memory is pinned; by default if CUDA is available and can be the target.
            job: The name of the training job. Jobs that read the same run do not wait for each other.
            commit_as: The job of `commit`, if it is not `job`, as in `loaderd.Client.commit`.
            token: The daemon's bearer token, as in `loaderd.Client`.
            tls: What TLS needs in addition to the system's certificate authorities.
            timeout: Seconds without a batch after which the cause is raised. Set it below the timeout of collectives.
            connect_timeout: Seconds without any answer after which UnreachableError is raised.

        Raises:
            ValueError: If an argument is invalid.
            TypeError: If `mesh` is not a DeviceMesh, or `documents` is neither a path nor an iterable.
            FileNotFoundError: If no file matches a pattern of `documents`.
            ImportError: If `progress` is True and tqdm is not installed.
        """
        self._documents = _document_run(url, documents, tokenizer, folder, settings, publish)
        batch_format = BatchFormat.checked(fields, dtype, labels, cu_seqlens_capacity, columns)
        ranks = RankOptions(rank, world_size, mesh, mesh_dims)
        prefetch = PrefetchOptions(prefetch_factor, None if device is None else torch.device(device), pin_memory)
        prefetch.check()
        ranks.check()
        self._format, self._device, self._ranks, self._commit_as = batch_format, prefetch.device, ranks, commit_as
        self._state = LoaderState(check_skips=check_agreement)
        self._counter, self._empty_pass_log = BatchCounter(), EmptyPassLog()
        self._guard = ProcessGuard()
        self._url = url
        options = ClientOptions(url or "", run, job, token, tls, timeout, connect_timeout)
        self._client = RunClient(options, batch_format, self._guard, self._documents)
        self._prefetcher = BatchPrefetcher(self._client, ranks, prefetch, batch_format, self._counter, self._guard)
        if self._documents is not None:
            self._documents.ranks = ranks
            self._documents.on_error = self._prefetcher.interrupt
            weakref.finalize(self, self._documents.close)
        self._progress: Progress | None = None
        if progress or (progress is None and self._documents is not None and is_interactive()):
            self._progress = Progress(self._client.connect)
            weakref.finalize(self, self._progress.close)

    # Iteration

    def __iter__(self) -> Iterator[Batch]:
        self._guard.check()
        self._guard.check_caller()
        self._empty_pass_log.started()
        return self

    def __next__(self) -> Batch:
        self._guard.check()
        try:
            with self._progress or nullcontext():
                ready = self._prefetcher.next(self._state)
        except StopIteration:
            if self._progress is not None:
                self._progress.close()
            self._empty_pass_log.ended(self.run, self._state.step)
            raise
        batch = ready.receive()
        self._empty_pass_log.yielded()
        self._counter.add(ready.counts)
        if self._progress is not None:
            self._progress.update(ready.step + 1, ready.counts.tokens)
        # Last: a step that fails or is interrupted before is returned again.
        self._state.advance(ready.step, ready.step_tokens)
        return batch

    # Properties of the run

    @property
    def step(self) -> int:
        """The index of the step that the next `next()` yields.

        It is also how many steps were yielded or skipped since the run began.
        """
        return self._state.next_step

    @property
    def skipped_steps(self) -> int:
        """How many of the steps before `step` the job has skipped."""
        return self._state.skips.count(self._state.next_step)

    @property
    def tokens(self) -> int:
        """The tokens of documents in the yielded steps of the run, on all ranks and without padding.

        It is for schedules of the learning rate by tokens. States have it. Without skipped steps, it is the number that
        `steps.schedule` counts.
        """
        return self._state.tokens

    @property
    def run(self) -> str:
        """The run's name."""
        return self._client.info.name

    @property
    def fingerprint(self) -> str:
        """The identity of the run's configuration and tokenizer.

        Equal fingerprints and equal documents give equal batches.
        """
        return self._client.info.fingerprint

    @property
    def info(self) -> RunInfo:
        """The run as it was on the loader's first request.

        It has the vocabulary size, pad id, row lengths and configuration.
        """
        return self._client.info

    @property
    def buckets(self) -> tuple[int, ...]:
        """Every row length L of the run, ascending; batches have only the shapes [rows(L), L]."""
        return self._client.info.buckets

    @property
    def sources(self) -> tuple[str, ...]:
        """The current names of the run's sources by their numbers."""
        return self._client.connect().info().sources

    @property
    def total_steps(self) -> int | None:
        """The number of steps of the run from its first to its last, if known exactly; else None.

        It is for schedules of the learning rate. It is known when the run has ended, or when all sources are sealed and
        the run is measured, which the daemon does automatically if little is left. It is None while a source is not
        sealed, while the run is being measured, and for a run without an end; `length` then has an estimate. It is
        constant until the run is changed by a new mixture or a flush. Every access calls the daemon: read it on one
        rank and broadcast it, or store it.

        Example:
            ```python
            total = loader.total_steps or loader.measure()
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-4, total_steps=total)
            ```
        """
        length = self.length
        return length.steps if length is not None and length.exact else None

    @property
    def length(self) -> RunLength | None:
        """The current knowledge of how many steps the run will have: exact, or an estimate with its error.

        It is None while unknown. Every access calls the daemon.
        """
        return self._client.connect().info().length

    def measure(self, timeout: float | None = None) -> int:
        """Makes the daemon count how many steps the run will have, and waits for the number.

        `total_steps` has it afterwards. Call it on one rank. All sources must be sealed. The remaining documents are
        read and tokenized an additional time, which takes as long as the daemon's tokenizer needs for them.

        Args:
            timeout: Seconds to wait; None waits without a limit. The daemon continues to count.

        Returns:
            The number of steps of the run from its first to its last.

        Raises:
            InvalidTicketError: If a source is not sealed, or the run has no end.
            TimeoutError: If the number is not available in time.
        """
        return self._client.measure(timeout)

    @property
    def counts(self) -> BatchCounts:
        """The counts of the yielded batches since the loader was created, and the time that it waited.

        `loaderd.torch.log` logs them.
        """
        return self._counter.counts()

    def status(self) -> RunStatus:
        """Returns the run's status as on the daemon's live page: a sentence, what to do, all figures.

        Every call requests it from the daemon.
        """
        return self._client.connect().status()

    def rows(self, bucket: int) -> int:
        """Returns this rank's rows of a step with a row length: the most, if `steps.schedule` changes them.

        Args:
            bucket: The row length in tokens.

        Raises:
            ValueError: If the run has no such bucket.
            WorldMismatchError: If the world size does not divide the step's rows.
        """
        return self._client.rows(bucket, self.world_size)

    @property
    def rank(self) -> int:
        """The data-parallel rank whose rows are read."""
        return (self._guard.rank_info or self._ranks.find()).rank

    @property
    def world_size(self) -> int:
        """The number of data-parallel ranks."""
        return (self._guard.rank_info or self._ranks.find()).world_size

    def get_mock_batch(self, bucket: int | None = None) -> Batch:
        """Returns a batch of synthetic tokens with the keys, shapes, types and device of real ones.

        Every row is one segment of L tokens, the maximum cost of attention. Use it to measure memory and to compile
        before the first step. The position in the run does not change.

        Args:
            bucket: The row length in tokens; None means the largest.
        """
        info = self._client.info
        bucket = max(info.buckets) if bucket is None else bucket
        sources = len(info.sources) > 1 if self._format.sources is None else self._format.sources
        step = mock_step(info, bucket, self.rows(bucket), self.world_size, self._format.columns, sources)
        return to_device(make_batch(step, self._format, Buffers()), self._device)

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last batch that was *yielded*.

        It is a few numbers and names, the same on every rank at the same step. Prefetched batches are not covered and
        are yielded again after a resume.
        """
        return self._state.save(self._client.info, self._prefetcher.run_id)

    def load_state_dict(self, state_dict: Mapping[str, Any], *, skip: Sequence[Sequence[int]] = ()) -> None:
        """Continues at the position of a state, before the first batch or between two.

        The world size may differ from that of the saving job. Steps that the state skips are skipped again.

        Args:
            state_dict: What `state_dict()` returned.
            skip: Ranges [begin, end) of further steps that are not yielded, from the step of the state on. Every rank
                gives the same.

        Raises:
            RunMismatchError: If the state is of another run.
            PlanMismatchError: If the state is of another plan.
            RunReplacedError: If the state is of a run of that name that was deleted since and created again.
            ValueError: If this version cannot read the state, a range begins before it or ends after the run, or
                another rank gave other ones.
        """
        info = self._client.connect().info() if skip else self._client.info  # the known length of the run may be old
        self._state.load(state_dict, info, skip)
        self._prefetcher.stop()
        self._client.connect().keep_to_id(self._state.run_id)

    def skip(self, steps: int) -> None:
        """Leaves out the next steps, from `step` on, such as those after a loss spike.

        Every rank calls it with the same number at the same step. States have the skipped steps, so that a resumed job
        leaves them out too. Commits record their number.

        Args:
            steps: How many steps are not yielded, 0 or more.

        Raises:
            ValueError: If the number is negative, the run ends before, or another rank skips other steps.
        """
        self._state.replace_skips(self._state.skips.add(self.step, steps), self._client.connect().info())

    def resize(
        self,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        mesh: DeviceMesh | None = None,
        mesh_dims: Sequence[str | int] | str | int | None = None,
        step: int | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Changes rank and world size between two steps, while the other ranks of the job stay or join.

        Each rank of the new world size calls it at the same step: ranks that stay, and ranks that join after they have
        loaded the state of one that stays. It returns when all have called it; the plan then records the world size.
        Prefetched batches of the old world size are discarded. After an exception, the loader has its old rank.

        Args:
            rank: The rank from this step on. By default it is found as for a new loader, such as from the re-formed
                group of torch.distributed.
            world_size: The number of ranks from this step on.
            mesh: As for a new loader.
            mesh_dims: As for a new loader.
            step: The index of the step. By default it is `step`; an earlier one, of the last 64 that this loader
                yielded, is read again, such as the step whose update failed with the ranks that were lost.
            timeout: Seconds to wait for the other ranks.

        Raises:
            WorldConflictError: If another rank requests another step, world size or skips, or the same rank.
            WorldMismatchError: If the world size does not divide the rows of the steps.
            RankMissingError: If a rank has not called it in time.
            ValueError: If an argument is invalid, or `step` was not yielded recently.
        """
        self._guard.check()
        ranks = RankOptions(rank, world_size, mesh, mesh_dims)
        place, state = ranks.find(), self._state
        before = state.step, state.tokens
        state.move(step)
        try:
            client = self._client.connect()
            client.keep_to_id(state.identify(self._client.info, self._prefetcher.run_id))
            client.keep_skips(state.skips)
            self._prefetcher.stop(left=True)
            begin = state.skips.takeoff(state.step)
            client.agree_world_size(place.rank, place.world_size, place.peer, begin, timeout)
        except BaseException:
            state.step, state.tokens = before
            raise
        restart_agreements(begin, place.world_size)
        self._ranks = self._prefetcher.ranks = ranks
        if self._documents is not None:
            self._documents.ranks = ranks

    def commit(self, step: int | None = None) -> int:
        """Commits: the trainer's own checkpoint is *durable* and covers all steps before `step`.

        Their documents may then be released. Call it on one rank, or all, once the checkpoint is complete on every
        rank.

        Args:
            step: The first step that the checkpoint does not cover. By default it is that of the last state that was
                taken or restored here, never that of batches which no state covers.

        Returns:
            The step before which every job has committed.

        Raises:
            ValueError: If no step is given and no state was taken.
        """
        client = self._client.connect()
        client.keep_skips(self._state.skips)
        return client.commit(self._state.commit_step(step), self._commit_as)

    # The mixture

    def set_mixture(self, weights: Mapping[str, float], *, once: bool = False) -> MixtureChange:
        """Sets other weights of the run's sources, effective from the next planned document.

        Call it on one rank. `loaderd.Client.mix` can also add and remove sources.

        Args:
            weights: Weights by source, relative to each other, 0 to 1e9. A source that is not named keeps its current
                share as weight.
            once: Whether the run's plan has one change per position of the loader. A trainer that was killed, resumes
                from its checkpoint and repeats a decision then gets the recorded change (`again`), regardless of the
                weights in its new request.

        Returns:
            The first step that can differ (earlier ones are planned), and the share that each source is to have.

        Raises:
            ValueError: If a weight is not a number from 0 to 1e9.
            InvalidTicketError: If no mixture can have the weights, or all sources are exhausted.
            ForbiddenError: If the caller has neither the role operate, nor train where the daemon has
                flight.train_may_mix.
        """
        return MixtureChange.decode(self._client.connect().mix(weights, decided=self._state.step if once else None))

    # Closing

    def close(self) -> None:
        """Stops prefetching and disconnects. No thread remains. A private daemon is stopped."""
        self._guard.closed = True
        self._prefetcher.stop()
        if self._progress is not None:
            self._progress.close()
        self._client.close()
        if self._documents is not None:
            self._documents.close()

    def __enter__(self) -> StepLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._documents is None:
            source = str(self._url)
        else:
            address = "private daemon" if self._documents.handle is None else str(self._documents.handle)
            source = f"{address}, {self._documents.state}"
        closed = ", closed" if self._documents is None and self._guard.closed else ""
        return f"<StepLoader {source}, step {self.step}{closed}>"

    def _repr_html_(self) -> str:
        handle = None if self._documents is None or self._guard.closed else self._documents.handle
        link = "" if handle is None else f' <a href="{html.escape(handle.page)}">live page</a>'
        return f"<code>{html.escape(repr(self))}</code>{link}"

    def __reduce__(self) -> Any:
        raise TypeError(
            "cannot copy a StepLoader or send it to another process: it reads in its own thread; "
            "give a DataLoader num_workers=0, or create the loader in the other process"
        )


def _document_run(
    url: URLs | None,
    documents: Input | None,
    tokenizer: object,
    folder: str | os.PathLike[str] | None,
    settings: Mapping[str, object] | None,
    publish: Mapping[str, Any] | None,
) -> DocumentRun | None:
    """Returns the private run of a loader with documents; None for a loader with an address.

    Raises:
        ValueError: If the arguments contradict each other.
        TypeError: If `documents` is neither a path nor an iterable.
    """
    if (url is None) == (documents is None):
        raise ValueError(
            "want either the address of a daemon, as in StepLoader('grpc://127.0.0.1:8815'), or documents=, for which "
            "the loader starts a private daemon"
        )
    if documents is not None:
        if tokenizer is None:
            raise ValueError('documents= requires tokenizer=, such as tokenizer="gpt2" or a tokenizer of transformers')
        return DocumentRun(documents, tokenizer, folder, settings or {}, publish or {})
    given = {"tokenizer": tokenizer, "folder": folder, "settings": settings, "publish": publish}
    if wrong := [f"{name}=" for name, value in given.items() if value is not None]:
        raise ValueError(
            f"{', '.join(wrong)} is for a private daemon, with documents=: the daemon at {url} has its own "
            "configuration"
        )
    return None
