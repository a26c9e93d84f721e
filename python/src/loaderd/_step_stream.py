"""The steps of one rank, in order, each once, across any number of lost connections."""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from loaderd._connection import FAILURES, Connection, ConnectionLostError, Opening, translate
from loaderd._consumption import Reporter
from loaderd._daemons import Daemons
from loaderd._retry import OF_THE_RUN, Retry
from loaderd._stall_log import StallLog
from loaderd._step import Part, Step, check_ids, part_of, step_of
from loaderd._watchdog import Watchdog
from loaderd._wire import (
    CU_SEQLENS,
    DEFAULT_JOB,
    DOCUMENTS,
    INPUT_IDS,
    LOSS_RUNS,
    LOSS_WEIGHTS,
    NARROW_IDS,
    SOURCES,
    Metadata,
    RunInfo,
    Ticket,
)
from loaderd.errors import (
    FROM_DAEMON,
    ClosedClientError,
    LoaderdError,
    ProtocolError,
    UnavailableError,
    UnreachableError,
)

# The transport's pings detect a hanging peer, but not always; these probes cover the rest. Seconds between two probes
# while a step is awaited, and the timeout of an answer.
PROBE_SECONDS = 20.0
PROBE_ANSWER_SECONDS = 10.0
# The same while failover is possible, which justifies more probes. Patience bounds the answer.
NEAR_PROBE_SECONDS = 1.0
# Seconds between two checks of a wait.
LOOK_SECONDS = 1.0


