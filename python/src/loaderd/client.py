"""The client: a run's steps as numpy arrays, and the calls that a trainer makes."""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from loaderd.connection import TLS, attended, interruptible
from loaderd.daemons import Daemons, URLs
from loaderd.errors import ClosedClient, Forbidden, LoaderdError, ProtocolError
from loaderd.passes import Passes
from loaderd.patience import Patience
from loaderd.prefetch import Prefetcher
from loaderd.reading import NEAR_PROBE_SECONDS, StepStream
from loaderd.step import Step
from loaderd.waits import Waits
from loaderd.wire import DEFAULT_JOB, RunInfo, RunStatus

MAX_WEIGHT = 1e9  # of a source

T = TypeVar("T")


class Client(Iterator[Step]):
    """Iterates over the steps of one data-parallel rank.

        with Client("grpc://127.0.0.1:8815", rank=0, world=8, step=resume_at) as client:
            for step in client:
                train(step.input_ids, step.segment_ids())
                client.commit(step.index + 1)        # once a checkpoint covers it

    Steps come in order, each once. Lost connections, restarts of the daemon and causes that pass (`Unavailable`) are
    waited out; a run of several daemons is read on by another one. A step is read ahead in a thread; after an exception the client may be asked again and goes on with the
    same step. Nothing is connected before the first call, and a client must be used in the process that made it."""

    def __init__(
        self,
        url: URLs,
        *,
        run: str | None = None,
        rank: int = 0,
        world: int = 1,
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
        patience: float = 300.0,
        connect_timeout: float = 60.0,
        prefetch: int = 2,
    ) -> None:
        """A client of the daemon at `url`, grpc://host:port or grpc+tls://host:port. A run of several daemons takes the
        addresses of some or all, as a sequence or with commas between them: it learns the others from any.

        `run`, `fingerprint` and `run_id`, when given, must be those of the daemon's run (RunMismatch, PlanMismatch, RunReplaced: a run
        that was deleted and begun again has another id); a client keeps to the ones it finds first. It reads `steps` steps from `step` on, all by default, and of each the rows of
        `rank` of `world`. `job` names the job of these ranks: another one that reads the same run neither waits for it nor
        makes it wait. `peer` distinguishes processes that read as the same rank, such as those of tensor parallelism: without it the second one gets
        DuplicateRank. `documents` asks for `Step.sources`, `sources` for these with the numbers of their sources (None: where the run has
        several), `weights` for the weight of each piece's loss, `columns` for columns that documents bring along (`Step.column`, `Step.values`; BadTicket
        for one that the run has not). `token` is the daemon's bearer token. On the daemon's machine its user needs none: without
        one the client finds the daemon's data folder as LOADERD_STREAM__DIR, or as ./loaderd-data, and signs its calls with the
        token in it. It does not send that token.
        `prefetch` steps are read ahead.

        `patience`: seconds without a step after which the cause is raised. It belongs below the timeout of the
        trainer's collectives, so that the rank says why it waits. `connect_timeout`: seconds without any answer after
        which Unreachable is raised."""
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} of {world}: want a rank from 0 to world - 1")
        if peer < 0:
            raise ValueError(f"peer {peer}: want a number from 0 on")
        if step < 0 or (steps is not None and steps < 0):
            raise ValueError(f"step {step}, steps {steps}: want numbers from 0 on")
        if prefetch < 1:
            raise ValueError(f"prefetch {prefetch}: want 1 step or more")
        self.rank, self.world, self.peer = rank, world, peer
        self._session = uuid.uuid4().hex
        self._run, self._fingerprint, self._documents = run, fingerprint, documents
        self._run_id, self._sources, self._weights, self._columns = run_id, sources, weights, tuple(columns)
        self._patience, self._connect_timeout, self._prefetch = patience, connect_timeout, prefetch
        self._next, self._end = step, None if steps is None else step + steps
        self._job = job
        self._first: int | None = None  # step that it has read
        self._latest: weakref.ref[StepStream] | None = None
        self._daemons = Daemons(url, rank=rank, token=token, tls=tls)
        self._stream: StepStream | None = None
        self._reader: Prefetcher[Step] | None = None
        self._passes = Passes()
        self._stop = threading.Event()

    @property
    def next_step(self) -> int:
        """Index of the step that `next()` gives."""
        return self._next

    def __iter__(self) -> Client:
        self._passes.begun()
        return self

    def __next__(self) -> Step:
        while True:
            reader = self._reader
            if reader is None:
                self._stream = self.stream(self._next)
                reader = self._reader = Prefetcher(self._stream, self._prefetch)
            try:
                step = next(reader)
            except StopIteration:
                self._passes.ended(self._stream.run if self._stream else self._run, self._next, self._end)
                raise
            except Exception:
                self._rewind()
                if reader.stale:  # patience is for those who wait
                    continue
                raise
            if step.index == self._next:
                self._next += 1
                self._passes.yielded()
                return step
            self._rewind()  # an interrupt took a step away between the queue and the caller

    def stream(self, step: int | None = None, *, masks: bool = True) -> StepStream:
        """A reader of its own, without a thread, from a step on (`next_step` when none is given): for those who read
        ahead themselves. Without `masks` it does not ask which tokens have a loss: `Step.loss_mask` and `Step.labels` are not for its steps then."""
        self._check_open()
        begins = self._next if step is None else step
        self._first = begins if self._first is None else min(self._first, begins)
        stream = StepStream(
            self._daemons,
            rank=self.rank,
            world=self.world,
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
            patience=self._patience,
            connect_timeout=self._connect_timeout,
        )
        self._latest = weakref.ref(stream)
        return stream

    def info(self) -> RunInfo:
        """The run as it is now. The first answer fixes run, fingerprint and id for this client."""
        self._adopt()
        info = self._retried(self._described)
        self._keep_to(info)
        return info

    def keep_to_id(self, run_id: str | None) -> None:
        """Has the client refuse any run but the one with this id, None: whichever it finds. What it reads already goes on."""
        self._run_id = run_id

    def commit(self, step: int, keeper: str | None = None) -> int:
        """Says that the keeper's durable checkpoint covers all steps before `step`; returns the least such step of all
        keepers. The keeper is the client's job unless it is named. A client without a job commits for the keeper "trainer", or, where the daemon knows
        callers by name, for the one of its own name.

        Documents that no later step needs may be released then: commit when the checkpoint is on disk, not when it is
        begun. Raises Forbidden for steps that no job of the caller was sent, unless its role is operate."""
        try:
            return self._number("commit", "committed", step=step, **self._keeper(keeper))
        except Forbidden as error:
            if "sent" not in error.facts or not self._report(step):
                raise
        return self._number("commit", "committed", step=step, **self._keeper(keeper))

    def _keeper(self, keeper: str | None) -> dict[str, str]:
        named = keeper if keeper is not None or self._job == DEFAULT_JOB else self._job
        return {} if named is None else {"keeper": named}

    def _report(self, taken: int) -> bool:
        """Reports that the trainer has taken the steps before `taken`, where it has, to a daemon that does not know: it was started since these were sent."""
        stream = self._latest() if self._latest is not None else None
        body = stream.report_of(taken) if stream is not None else None
        if body is None:
            return False
        self._one("consumed", **body)
        return True

    def leave(self, keeper: str | None = None) -> int:
        """Says that the keeper keeps no checkpoints any more; returns the least committed step of those that remain."""
        return self._number("leave", "committed", **self._keeper(keeper))

    def checkpoint(self) -> int:
        """Has the daemon store its planner's state now; returns the step it stands at."""
        return self._number("checkpoint", "step")

    def stats(self) -> dict[str, Any]:
        """Counts and levels of the run."""
        return self._one("stats")

    def status(self) -> RunStatus:
        """How the run does: a sentence, what to do, and all figures of the live page. Every daemon of the run says the same."""
        return RunStatus.decode(self._one("status"))

    def ledger(self, step: int, documents: bool = False) -> dict[str, Any]:
        """What a step is made of: `bucket`, `cursor` (the last document that had been seen) and `rows`, each a list of
        pieces {"sequence", "start", "length"}; with `documents` also where the documents came from, in order of their
        sequences, and of each piece its "loss_tokens". A piece of a document in a message with several then has that document's "index", "start_within" (`start` counts the
        tokens of the message), and where it has them "id", "weight" and "meta". Pieces and documents have their "source", too."""
        pages = self._results("ledger", step=step, documents=documents)
        if not pages:
            raise ProtocolError("no result of ledger")
        whole = {k: v for k, v in pages[0].items() if k not in ("first", "total")}
        whole["rows"] = [row for page in pages for row in page["rows"]]
        if documents:
            found = {(d.get("source", ""), d["sequence"]): d for page in pages for d in page.get("documents") or []}
            whole["documents"] = [found[k] for k in sorted(found)]
        return whole

    def find(self, *, sequence: int | None = None, id: str | None = None, source: str | None = None) -> list[dict[str, Any]]:
        """The rows that hold a part of a document, named by its sequence or its id: {"step", "bucket", "row",
        "pieces"}. Pieces are as those of `ledger` with documents. By the id of a document in a message with several come the pieces of that document alone, by a sequence those
        of all documents of the message. Of a run with several sources a sequence takes its `source`; an id is looked up in all of them, or in that one."""
        named = {"sequence": sequence, "id": id, "source": source}
        return self._results("find", **{k: v for k, v in named.items() if v is not None})

    def measure(self) -> None:
        """Has the daemon that plans the run count how many steps it will have, and returns at once; `info().length` tells how far that is, and then the number. Every
        document that is left is read and tokenized once more, beside the run. Raises BadTicket while a source is not sealed, and for a run without an end.
        It takes the role train."""
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
        """Changes the mixture of sources from the next document on that is planned, and returns "step", the first one that can
        differ, and "target", the share of tokens that each source is to have. Without a change: how things stand (docs/wire.md).

        `weights` are relative to each other; a source that they do not name keeps as its weight the share that is in force where the plan records the
        change, behind all changes before it. `add` has configurations of sources that
        come, `remove` names of those that go. `decided` is the number of steps that whoever decided had seen, and the plan has one change for each such
        number: when it has that one already it stays as it is, "step" and "target" are its own, and "again" is true. So a trainer that is killed and
        resumed asks again without harm. `dry_run` changes nothing. Raises BadTicket for what no mixture can be, Forbidden for a caller who may not:
        it takes the role operate, or train where the daemon has flight.train_may_mix. Raises ValueError for a weight that is no number from 0 to 1e9."""
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
        elif body and not dry_run:  # a change whose answer is lost is asked for again, and recorded once
            body["request_id"] = uuid.uuid4().hex
        return self._one("mix", **body)

    def seal(self, source: str | None = None) -> int:
        """Ends the stream of documents behind its present last one, whose sequence is returned: the run ends once that
        is packed. Of a run with several sources it ends all, or the one that is named."""
        return self._number("seal", "sequence", **({} if source is None else {"source": source}))

    def drain(self) -> int:
        """Has everything packed that is pending, up to the document whose sequence is returned; then the run goes
        on."""
        return self._number("drain", "sequence")

    def close(self) -> None:
        """Ends reading and waits for the thread. May be called from any thread, and more than once."""
        self._stop.set()
        self._rewind()
        self._daemons.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rewind(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            if self._stream is not None and not self._stop.is_set():
                self._stream.suspend()
            reader.close()
        self._adopt()

    def _adopt(self) -> None:
        """Keeps to the plan that the stream has found."""
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
            raise ClosedClient("the client is closed")

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

    def _act(self, attempts: Patience, action: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        connection = attempts.on or attempts.turn()
        another = connection.run_id and self._run_id and connection.run_id != self._run_id
        if self._fingerprint is None or connection.plan != self._fingerprint or another:  # another plan's is none of ours to change
            self._keep_to(self._described(attempts))
        body = {"run": self._run, "run_id": self._run_id} | body
        if not self._daemons.several:
            return connection.act(action, body, attempts.left())
        return attended(
            lambda: connection.act(action, body, attempts.left()),
            lambda: connection.ping(attempts.answer()),
            NEAR_PROBE_SECONDS,
        )

    def _described(self, attempts: Patience) -> RunInfo:
        return attempts.described(self._run, self._fingerprint, self._run_id)

    def _retried(self, call: Callable[[Patience], T]) -> T:
        self._check_open()
        waits, what = Waits(), f"an answer of {self._daemons.url}"
        attempts = Patience(self._daemons, self._patience, self._connect_timeout, self._stop, waits, what)

        def attempt() -> T:
            attempts.turn()
            return call(attempts)

        with waits:
            while True:
                try:
                    result = interruptible(attempt)
                    break
                except LoaderdError as error:
                    attempts.failed(error)
        attempts.succeeded()
        return result


def _weight(source: str, value: Any) -> float:
    """Checks a weight of a source: what is none has no form in JSON, or the daemon refuses it."""
    weight = float(value)
    if not 0 <= weight <= MAX_WEIGHT:
        raise ValueError(f"weight {weight} of source {source}: want a number from 0 to 1e9")
    return weight
