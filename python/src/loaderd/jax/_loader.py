"""The loader of a training loop in JAX: the batches of every step, in order, resumable at any step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
from jax.sharding import NamedSharding

from loaderd._array_format import FIELDS, ArrayFormat
from loaderd._client import Client
from loaderd._daemons import URLs
from loaderd._empty_pass import EmptyPassLog
from loaderd._loader_state import LoaderState
from loaderd._prefetch import Prefetcher
from loaderd._step import Step
from loaderd._step_stream import StepStream
from loaderd._wire import RunInfo
from loaderd.errors import ClosedClientError
from loaderd.jax._ranks import Rank, check_rows, ranks_of, shards_of

Batch = dict[str, jax.Array]


class StepLoader(Iterator[Batch]):
    """Yields one dict per step of a run: global arrays [rows of the step, L] with the sharding, L the step's bucket.

    | key | value |
    | --- | --- |
    | `input_ids` | int32 |
    | `labels` | int32; -100 in padding, for tokens without a loss and on one token of every segment |
    | `position_ids` | int32: 0, 1, ... from the beginning of every segment |
    | `segment_ids` | int32: 1, 2, ... within the row, 0 for padding |
    | `sources` | int32: the token's source, an index into `RunInfo.sources`; -1 in padding |
    | `loss_weights` | float32: the loss weight of the label, as its document has it; 0 in padding |
    | a name in `columns` | the column's type, its fill where documents have no value |

    Every process of the sharding's mesh creates a loader. It reads only the rows of its devices. Processes with the
    same rows, such as those of tensor parallelism, each read them. One thread per range of adjacent rows, usually one,
    reads, converts and copies to the devices, at most `prefetch_factor` batches ahead.

    A loader is one pass over the run: a new loop over it continues with the next step, and so does `next()` after an
    exception. It ends when the run is sealed and read.

    Example:
        ```python
        mesh = jax.make_mesh((jax.device_count(),), ("data",))
        with StepLoader("grpc://127.0.0.1:8815", NamedSharding(mesh, PartitionSpec("data"))) as loader:
            for batch in loader:
                state, loss = train(state, batch)
                if checkpoint_due():
                    arguments = ocp.args.Composite(
                        state=ocp.args.StandardSave(state), loader=ocp.args.JsonSave(loader.state_dict())
                    )
                    manager.save(loader.step, args=arguments)
        ```
    """

    def __init__(
        self,
        url: URLs,
        sharding: NamedSharding,
        *,
        fields: Sequence[str] = FIELDS,
        labels: Literal["unshifted", "shifted"] = "shifted",
        columns: Sequence[str] = (),
        prefetch_factor: int = 2,
        commit_as: str | None = None,
        **client: Any,
    ) -> None:
        """Creates a loader, which connects on first use.

        Args:
            url: The addresses of the daemons, as in `loaderd.Client`.
            sharding: The sharding of [rows, L]: a mesh, and a PartitionSpec with the mesh axes of the rows. It may also
                have mesh axes of L. The number of row shards must divide the rows of every step.
            fields: The requested keys: `sources` and `loss_weights` are absent by default.
            labels: "shifted": the next token of the segment, and its last token has none. "unshifted": the token
                itself, for models that shift labels themselves.
            columns: Names of additional columns of the documents, with a value per token.
            prefetch_factor: How many batches are copied to the devices ahead, 1 or more.
            commit_as: The job of `commit`, if it is not `job`.
            **client: Further arguments of `loaderd.Client`: `run`, `job`, `token`, `tls`, `timeout`,
                `connect_timeout`.

        Raises:
            ValueError: If an argument is invalid, or no device of the mesh is in this process.
        """
        if prefetch_factor < 1:
            raise ValueError(f"prefetch_factor {prefetch_factor}: want at least 1 batch")
        self._sharding, self._ahead, self._commit_as = sharding, prefetch_factor, commit_as
        self._format = ArrayFormat.checked(fields, labels, columns)
        self._connect = partial(Client, url, **self._format.client_options, **client)
        self._clients = [self._client_of(r) for r in ranks_of(sharding, jax.process_index())]
        self._state, self._empty_pass_log = LoaderState(), EmptyPassLog()
        self._info: RunInfo | None = None
        self._streams: list[StepStream] = []
        self._readers: list[Prefetcher[_PlacedRows]] = []
        self._closed = False

    def __iter__(self) -> Iterator[Batch]:
        self._empty_pass_log.started()
        return self

    def __next__(self) -> Batch:
        while True:
            readers = self._readers or self._open()
            try:
                ranges = [next(reader) for reader in readers]
            except StopIteration:
                self._state.skips.check_within(self._state.step, self.info.name)
                self._empty_pass_log.ended(self.info.name, self._state.step)
                raise
            except Exception:
                stale = any(reader.stale for reader in readers)
                self._stop()  # the next call opens other readers, at the same step
                if stale:  # the timeout expired while the caller was not waiting
                    continue
                raise
            if any(rows.step != self._state.step for rows in ranges):
                self._stop()  # an interrupt dropped a step between a reader and here
            elif self._state.next_step == self._state.step:
                break
            else:
                self._state.step += 1  # the state skips this step
        batch = {
            name: jax.make_array_from_single_device_arrays(
                ranges[0].shape, self._sharding, [shard for rows in ranges for shard in rows.shards[name]]
            )
            for name in ranges[0].shards
        }
        self._empty_pass_log.yielded()
        # Last: a step that fails or is interrupted before is returned again.
        self._state.advance(self._state.step, ranges[0].step_tokens)
        return batch

    @property
    def step(self) -> int:
        """The index of the step that the next `next()` yields."""
        return self._state.next_step

    @property
    def info(self) -> RunInfo:
        """The run as it was on the loader's first request."""
        if self._info is None:
            self._info = self._clients[0].info()
            _check_shards(self._info, self._sharding)
        return self._info

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last batch that was *yielded*, for Orbax's `JsonSave`.

        It is a few numbers and names, the same in every process at the same step, and the same as that of
        `loaderd.torch.StepLoader`.
        """
        return self._state.save(self.info, self._run_id)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continues at the position of a state, before the first batch or between two.

        The processes, the mesh and the sharding may differ from those of the saving job. Steps that the state skips are
        skipped again.

        Args:
            state_dict: What `state_dict()` returned.

        Raises:
            RunMismatchError: If the state is of another run.
            PlanMismatchError: If the state is of another plan.
            RunReplacedError: If the run of the state was deleted and created again.
            ValueError: If this version cannot read the state.
        """
        self._state.load(state_dict, self.info)
        self._stop()
        self._streams = []

    def resize(self, sharding: NamedSharding, *, step: int | None = None, timeout: float = 60.0) -> None:
        """Changes the sharding between two steps, such as to a mesh of the devices that are left.

        Every process of the new mesh calls it at the same step: those that stay, and those that join with a loader
        that has loaded the state of one that stays. Other processes close their loaders. It returns when all have
        called it; the plan then records the number of ranks. Prefetched batches are discarded. After an exception, the
        loader has its old sharding.

        Args:
            sharding: The sharding from this step on, as for a new loader.
            step: The index of the step. By default it is `step`; an earlier one, of the last 64 that this loader
                yielded, is read again, such as the step whose update failed with the processes that were lost.
            timeout: Seconds to wait for the other processes.

        Raises:
            WorldConflictError: If another process requests another step or sharding.
            WorldMismatchError: If the row shards do not divide the rows of the steps.
            RankMissingError: If a process has not called it in time.
            ValueError: If no device of the mesh is in this process, or `step` was not yielded recently.
        """
        if self._closed:
            raise ClosedClientError("the loader is closed")
        ranks, state = ranks_of(sharding, jax.process_index()), self._state
        _check_shards(self.info, sharding)
        before = state.step, state.tokens
        clients = list(self._clients)
        places = [Rank(c.rank, c.world_size, c.peer) for c in clients]
        try:
            state.move(step)
            clients += map(self._client_of, ranks[len(clients) :])
            run_id = state.identify(self.info, self._run_id)
            self._stop(left=True)
            for client in clients:
                client.keep_to_id(run_id)
                client.keep_skips(state.skips)
            _agree(clients[: len(ranks)], ranks, state.skips.takeoff(state.step), timeout)
        except BaseException:
            state.step, state.tokens = before
            for client, place in zip(self._clients, places, strict=True):
                client.rank, client.world_size, client.peer = place.rank, place.world_size, place.peer
            for client in clients[len(self._clients) :]:
                client.close()
            raise
        for client in clients[len(ranks) :]:
            client.close()
        self._clients, self._sharding, self._streams = clients[: len(ranks)], sharding, []

    def commit(self, step: int | None = None) -> int:
        """Commits: the trainer's own checkpoint is *durable* and covers all steps before `step`.

        Call it in one process.

        Args:
            step: The first step that the checkpoint does not cover. By default that of the last state that was taken or
                restored here.

        Returns:
            The step before which every job has committed.

        Raises:
            ValueError: If no step is given and no state was taken.
        """
        self._clients[0].keep_skips(self._state.skips)
        return self._clients[0].commit(self._state.commit_step(step), self._commit_as)

    def close(self) -> None:
        """Stops prefetching and disconnects. No thread remains."""
        self._closed = True
        self._stop()
        for client in self._clients:
            client.close()

    def __enter__(self) -> StepLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _run_id(self) -> str | None:
        """The run's id as the last streams found it; None before."""
        return self._streams[0].run_id if self._streams else None

    def _client_of(self, rank: Rank) -> Client:
        return self._connect(rank=rank.rank, world_size=rank.world_size, peer=rank.peer)

    def _open(self) -> list[Prefetcher[_PlacedRows]]:
        if self._closed:
            raise ClosedClientError("the loader is closed")
        run_id = self._state.identify(self.info, self._run_id)
        self._streams = []
        for client in self._clients:
            client.keep_to_id(run_id)
            self._streams.append(client.stream(self._state.step, masks="labels" in self._format.fields))
        self._readers = [
            Prefetcher(stream, self._ahead, _Placer(self._sharding, self._format, client.rank, client.world_size))
            for stream, client in zip(self._streams, self._clients, strict=True)
        ]
        return self._readers

    def _stop(self, left: bool = False) -> None:
        """Ends the threads and drops their batches.

        Args:
            left: Whether this process no longer reads as its ranks.
        """
        readers, self._readers = self._readers, []
        for reader, stream in zip(readers, self._streams, strict=False):
            if not self._closed:
                stream.leave() if left else stream.suspend()
            reader.close()


