"""Exceptions: one class per cause that the daemon reports (docs/reference/errors.md), and a few of the client."""

from __future__ import annotations

from collections.abc import Mapping

from loaderd._grpc_status import Status


class LoaderdError(Exception):
    """The base of all errors that this package raises about a daemon.

    A reason that this version does not define is raised as this class.

    Attributes:
        reason: The stable name of the cause.
        facts: Details as strings, such as `divisors` of WORLD_MISMATCH.
    """

    reason: str = ""

    def __init__(self, message: str = "", *, reason: str | None = None, facts: Mapping[str, str] | None = None) -> None:
        """Creates an error.

        Args:
            message: The message.
            reason: The name of the cause, if it is not that of the class.
            facts: Details as strings.
        """
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        self.facts: dict[str, str] = dict(facts or {})


class UnavailableError(LoaderdError):
    """No step is available now, perhaps later.

    The client retries and raises the last cause when its timeout expires.
    """

    reason = "UNAVAILABLE"


class SourceDryError(UnavailableError):
    """Every document has been read and the next step needs more: publish documents, or seal or flush the run."""

    reason = "SOURCE_DRY"


class SourceDownError(UnavailableError):
    """The daemon cannot reach the document stream: check NATS."""

    reason = "SOURCE_DOWN"


class TokenizerBehindError(UnavailableError):
    """Documents wait to be tokenized: give the daemon more cores, or publish tokens."""

    reason = "TOKENIZER_BEHIND"


class PoolFillingError(UnavailableError):
    """Documents arrive, but the pool, the shuffle window or the step is not full yet."""

    reason = "POOL_FILLING"


class DocumentsFilteredError(UnavailableError):
    """Filters reject all documents: check them (`loaderd filter`), or publish documents that match."""

    reason = "DOCUMENTS_FILTERED"


class RankBehindError(UnavailableError):
    """Another rank lags and holds the plan back: check that rank (`Client.stats` lists readers and their steps)."""

    reason = "RANK_BEHIND"


class RankMissingError(UnavailableError):
    """A rank of the job is missing: check its process.

    It is not connected, does not answer, or still has a step that the other ranks have finished. `facts` has job, rank,
    world, step, since_seconds and state.
    """

    reason = "RANK_MISSING"


class StreamFullError(UnavailableError):
    """The document stream has reached its limit.

    Producers wait for room, and the run waits for documents. `facts` has stream, bytes, max_bytes and release.
    """

    reason = "STREAM_FULL"


class ReplayingError(UnavailableError):
    """The daemon replays its plan log after a restart."""

    reason = "REPLAYING"


class NotLeadingError(UnavailableError):
    """Another process plans this run."""

    reason = "NOT_LEADING"


class PlanLogDownError(UnavailableError):
    """The plan log cannot be written: check NATS and its disk."""

    reason = "PLAN_LOG_DOWN"


class StorageFullError(UnavailableError):
    """The streams cannot be written because the disk is full.

    Free space on the disk that the message names, then restart the daemon.
    """

    reason = "STORAGE_FULL"


class StorageDownError(UnavailableError):
    """The streams cannot be written: check the disk that the message names, then restart the daemon."""

    reason = "STORAGE_DOWN"


class CauseUnknownError(UnavailableError):
    """The step is late for no known reason; `facts` list what the daemon observes."""

    reason = "CAUSE_UNKNOWN"


class ShuttingDownError(UnavailableError):
    """The daemon shuts down gracefully; its successor continues with the same step."""

    reason = "SHUTTING_DOWN"


class LimitedError(UnavailableError):
    """Too many streams, records or searches are open, of this identity or in total."""

    reason = "LIMITED"


class SlowReaderError(UnavailableError):
    """The reader received nothing for so long that the daemon ended its stream.

    The client reconnects when it continues.
    """

    reason = "SLOW_READER"


class IdleReaderError(UnavailableError):
    """The reader requested no step for so long that the daemon dropped it.

    The client reconnects when it continues.
    """

    reason = "IDLE_READER"


class PlanMismatchError(LoaderdError):
    """The run has another fingerprint: its configuration is not that of the checkpoint."""

    reason = "PLAN_MISMATCH"


class StreamMismatchError(LoaderdError):
    """The document stream is not the one that the plan was created from.

    It was deleted, created again, or has another name.
    """

    reason = "STREAM_MISMATCH"


class PlanTruncatedError(LoaderdError):
    """The plan lost its end: the daemon does not continue it before `loaderd run repair`."""

    reason = "PLAN_TRUNCATED"


class PlanForeignError(LoaderdError):
    """The plan has a record that was not written by any of the run's daemons.

    Daemons do not follow the plan before `loaderd run repair`.
    """

    reason = "PLAN_FOREIGN"


class RunMismatchError(LoaderdError):
    """The daemon serves another run."""

    reason = "RUN_MISMATCH"


class RunReplacedError(LoaderdError):
    """The run was deleted and created again: it has another id than the run of the checkpoint."""

    reason = "RUN_REPLACED"