class StepStream(Iterator[Step]):
    """An iterator over a rank's steps whose `next()` blocks until a step is complete.

    Invariant: only step `next_step` is requested and accepted, until it has arrived completely; then `next_step`
    increases by one. After a lost connection, or a temporary cause, the same step is requested again, from another
    daemon if several exist. `cancel()`, from any thread, ends it with ClosedClientError. After another exception
    `next()` may be called again and continues with the same step. During a long wait of the consumer, the daemon is
    called for the cause, and the log has its answer (`stall_log`). The steps that were taken are reported to the daemon
    (`Reporter`).
    """

    def __init__(
        self,
        daemons: Daemons,
        *,
        rank: int = 0,
        world_size: int = 1,
        step: int = 0,
        steps: int | None = None,
        run: str | None = None,
        fingerprint: str | None = None,
        run_id: str | None = None,
        documents: bool = False,
        sources: bool | None = False,
        weights: bool = False,
        masks: bool = True,
        columns: Sequence[str] = (),
        job: str = DEFAULT_JOB,
        peer: int = 0,
        session: str | None = None,
        first: int | None = None,
        timeout: float = 300.0,
        connect_timeout: float = 60.0,
    ) -> None:
        """Creates a stream, which connects with its first step. Most arguments are as in `loaderd.Client`.

        Args:
            daemons: The daemons of the run.
            rank: The data-parallel rank.
            world_size: The number of ranks.
            step: The index of the first step.
            steps: How many steps are read; None reads until the run ends.
            run: The name that the run must have.
            fingerprint: The fingerprint that the run must have; without it the first one found is fixed.
            run_id: The id that the run must have; without it the first one found is fixed.
            documents: Whether steps have the origin of their tokens.
            sources: Whether steps have sources; None requests them if the run has several.
            weights: Whether steps have loss weights.
            masks: Whether steps have loss runs, as in `Client.stream`.
            columns: Names of additional columns.
            job: The name of the training job.
            peer: The number of this process among those that read as the same rank.
            session: Identifies the client to the daemon: streams of one session replace each other.
            first: The first step that the client has read, `step` by default: its job retains documents from that step
                until it commits.
            timeout: Seconds without a step after which the cause is raised.
            connect_timeout: Seconds without any answer after which UnreachableError is raised.
        """
        self.daemons, self.rank, self.world_size, self.next_step = daemons, rank, world_size, step
        daemons.rank = rank
        self.run, self.fingerprint, self.documents, self.job = run, fingerprint, documents, job
        self.run_id, self.sources, self.weights, self.masks, self.columns = (
            run_id,
            sources,
            weights,
            masks,
            tuple(columns),
        )
        self._identified = False  # or the daemon of the stream has no id to give
        self.timeout, self.connect_timeout = timeout, connect_timeout
        self.info: RunInfo | None = None
        self._end = None if steps is None else step + steps
        self._ended = False
        self._stop = threading.Event()
        self._lock = threading.RLock()  # guards the two fields below, which cancel uses from another thread
        self._opening: Opening | None = None
        self._reader: Any = None
        self._on: Connection | None = None  # of the last stream that was opened
        self._attempts: Retry | None = None  # at the awaited step
        self._gone: LoaderdError | None = None  # why a daemon was left while a stream was open
        self.peer, self.session = peer, session or uuid.uuid4().hex
        self.first = step if first is None else first
        self.stall_log = StallLog(taken=step)
        self._reporter = Reporter(daemons, self.stall_log.consumption)
        weakref.finalize(self, self._reporter.close, left=True)
        self._probed = 0.0
        self._explained: LoaderdError | None = None  # why the step is late, as the daemon answered a probe
        self._watchdog = Watchdog(timeout, self._cancel_reader, min(LOOK_SECONDS, PROBE_SECONDS), self._alive)
        weakref.finalize(self, self._watchdog.close)

    def __next__(self) -> Step:
        self.daemons.check_fork()
        if self.stall_log.ahead:
            return self._advance()
        with self.stall_log:
            try:
                step = self._advance()
            except StopIteration:
                self.stall_log.consumption.end()
                raise
            self.stall_log.consumption.take()
            return step

    def _advance(self) -> Step:
        if self._ended or self.next_step == self._end:
            self._drop()
            raise StopIteration
        attempts = Retry(self.daemons, self.timeout, self.connect_timeout, self._stop, self.stall_log, self._awaited())
        if self._reader is not None:
            attempts.on = self._on
        self._attempts, self._probed, self._explained, self._gone = attempts, time.monotonic(), None, None
        with self._watchdog:
            while True:
                try:
                    if self._reader is None:
                        self._open(attempts)
                    step = self._read()
                    break
                except LoaderdError as error:
                    attempts.failed(self._cause(error, attempts))
        if step is None:
            self._ended = True
            self._drop()
            raise StopIteration
        self.next_step += 1
        self._identify()
        if attempts.last is not None:
            attempts.succeeded()
        return step

    def _identify(self) -> None:
        """Records the id of a run that had not begun when the stream was opened.

        The id may also be requested later.
        """
        if self._identified or self._on is None:
            return
        self._identified = True
        try:
            self.run_id = self._on.info(self.run, PROBE_ANSWER_SECONDS).run_id or None
        except LoaderdError:
            return

    def cancel(self) -> None:
        """Ends reading permanently, and reports that the client has left its rank."""
        self._stop.set()
        self._watchdog.close()
        self._drop()
        self._reporter.close(left=True)

    def report_of(self, taken: int) -> dict[str, Any] | None:
        """Returns the body of a report that the trainer has taken the steps before `taken`.

        Args:
            taken: The number of steps.

        Returns:
            The body; None if the trainer has not taken them, or before the first stream.
        """
        return self._reporter.report_of(taken)

    def suspend(self) -> None:
        """Ends the reports permanently.

        Call it before `cancel` when another stream replaces this one.
        """
        self._reporter.close(left=False)

    def leave(self) -> None:
        """Ends the reports permanently, and reports that the client has left its rank."""
        self._reporter.close(left=True)

    def _cause(self, error: LoaderdError, attempts: Retry) -> LoaderdError:
        """Returns the cause of a failed attempt and drops its stream."""
        opened = self._reader is not None
        gone, self._gone = self._gone, None
        if opened:
            attempts.reached()
            self._drop()
        if self._stop.is_set():
            return ClosedClientError("the reader is closed")
        if (
            opened and self._watchdog.expired and isinstance(error, ConnectionLostError)
        ):  # this client cancelled the stream
            return (
                attempts.cause
                or self._explained
                or attempts.before()
                or UnavailableError(
                    f"no step {self.next_step} within {self.timeout:g} s, and the daemon has not reported a cause: "
                    "the timeout is shorter than its serve.stall_timeout"
                )
            )
        return gone if gone is not None and isinstance(error, ConnectionLostError) else error

    def _open(self, attempts: Retry) -> None:
        """Opens a stream at `next_step`.

        It first requests the description of the run, because a new daemon may plan another one.
        """
        connection = attempts.turn()
        info = attempts.described(self.run, self.fingerprint, self.run_id)
        if (
            connection is not self._on and attempts.settle()
        ):  # first contact with this daemon: spread ranks over the daemons
            connection, info = (
                attempts.turn(),
                attempts.described(self.run, self.fingerprint or info.fingerprint, self.run_id or info.run_id),
            )
        self.info, self.run, self.fingerprint = info, info.name, self.fingerprint or info.fingerprint
        self.run_id = self.run_id or info.run_id or None
        self._identified = self.run_id is not None
        sources = len(info.sources) > 1 if self.sources is None else self.sources
        columns: tuple[str, ...] = (NARROW_IDS if info.narrow else INPUT_IDS, CU_SEQLENS)
        columns += ((DOCUMENTS,) if self.documents or sources or self.weights else ()) + ((SOURCES,) if sources else ())
        columns += (
            ((LOSS_RUNS,) if self.masks and LOSS_RUNS in info.columns else ())
            + ((LOSS_WEIGHTS,) if self.weights else ())
            + self.columns
        )
        steps = None if self._end is None else self._end - self.next_step
        taken, read = self.stall_log.consumption.progress.taken, self.next_step - self.first
        ticket = Ticket(
            self.rank,
            self.world_size,
            self.next_step,
            steps,
            columns,
            self.run,
            self.fingerprint,
            self.job,
            self.run_id,
            self.session,
            self.peer,
            taken,
            read,
        )
        opening = connection.read(ticket)
        with self._lock:
            self._opening = opening
            if self._stop.is_set() or self._watchdog.expired:
                opening.cancel()
        try:
            reader = opening.reader(attempts.answer())
        except ConnectionLostError:
            if self._watchdog.expired and attempts.last is not None:
                raise attempts.last from None
            raise
        with self._lock:
            self._opening = None
            if not (self._stop.is_set() or self._watchdog.expired):
                self._reader, self._on = reader, connection
                self._reporter.begin(connection, ticket.identity(), info.ahead)
                return
        reader.cancel()
        raise attempts.last or ConnectionLostError("the stream was not open in time")

    def _read(self) -> Step | None:
        """Returns the complete step `next_step`, or None at the end of the run."""
        metas: list[Metadata] = []
        parts: list[Part] = []
        reader = self._reader
        if reader is None:
            raise ConnectionLostError("cancelled")
        while not metas or len(metas) < metas[0].parts:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                if metas:
                    raise ProtocolError(
                        f"the stream ended after part {len(metas) - 1} of {metas[0].parts} of step {self.next_step}"
                    ) from None
                return None
            except FAILURES as error:
                raise translate(error) from None
            if chunk.data is None or chunk.app_metadata is None:
                raise ProtocolError("received a message without a batch or without metadata")
            meta = Metadata.decode(chunk.app_metadata.to_pybytes())
            self._expect(meta, metas)
            metas.append(meta)
            parts.append(part_of(chunk.data, meta))
            if self.info is not None:
                check_ids(parts[-1], self.info.ids, f"part {meta.part} of step {meta.step} of run {meta.run}")
        step = step_of(metas, parts)
        whole = metas[0].step_rows
        if self.info is None or step.rows * self.world_size != whole:  # a control may have added a bucket
            raise ProtocolError(
                f"step {step.index} has {step.rows} rows of {step.bucket} on one of {self.world_size} ranks, "
                f"the whole step has {whole}"
            )
        return step

    def _expect(self, meta: Metadata, before: list[Metadata]) -> None:
        first = before[0] if before else meta
        got = (meta.run, meta.step, meta.part, meta.parts, meta.bucket)
        want = (self.run, self.next_step, len(before), first.parts, first.bucket)
        if got != want or meta.part >= meta.parts:
            raise ProtocolError(f"the daemon sent (run, step, part, parts, bucket) = {got}, expected {want}")

    def _alive(self) -> bool:
        """Reports whether to stay with the daemon of the stream.

        It must answer, and no other daemon may have the step while it is partitioned. The daemon is called for the
        cause of the delay when a log message is due or when it has sent nothing for long.
        """
        now, several, attempts = time.monotonic(), self.daemons.several, self._attempts
        on, reader = attempts.on if attempts else None, self._reader
        if on is None or attempts is None or (several and reader is None):
            return True  # an attempt to open a stream has its own timeout
        due = self.stall_log.due()
        if not due and now < self._probed + (NEAR_PROBE_SECONDS if several else PROBE_SECONDS):
            return True
        self._probed, what = now, self._awaited()
        try:
            found = on.act(
                "cause",
                {"run": self.run, "step": self.next_step},
                attempts.answer() if several else PROBE_ANSWER_SECONDS,
            )
        except ConnectionLostError as error:
            if several and self._reader is not reader:
                return True  # the stream was dropped meanwhile
            self._gone = error
            self.stall_log.report(what, UnreachableError(f"no answer from {on.url}: {error}", facts={"url": on.url}))
            return False
        except LoaderdError as error:  # also an answer; the stream reports it
            self.stall_log.report(what, error)
        else:
            return self._explained_by(_cause_of(found[0] if found else {}), on, attempts, reader)
        return True

    def _explained_by(self, cause: LoaderdError, on: Connection, attempts: Retry, reader: Any) -> bool:
        """Reports whether to stay with a daemon that has returned this cause, and with its stream."""
        self._explained = cause if isinstance(cause, UnavailableError) else None
        self.stall_log.report(self._awaited(), cause)
        if self._explained is None or isinstance(cause, OF_THE_RUN):
            return True
        other = None
        try:
            other = self.daemons.pick({on.url})
            if other is None:
                return True
            found = other.act("cause", {"run": self.run, "step": self.next_step}, attempts.answer())
        except LoaderdError as error:
            if other is not None and isinstance(error, ConnectionLostError):
                self.daemons.failed(other, error)
            return True
        if self._reader is not reader or not found or found[0].get("reason"):
            return True  # the other daemon does not have the step either
        self._gone = cause
        return False

    def _awaited(self) -> str:
        """Returns the awaited step as text."""
        run = f' of run "{self.run}"' if self.run else ""
        return f"step {self.next_step}{run} for rank {self.rank} of {self.world_size}"

    def _drop(self) -> None:
        self._cancel_reader()
        with self._lock:
            self._reader = None

    def _cancel_reader(self) -> None:
        with self._lock:
            if self._opening is not None:
                self._opening.cancel()
            if self._reader is not None:
                self._reader.cancel()


def _cause_of(found: dict[str, Any]) -> LoaderdError:
    """Returns the answer to `cause` as the error that the daemon would return with it."""
    reason = found.get("reason")
    if not reason:
        return LoaderdError("the step is planned, and its rows are fetched or being sent", reason="ON_ITS_WAY")
    facts = found.get("facts")
    facts = {k: str(v) for k, v in facts.items()} if isinstance(facts, dict) else {}
    cls = FROM_DAEMON.get(str(reason), LoaderdError)
    return cls(f"{reason}: {found.get('message')}; {found.get('do')}", reason=str(reason), facts=facts)