def _check_shards(info: RunInfo, sharding: NamedSharding) -> None:
    """Checks that the row shards divide the rows of every step.

    Raises:
        WorldMismatchError: If they do not.
    """
    shards, _ = shards_of(sharding)
    for bucket, rows in info.rows.items():
        check_rows(rows, bucket, shards)


def _agree(clients: Sequence[Client], ranks: Sequence[Rank], step: int, timeout: float) -> None:
    """Waits until all ranks of the job, those of this process included, have requested their number from a step on."""

    def request(client: Client, rank: Rank) -> None:
        client.agree_world_size(rank.rank, rank.world_size, rank.peer, step, timeout)

    if len(ranks) == 1:
        request(clients[0], ranks[0])
        return
    with ThreadPoolExecutor(len(ranks)) as pool:  # each request waits for the others
        list(pool.map(request, clients, ranks))


@dataclass(frozen=True, slots=True)
class _PlacedRows:
    """A rank's rows of a step on the devices of this process.

    Attributes:
        step: The index of the step.
        step_tokens: The tokens of the whole step, on all ranks.
        shape: The shape of the global arrays.
        shards: Arrays on one device each, by key.
    """

    step: int
    step_tokens: int
    shape: tuple[int, int]
    shards: dict[str, list[jax.Array]]


@dataclass(frozen=True, slots=True)
class _Placer:
    """Copies the rows of steps to devices, in the reader's thread.

    It does not reference the loader, so that an abandoned loader is collected and its thread ends.
    """

    sharding: NamedSharding
    form: ArrayFormat
    rank: int
    world_size: int

    def __call__(self, step: Step) -> _PlacedRows:
        shape = (step.rows * self.world_size, step.bucket)
        check_rows(shape[0], step.bucket, shards_of(self.sharding)[0])
        first = step.rows * self.rank
        devices, indices = [], []
        for device, (rows, tokens) in self.sharding.addressable_devices_indices_map(shape).items():
            start, stop, _ = rows.indices(shape[0])
            if first <= start < first + step.rows:
                devices.append(device)
                indices.append((slice(start - first, stop - first), tokens))
        arrays = self.form.arrays(step)
        placed = {name: jax.device_put([array[i] for i in indices], devices) for name, array in arrays.items()}
        return _PlacedRows(step.index, step.step_tokens, shape, placed)