class ReplacedError(LoaderdError):
    """Another stream reads as this rank of the job.

    It has the same identity, or the client of this stream no longer reported.
    """

    reason = "REPLACED"


class DuplicateRankError(LoaderdError):
    """Another client reads as this rank of the job.

    Give every process its own rank, another `job`, or another `peer` where processes share a rank intentionally.
    `facts` has job, rank, world, address and since.
    """

    reason = "DUPLICATE_RANK"


class WorldMismatchError(LoaderdError):
    """The world size does not divide the rows of a step; `facts["divisors"]` lists the valid sizes."""

    reason = "WORLD_MISMATCH"


class WorldConflictError(LoaderdError):
    """The ranks of the job do not agree about its world size, the step from which it has it, or skipped steps.

    `facts` has job, rank, world and step of this rank and, where the plan has another world size, `agreed` and
    `from_step`.
    """

    reason = "WORLD_CONFLICT"


class TooManySegmentsError(LoaderdError):
    """A row has more than 65,535 segments, the maximum of uint16 segment ids."""

    reason = "TOO_MANY_SEGMENTS"


class StepPurgedError(LoaderdError):
    """The documents of the step were released because every job had committed it: resume from a later checkpoint."""

    reason = "STEP_PURGED"


class StepNotPlannedError(LoaderdError):
    """The step is too far in the future, or after the end of the run."""

    reason = "STEP_NOT_PLANNED"


class InvalidTicketError(LoaderdError):
    """The request is malformed; the message states the fault."""

    reason = "INVALID_TICKET"


class InvalidTokenError(LoaderdError):
    """The token is missing or wrong.

    The token of a daemon on this machine is in its data folder: LOADERD_STREAM__DIR, or ./loaderd-data.
    """

    reason = "INVALID_TOKEN"


class ForbiddenError(LoaderdError):
    """The caller is authenticated but not authorized.

    It requests another run, another identity's job, an action that requires another role, or a commit of steps that
    were not sent to any of its jobs (`facts`: step, sent).
    """

    reason = "FORBIDDEN"


class UnsupportedError(LoaderdError):
    """This daemon does not have the call or action."""

    reason = "UNSUPPORTED"


class DocumentLostError(LoaderdError):
    """A document that the step needs is no longer in the stream."""

    reason = "DOCUMENT_LOST"


class RunFailedError(LoaderdError):
    """The run stopped on an error: check the daemon's log."""

    reason = "RUN_FAILED"


class InternalError(LoaderdError):
    """The daemon failed to serve the call: its log has the cause under `facts["call"]`."""

    reason = "INTERNAL"


class UnreachableError(LoaderdError):
    """No daemon answered for `connect_timeout` seconds.

    The address is wrong, the daemon is down, or TLS does not match.
    """

    reason = "UNREACHABLE"


class ProtocolError(LoaderdError):
    """An answer violates the wire format (docs/reference/wire.md), such as a step out of order.

    Never the trainer's fault.
    """

    reason = "PROTOCOL"


class ForkedClientError(LoaderdError):
    """A client was used, or created, in a process that was forked after one had been created.

    The transport does not work there. Fork before the first client is created, or start processes by spawn or
    forkserver.
    """

    reason = "FORKED"


class ClosedClientError(LoaderdError):
    """A client was used after `close()`, or closed by another thread during the call."""

    reason = "CLOSED"


FROM_DAEMON: dict[str, type[LoaderdError]] = {
    cls.reason: cls
    for cls in (
        SourceDryError,
        SourceDownError,
        TokenizerBehindError,
        PoolFillingError,
        DocumentsFilteredError,
        RankBehindError,
        RankMissingError,
        StreamFullError,
        ReplayingError,
        NotLeadingError,
        PlanLogDownError,
        StorageFullError,
        StorageDownError,
        CauseUnknownError,
        ShuttingDownError,
        LimitedError,
        SlowReaderError,
        IdleReaderError,
        PlanMismatchError,
        StreamMismatchError,
        PlanTruncatedError,
        PlanForeignError,
        RunMismatchError,
        RunReplacedError,
        ReplacedError,
        DuplicateRankError,
        WorldMismatchError,
        WorldConflictError,
        TooManySegmentsError,
        StepPurgedError,
        StepNotPlannedError,
        InvalidTicketError,
        InvalidTokenError,
        ForbiddenError,
        UnsupportedError,
        DocumentLostError,
        RunFailedError,
        InternalError,
    )
}
"""The class of every reason that the daemon reports."""

_UNAVAILABLE_CODE = 14


def from_status(status: Status) -> LoaderdError:
    """Returns the exception of a status that has a reason.

    An undefined reason is retryable if its code is UNAVAILABLE.

    Args:
        status: The status.
    """
    cls = FROM_DAEMON.get(status.reason, UnavailableError if status.code == _UNAVAILABLE_CODE else LoaderdError)
    return cls(status.message or status.reason, reason=status.reason, facts=status.facts)
