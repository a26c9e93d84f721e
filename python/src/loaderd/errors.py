"""Exceptions: one class per cause that the daemon reports (docs/errors.md), and a few of the client."""

from __future__ import annotations

from collections.abc import Mapping

from loaderd._grpc_status import Status


class LoaderdError(Exception):
    """The base of all errors that this package raises about a daemon.

    `reason` is the stable name of the cause. `facts` are its details as strings, such as `divisors` of
    WORLD_MISMATCH. A reason that this version does not define is raised as this class."""

    reason: str = ""

    def __init__(self, message: str = "", *, reason: str | None = None, facts: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        self.facts: dict[str, str] = dict(facts or {})


class Unavailable(LoaderdError):
    """No step is available now, perhaps later. The client retries and raises the last cause when its patience ends."""

    reason = "UNAVAILABLE"


class SourceDry(Unavailable):
    """Every document has been read and the next step needs more: publish documents, or seal or flush the run."""

    reason = "SOURCE_DRY"


class SourceDown(Unavailable):
    """The daemon cannot reach the document stream: check NATS."""

    reason = "SOURCE_DOWN"


class TokenizerBehind(Unavailable):
    """Documents wait to be tokenized: give the daemon more cores, or publish tokens."""

    reason = "TOKENIZER_BEHIND"


class PoolFilling(Unavailable):
    """Documents arrive, but the pool, the shuffle window or the step is not full yet."""

    reason = "POOL_FILLING"


class RankBehind(Unavailable):
    """Another rank lags and holds the plan back: check that rank (`Client.stats` lists readers and their steps)."""

    reason = "RANK_BEHIND"


class RankMissing(Unavailable):
    """A rank of the job is not connected, does not answer, or still has a step that the other ranks have finished:
    check its process (`facts`: job, rank, world, step, since_seconds, state)."""

    reason = "RANK_MISSING"


class StreamFull(Unavailable):
    """The document stream has reached its limit: producers wait for room, and the run waits for documents (`facts`:
    stream, bytes, max_bytes, release)."""

    reason = "STREAM_FULL"


class Replaying(Unavailable):
    """The daemon replays its plan log after a restart."""

    reason = "REPLAYING"


class NotLeading(Unavailable):
    """Another process plans this run."""

    reason = "NOT_LEADING"


class PlanLogDown(Unavailable):
    """The plan log cannot be written: check NATS and its disk."""

    reason = "PLAN_LOG_DOWN"


class StorageFull(Unavailable):
    """The streams cannot be written because the disk is full: free space on the disk that the message names, then
    restart the daemon."""

    reason = "STORAGE_FULL"


class StorageDown(Unavailable):
    """The streams cannot be written: check the disk that the message names, then restart the daemon."""

    reason = "STORAGE_DOWN"


class CauseUnknown(Unavailable):
    """The step is late for no known reason; `facts` list what the daemon observes."""

    reason = "CAUSE_UNKNOWN"


class ShuttingDown(Unavailable):
    """The daemon shuts down gracefully; its successor continues with the same step."""

    reason = "SHUTTING_DOWN"


class Limited(Unavailable):
    """Too many streams, records or searches are open, of this identity or in total."""

    reason = "LIMITED"


class SlowReader(Unavailable):
    """The reader received nothing for so long that the daemon ended its stream. The client reconnects when it
    continues."""

    reason = "SLOW_READER"


class SilentReader(Unavailable):
    """The reader requested no step for so long that the daemon dropped it. The client reconnects when it continues."""

    reason = "IDLE_READER"


class PlanMismatch(LoaderdError):
    """The run has another fingerprint: its configuration is not that of the checkpoint."""

    reason = "PLAN_MISMATCH"


class StreamMismatch(LoaderdError):
    """The document stream is not the one that the plan was created from: it was deleted, created again, or has
    another name."""

    reason = "STREAM_MISMATCH"


class PlanTruncated(LoaderdError):
    """The plan lost its end: the daemon does not continue it before `loaderd run repair`."""

    reason = "PLAN_TRUNCATED"


class PlanForeign(LoaderdError):
    """The plan has a record that was not written by any of the run's daemons: daemons do not follow it before
    `loaderd run repair`."""

    reason = "PLAN_FOREIGN"


class RunMismatch(LoaderdError):
    """The daemon serves another run."""

    reason = "RUN_MISMATCH"


class RunReplaced(LoaderdError):
    """The run was deleted and created again: it has another id than the run of the checkpoint."""

    reason = "RUN_REPLACED"


class Replaced(LoaderdError):
    """Another stream reads as this rank of the job: one of the same identity, or one whose predecessor no longer
    reported."""

    reason = "REPLACED"


class DuplicateRank(LoaderdError):
    """Another client reads as this rank of the job: give every process its own rank, another `job`, or another
    `peer` where processes share a rank intentionally (`facts`: job, rank, world, address, since)."""

    reason = "DUPLICATE_RANK"


class WorldMismatch(LoaderdError):
    """The world size does not divide the rows of a step; `facts["divisors"]` lists the valid sizes."""

    reason = "WORLD_MISMATCH"


class TooManySegments(LoaderdError):
    """A row has more than 65,535 segments, the maximum of uint16 segment ids."""

    reason = "TOO_MANY_SEGMENTS"


class StepPurged(LoaderdError):
    """The documents of the step were released because every job had committed it: resume from a later checkpoint."""

    reason = "STEP_PURGED"


class StepNotPlanned(LoaderdError):
    """The step is too far in the future, or after the end of the run."""

    reason = "STEP_NOT_PLANNED"


class BadTicket(LoaderdError):
    """The request is malformed; the message states the fault."""

    reason = "INVALID_TICKET"


class BadToken(LoaderdError):
    """The token is missing or wrong. The token of a daemon on this machine is in its data folder:
    LOADERD_STREAM__DIR, or ./loaderd-data."""

    reason = "INVALID_TOKEN"


class Forbidden(LoaderdError):
    """The caller is authenticated but not authorized: another run, another identity's job, an action that
    requires another role, or a commit of steps that were not sent to any of its jobs (`facts`: step, sent)."""

    reason = "FORBIDDEN"


class Unsupported(LoaderdError):
    """This daemon does not have the call or action."""

    reason = "UNSUPPORTED"


class DocumentLost(LoaderdError):
    """A document that the step needs is no longer in the stream."""

    reason = "DOCUMENT_LOST"


class RunFailed(LoaderdError):
    """The run stopped on an error: check the daemon's log."""

    reason = "RUN_FAILED"


class InternalError(LoaderdError):
    """The daemon failed to serve the call: its log has the cause under `facts["call"]`."""

    reason = "INTERNAL"


class Unreachable(LoaderdError):
    """No daemon answered for `connect_timeout` seconds: the address is wrong, the daemon is down, or TLS does not
    match."""

    reason = "UNREACHABLE"


class ProtocolError(LoaderdError):
    """An answer violates the wire format (docs/wire.md), such as a step out of order. Never the trainer's fault."""

    reason = "PROTOCOL"


class ForkedClient(LoaderdError):
    """A client was used, or created, in a process that was forked after one had been created: the transport does not
    work there. Fork before the first client is created, or start processes by spawn or forkserver."""

    reason = "FORKED"


class ClosedClient(LoaderdError):
    """A client was used after `close()`, or closed by another thread during the call."""

    reason = "CLOSED"


FROM_DAEMON: dict[str, type[LoaderdError]] = {
    cls.reason: cls
    for cls in (
        SourceDry, SourceDown, TokenizerBehind, PoolFilling, RankBehind, RankMissing, StreamFull, Replaying, NotLeading, PlanLogDown,
        StorageFull, StorageDown, CauseUnknown, ShuttingDown, Limited, SlowReader, SilentReader, PlanMismatch, StreamMismatch, PlanTruncated, PlanForeign, RunMismatch,
        RunReplaced, Replaced, DuplicateRank, WorldMismatch, TooManySegments, StepPurged, StepNotPlanned, BadTicket, BadToken, Forbidden, Unsupported, DocumentLost, RunFailed, InternalError,
    )
}  # fmt: skip
"""The class of every reason that the daemon reports."""

_UNAVAILABLE_CODE = 14


def from_status(status: Status) -> LoaderdError:
    """Returns the exception of a status that has a reason. An undefined reason is retryable if its code is
    UNAVAILABLE."""
    cls = FROM_DAEMON.get(status.reason, Unavailable if status.code == _UNAVAILABLE_CODE else LoaderdError)
    return cls(status.message or status.reason, reason=status.reason, facts=status.facts)
