"""The client: a run's steps as numpy arrays, and the actions that a trainer requests."""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from loaderd._connection import TLS, call_interruptibly, call_with_probes
from loaderd._daemons import Daemons, URLs
from loaderd._empty_pass import EmptyPassLog
from loaderd._prefetch import Prefetcher
from loaderd._resize import agree
from loaderd._retry import Retry
from loaderd._skips import Skips, check_range
from loaderd._stall_log import StallLog
from loaderd._step import Step
from loaderd._step_stream import NEAR_PROBE_SECONDS, StepStream
from loaderd._wire import DEFAULT_JOB, RunInfo, RunStatus
from loaderd.errors import ClosedClientError, ForbiddenError, LoaderdError, ProtocolError

MAX_WEIGHT = 1e9  # of a source

T = TypeVar("T")


class Client(Iterator[Step]):
    """Iterates over the steps of one data-parallel rank.

    Steps are returned in order, each once. The client waits through lost connections, restarts of the daemon and
    temporary causes (`UnavailableError`). In a run of several daemons it fails over to another daemon. A thread
    prefetches steps. After an exception `next()` may be called again and continues with the same step. The client
    connects on the first call. It must be used in the process that created it.

    Example:
        ```python
        with Client("grpc://127.0.0.1:8815", rank=0, world_size=8, step=resume_at) as client:
            for step in client:
                train(step.input_ids, step.segment_ids())
                client.commit(step.index + 1)  # once a checkpoint covers it
        ```

    Attributes:
        rank: The data-parallel rank whose rows are read.
        world_size: The number of data-parallel ranks.
        peer: The number of this process among those that read as the same rank.
    """

    def __init__(
        self,
        url: URLs,
        *,
        run: str | None = None,
        rank: int = 0,
        world_size: int = 1,
        step: int = 0,
        steps: int | None = None,
        fingerprint: str | None = None,
        run_id: str | None = None,
        documents: bool = False,
        sources: bool | None = False,
        weights: bool = False,
        columns: Sequence[str] = (),
        job: str = DEFAULT_JOB,
        peer: int = 0,
        token: str | None = None,
        tls: TLS | None = None,
        timeout: float = 300.0,
        connect_timeout: float = 60.0,
        prefetch_factor: int = 2,
        skip: Sequence[Sequence[int]] = (),
    ) -> None:
        """Creates a client, which connects on the first call.

        Without a token the client finds the data folder of a daemon on this machine as LOADERD_STREAM__DIR, or as
        ./loaderd-data, and signs its calls with the token in it. It does not send that token.

        Args:
            url: The daemon's address, grpc://host:port or grpc+tls://host:port. A run of several daemons has several:
                some or all of them, as a sequence or separated by commas. The client learns the others from any daemon.
            run: The name that the daemon's run must have; None accepts the first run that the client finds.
            rank: The data-parallel rank whose rows are read, 0 to `world_size` - 1.
            world_size: The number of data-parallel ranks. It must divide the rows of every step.
            step: The index of the first step.
            steps: How many steps are read; None reads until the run ends.
            fingerprint: The fingerprint that the run must have; None accepts that of the first run found.
            run_id: The id that the run must have; None accepts that of the first run found. A run that was deleted and
                created again has another id.
            documents: Whether steps have `Step.sources`, the origin of their tokens.
            sources: Whether `Step.sources` has the numbers of sources, and steps have counts per source. None requests
                them if the run has several sources.
            weights: Whether steps have the loss weights of documents.
            columns: Names of additional columns of the documents (`Step.column`, `Step.values`).
            job: The name of the training job. Jobs that read the same run do not wait for each other.
            peer: Distinguishes processes that read as the same rank, such as those of tensor parallelism. Without it
                the second process gets DuplicateRankError.
            token: The daemon's bearer token. On the daemon's machine its user needs none.
            tls: What TLS needs in addition to the system's certificate authorities.
            timeout: Seconds without a step after which the cause is raised. Set it below the timeout of the trainer's
                collectives, so that the rank reports why it waits.
            connect_timeout: Seconds without any answer after which UnreachableError is raised.
            prefetch_factor: How many steps are read ahead, 1 or more.
            skip: Ranges [begin, end) of steps that are not returned, the same on every rank (`skips`).

        Raises:
            ValueError: If an argument is out of range, or `url` is not an address.
        """
        self.check_place(rank, world_size)
        if peer < 0:
            raise ValueError(f"peer {peer}: want 0 or more")
        if step < 0 or (steps is not None and steps < 0):
            raise ValueError(f"step {step}, steps {steps}: want 0 or more")
        if prefetch_factor < 1:
            raise ValueError(f"prefetch_factor {prefetch_factor}: want at least 1 step")
        self.rank, self.world_size, self.peer = rank, world_size, peer
        self._session = uuid.uuid4().hex
        self._run, self._fingerprint, self._documents = run, fingerprint, documents
        self._run_id, self._sources, self._weights, self._columns = run_id, sources, weights, tuple(columns)
        self._timeout, self._connect_timeout, self._prefetch_factor = timeout, connect_timeout, prefetch_factor
        self._next, self._end = step, None if steps is None else step + steps
        self._skips = Skips.checked(skip)
        self._job = job
        self._first: int | None = None  # the first step that this client reads
        self._latest: weakref.ref[StepStream] | None = None
        self._daemons = Daemons(url, rank=rank, token=token, tls=tls)
        self._stream: StepStream | None = None
        self._reader: Prefetcher[Step] | None = None
        self._empty_pass_log = EmptyPassLog()
        self._stop = threading.Event()

    @property
    def next_step(self) -> int:
        """Index of the step that `next()` returns."""
        return self._skips.landing(self._next)

    @property
    def skips(self) -> tuple[tuple[int, int], ...]:
        """Ranges [begin, end) of steps that this client leaves out. Store them with `next_step`."""
        return self._skips.ranges

    def skip(self, steps: int) -> None:
        """Leaves out the next steps, from `next_step` on.

        Every rank calls it with the same number at the same step. Commits record how many steps the job has skipped.

        Args:
            steps: How many steps are not returned, 0 or more.

        Raises:
            ValueError: If the number is negative, or the run or this client ends before.
        """
        skips = self._skips.add(self.next_step, steps)
        skips.check_end(self.info())
        self.keep_skips(skips)

    def keep_skips(self, skips: Skips) -> None:
        """Replaces the skipped steps.

        Args:
            skips: The ranges.

        Raises:
            ValueError: If they end after the requested steps.
        """
        if self._end is not None and skips.ranges:
            check_range(*skips.ranges[-1], "this client", self._end)
        self._skips = skips

    def resize(self, rank: int, world_size: int, *, step: int | None = None, timeout: float = 60.0) -> None:
        """Changes rank and world size between two steps, together with all other ranks.

        Each rank of the new world size calls it with the same step: ranks that stay, and ranks that join. It returns
        when all have called it; the plan then records the world size. Prefetched steps are discarded.

        Args:
            rank: The rank from this step on.
            world_size: The number of ranks from this step on.
            step: The index of the step; None means `next_step`.
            timeout: Seconds to wait for the other ranks.

        Raises:
            WorldConflictError: If another rank requests another step, world size or skips, or the same rank.
            WorldMismatchError: If the world size does not divide the rows of the steps.
            RankMissingError: If a rank has not called it in time.
            ValueError: If an argument is out of range.
        """
        if step is not None and step < 0:
            raise ValueError(f"step {step}: want 0 or more")
        begin = self._next if step is None or step == self.next_step else step
        self.check_place(rank, world_size)
        self._rewind(left=True)
        self.agree_world_size(rank, world_size, self.peer, begin, timeout)
        self._next = begin

    def check_place(self, rank: int, world_size: int) -> None:
        """Checks a rank.

        Raises:
            ValueError: If the world size does not have it.
        """
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size}: want a rank from 0 to world_size - 1")

    def agree_world_size(self, rank: int, world_size: int, peer: int, step: int, timeout: float) -> None:
        """Waits until all ranks have requested this world size from a step on, then reads as the rank.

        The arguments and errors are those of `resize`. Open streams are not affected.
        """
        body: dict[str, Any] = {"job": self._job, "rank": rank, "world": world_size, "peer": peer}
        body["step"] = self._skips.takeoff(step)  # the same for ranks before and after skipped steps
        body |= {"session": self._session, "skip": [list(r) for r in self._skips.ranges]}
        agree(lambda **b: self._one("resize", **b), body, timeout, self._stop)
        self.rank, self.world_size, self.peer = rank, world_size, peer

    def __iter__(self) -> Client:
        self._empty_pass_log.started()
        return self

    def __next__(self) -> Step:
        while True:
            if (landing := self._skips.landing(self._next)) != self._next:
                self._rewind()
                self.pass_over(self._next, landing)
                self._next = landing
            reader = self._reader
            if reader is None:
                self._stream = self.stream(self._next)
                reader = self._reader = Prefetcher(self._stream, self._prefetch_factor)
            try:
                step = next(reader)
            except StopIteration:
                self._empty_pass_log.ended(self._stream.run if self._stream else self._run, self._next, self._end)
                raise
            except Exception:
                self._rewind()
                if reader.stale:  # the timeout expired while the caller was not waiting
                    continue
                raise
            if step.index == self._next:
                self._next += 1
                self._empty_pass_log.yielded()
                return step
            self._rewind()  # an interrupt dropped a step between the queue and the caller

    def pass_over(self, begin: int, end: int) -> None:
        """Makes the plan reach the end of a skipped range.

        Planned steps are not read. The planner is only some steps ahead of the readers (serve.ahead), so later ones are
        read and dropped.

        Args:
            begin: The first skipped step.
            end: The first step after the range.

        Raises:
            ValueError: If the run ends before `end`.
        """
        info = self.info()
        if info.ended:
            check_range(begin, end, f"run {info.name}", info.planned)
        unplanned = max(begin, min(info.planned, end))
        if unplanned == end:
            return
        stream = self.stream(unplanned, masks=False)
        reader: Prefetcher[Step] = Prefetcher(stream, self._prefetch_factor)
        try:
            for _ in range(unplanned, end):
                next(reader)
        except StopIteration:
            check_range(begin, end, f"run {info.name}", stream.next_step)
        finally:
            stream.suspend()
            reader.close()

    def stream(self, step: int | None = None, *, masks: bool = True) -> StepStream:
        """Returns a separate reader without a thread, for callers with their own prefetching.

        Args:
            step: The index of its first step; None means `next_step`.
            masks: Whether the reader requests which tokens have a loss. Without them `Step.loss_mask` and `Step.labels`
                are invalid for its steps.
        """
        self._check_open()
        begins = self._next if step is None else step
        self._first = begins if self._first is None else min(self._first, begins)
        stream = StepStream(
            self._daemons,
            rank=self.rank,
            world_size=self.world_size,
            step=begins,
            steps=None if self._end is None else max(0, self._end - begins),
            run=self._run,
            fingerprint=self._fingerprint,
            run_id=self._run_id,
            documents=self._documents,
            sources=self._sources,
            weights=self._weights,
            masks=masks,
            columns=self._columns,
            job=self._job,
            peer=self.peer,
            session=self._session,
            first=self._first,
            timeout=self._timeout,
            connect_timeout=self._connect_timeout,
        )
        self._latest = weakref.ref(stream)
        return stream

    def info(self) -> RunInfo:
        """Returns the current description of the run.

        The first answer fixes run, fingerprint and id for this client.

        Raises:
            RunMismatchError: If the daemon serves another run.
            PlanMismatchError: If the run has another fingerprint.
            RunReplacedError: If the run has another id.
        """
        self._adopt()
        info = self._retried(self._described)
        self._keep_to(info)
        return info

    def keep_to_id(self, run_id: str | None) -> None:
        """Makes the client refuse any run but the one with this id.

        Open streams are not affected.

        Args:
            run_id: The id; None accepts the first run that the client finds.
        """
        self._run_id = run_id

    def commit(self, step: int, job: str | None = None) -> int:
        """Commits: a durable checkpoint covers all steps before `step`.

        A commit permits the daemon to release documents that no later step needs. Commit when the checkpoint is on
        disk, not when writing it starts.

        Args:
            step: The first step that the checkpoint does not cover.
            job: The name for which to commit; None means the client's job. A client without a job commits for
                "trainer", or for the caller's own name where the daemon authenticates callers by name.

        Returns:
            The smallest committed step of all committing jobs.

        Raises:
            ForbiddenError: If steps before `step` were not sent to any job of the caller, unless its role is operate.
        """
        body: dict[str, Any] = {"step": step, **self._commit_job(job)}
        if skipped := self._skips.count(step):
            body["skipped"] = skipped
        try:
            return self._number("commit", "committed", **body)
        except ForbiddenError as error:
            if "sent" not in error.facts or not self._report(step):
                raise
        return self._number("commit", "committed", **body)

    def _commit_job(self, job: str | None) -> dict[str, str]:
        named = job if job is not None or self._job == DEFAULT_JOB else self._job
        return {} if named is None else {"job": named}

    def _report(self, taken: int) -> bool:
        """Reports that the trainer has taken the steps before `taken`, if it has.

        A daemon that was started after these steps were sent needs this report to accept a commit. Returns whether a
        report was sent.
        """
        stream = self._latest() if self._latest is not None else None
        body = stream.report_of(taken) if stream is not None else None
        if body is None:
            return False
        self._one("consumed", **body)
        return True

    def leave(self, job: str | None = None) -> int:
        """Declares that a job no longer stores checkpoints.

        Args:
            job: As in `commit`.

        Returns:
            The smallest committed step of the remaining committing jobs.
        """
        return self._number("leave", "committed", **self._commit_job(job))

    def checkpoint(self) -> int:
        """Makes the daemon store its planner's state now, and returns the step of that state."""
        return self._number("checkpoint", "step")

    def stats(self) -> dict[str, Any]:
        """Returns counts and levels of the run by name (docs/reference/wire.md)."""
        return self._one("stats")

    def status(self) -> RunStatus:
        """Returns the run's status: a sentence, what to do, and all figures of the live page.

        Every daemon of the run returns the same.
        """
        return RunStatus.decode(self._one("status"))

    def ledger(self, step: int, documents: bool = False) -> dict[str, Any]:
        """Returns the content of a step.

        The result has `bucket`, `cursor` (the last document that the planner had taken) and `rows`, each a list of
        pieces {"sequence", "start", "length"} in tokens. A piece of a message with several documents has its document's
        "index" and "start_within" (`start` counts the tokens of the message) and, where present, "id", "weight" and
        "meta". In a run with several sources pieces and documents have their "source".

        Args:
            step: The index of the step.
            documents: Whether the result also has `documents`, their origin ordered by sequence, and "loss_tokens" of
                each piece.

        Raises:
            StepNotPlannedError: If the step is not planned yet.
            StepPurgedError: If the step's documents were released.
        """
        pages = self._results("ledger", step=step, documents=documents)
        if not pages:
            raise ProtocolError("no result of ledger")
        whole = {k: v for k, v in pages[0].items() if k not in ("first", "total")}
        whole["rows"] = [row for page in pages for row in page["rows"]]
        if documents:
            found = {(d.get("source", ""), d["sequence"]): d for page in pages for d in page.get("documents") or []}
            whole["documents"] = [found[k] for k in sorted(found)]
        return whole

    def find(
        self, *, sequence: int | None = None, id: str | None = None, source: str | None = None
    ) -> list[dict[str, Any]]:
        """Returns the rows that hold a part of a document, named by its sequence or its id.

        A row is {"step", "bucket", "row", "pieces"}, with pieces as those of `ledger` with documents. For a message
        with several documents, a document's id selects the pieces of that document; a sequence selects those of all its
        documents.

        Args:
            sequence: The document's stream sequence. A run with several sources requires its `source` too.
            id: The document's id.
            source: The name of the source to search; an id is searched in all sources by default.
        """
        named = {"sequence": sequence, "id": id, "source": source}
        return self._results("find", **{k: v for k, v in named.items() if v is not None})

    def measure(self) -> None:
        """Makes the leader count how many steps the run will have, and returns immediately.

        `info().length` reports the progress, then the number. Every remaining document is read and tokenized an
        additional time, in parallel with the run. Requires the role train.

        Raises:
            InvalidTicketError: If a source is not sealed, or the run has no end.
        """
        self._one("measure")

    def mix(
        self,
        weights: Mapping[str, float] | None = None,
        *,
        add: Mapping[str, Mapping[str, Any]] | None = None,
        remove: Sequence[str] = (),
        decided: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Changes the mixture of sources, effective from the next planned document.

        Without a change the current mixture is returned (docs/reference/wire.md).

        Args:
            weights: Weights by source, relative to each other, 0 to 1e9. A source that they omit keeps the share that
                is in force where the plan records the change, after all earlier changes, as its weight.
            add: Configurations of new sources by name.
            remove: Names of sources to remove.
            decided: The number of steps that the caller had seen when it decided. It makes the change idempotent: the
                plan has at most one change per number, and a repeated request returns the existing change with "again"
                true. So a trainer that is killed and resumed can safely repeat its request.
            dry_run: Whether to change nothing.

        Returns:
            "step", the first step that can differ, and "target", the share of tokens that each source is to have.

        Raises:
            InvalidTicketError: If the mixture is impossible.
            ForbiddenError: If the caller has neither the role operate, nor train where the daemon has
                flight.train_may_mix.
            ValueError: If a weight is not a number from 0 to 1e9.
        """
        body: dict[str, Any] = {}
        if weights:
            body["weights"] = {k: _weight(k, v) for k, v in weights.items()}
        if add:
            for name, source in add.items():
                if "weight" in source:
                    _weight(name, source["weight"])
            body["add"] = add
        if remove:
            body["remove"] = list(remove)
        if dry_run:
            body["dry_run"] = True
        if decided is not None:
            body["decided"] = decided
        elif body and not dry_run:  # the request id makes a retry after a lost answer idempotent
            body["request_id"] = uuid.uuid4().hex
        return self._one("mix", **body)

    def filter(self, where: str | None = None, *, source: str | None = None, dry_run: bool = False) -> dict[str, Any]:
        """Replaces a filter of documents, effective from the next planned document.

        Without an expression the filters in effect are returned (docs/reference/wire.md).

        Args:
            where: The new expression, as documents.where in the configuration; empty for no filter.
            source: The source whose filter is replaced; None replaces the filter of all documents.
            dry_run: Whether to check the expression and change nothing.

        Returns:
            "step", the first step that can differ, "where" and "sources", the filters after the change, and
            "rejected_documents" of "documents".

        Raises:
            InvalidTicketError: If the expression is invalid, with the column, or the run has no such source.
            ForbiddenError: If the caller does not have the role operate.
        """
        body: dict[str, Any] = {}
        if where is not None:
            body["where"] = where
        if source is not None:
            body["source"] = source
        if dry_run:
            body["dry_run"] = True
        return self._one("filter", **body)

    def schedule(self, phases: Sequence[Mapping[str, Any]] = (), *, dry_run: bool = False) -> dict[str, Any]:
        """Replaces the phases of the steps that have not begun, effective from the next planned document.

        Without phases the present schedule is returned (docs/reference/wire.md).

        Args:
            phases: Phases as in `steps.schedule`, such as `{"from_step": 5000, "rows": 1024}`, which may change the row
                lengths with `buckets`. A first phase without `from_tokens` and `from_step` begins now.
            dry_run: Whether to change nothing.

        Returns:
            "step", the first step that can differ, and "schedule", the phases.

        Raises:
            InvalidTicketError: If the phases are invalid, or the ranks of a reading job cannot share their rows.
            ForbiddenError: If the caller does not have the role operate.
        """
        body: dict[str, Any] = {}
        if phases:
            body["phases"] = [dict(p) for p in phases]
        if dry_run:
            body["dry_run"] = True
        elif phases:  # the request id makes a retry after a lost answer idempotent
            body["request_id"] = uuid.uuid4().hex
        return self._one("schedule", **body)

    def seal(self, source: str | None = None) -> int:
        """Seals a document stream at its current last document, after which the run ends.

        The run ends once that document is packed.

        Args:
            source: The source to seal in a run with several sources; None seals all of them.

        Returns:
            The sequence of the last document.
        """
        return self._number("seal", "sequence", **({} if source is None else {"source": source}))

    def flush(self) -> int:
        """Flushes the buffered documents: packs them with padding, then the run continues.

        Returns:
            The sequence of the last document that is flushed.
        """
        return self._number("flush", "sequence")

    def close(self) -> None:
        """Ends reading and waits for the thread.

        It may be called from any thread, and more than once.
        """
        self._stop.set()
        self._rewind()
        self._daemons.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rewind(self, left: bool = False) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            if self._stream is not None and not self._stop.is_set():
                self._stream.leave() if left else self._stream.suspend()
            reader.close()
        self._adopt()

    def _adopt(self) -> None:
        """Fixes run, fingerprint and id to those that the stream found."""
        if self._stream is not None:
            self._run = self._run or self._stream.run
            self._fingerprint = self._fingerprint or self._stream.fingerprint
            self._run_id = self._run_id or self._stream.run_id

    def _keep_to(self, info: RunInfo) -> None:
        self._run, self._fingerprint = info.name, info.fingerprint
        self._run_id = self._run_id or info.run_id or None

    def _check_open(self) -> None:
        self._daemons.check_fork()
        if self._stop.is_set():
            raise ClosedClientError("the client is closed")

    def _number(self, action: str, key: str, **body: Any) -> int:
        value = self._one(action, **body).get(key)
        if type(value) is not int:
            raise ProtocolError(f"result of {action}: {key} is {value!r}")
        return value

    def _one(self, action: str, **body: Any) -> dict[str, Any]:
        results = self._results(action, **body)
        if len(results) != 1:
            raise ProtocolError(f"{len(results)} results of {action}, want 1")
        return results[0]

    def _results(self, action: str, **body: Any) -> list[dict[str, Any]]:
        self._adopt()
        return self._retried(lambda attempts: self._act(attempts, action, body))

    def _act(self, attempts: Retry, action: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        connection = attempts.on or attempts.turn()
        another = connection.run_id and self._run_id and connection.run_id != self._run_id
        if self._fingerprint is None or connection.plan != self._fingerprint or another:  # do not act on another plan
            self._keep_to(self._described(attempts))
        body = {"run": self._run, "run_id": self._run_id} | body
        if not self._daemons.several:
            return connection.act(action, body, attempts.left())
        return call_with_probes(
            lambda: connection.act(action, body, attempts.left()),
            lambda: connection.ping(attempts.answer()),
            NEAR_PROBE_SECONDS,
        )

    def _described(self, attempts: Retry) -> RunInfo:
        return attempts.described(self._run, self._fingerprint, self._run_id)

    def _retried(self, call: Callable[[Retry], T]) -> T:
        self._check_open()
        stall_log, what = StallLog(), f"answer from {self._daemons.url}"
        attempts = Retry(self._daemons, self._timeout, self._connect_timeout, self._stop, stall_log, what)

        def attempt() -> T:
            attempts.turn()
            return call(attempts)

        with stall_log:
            while True:
                try:
                    result = call_interruptibly(attempt)
                    break
                except LoaderdError as error:
                    attempts.failed(error)
        attempts.succeeded()
        return result


def _weight(source: str, value: Any) -> float:
    """Checks a weight of a source.

    Other values have no JSON form, or the daemon rejects them.
    """
    weight = float(value)
    if not 0 <= weight <= MAX_WEIGHT:
        raise ValueError(f"weight {weight} of source {source}: want a number from 0 to 1e9")
    return weight
