"""Exceptions: one class for every cause that the daemon names (docs/errors.md), and a few of the client's own."""

from __future__ import annotations

from collections.abc import Mapping

from loaderd.status import Status


class LoaderdError(Exception):
    """Everything that this package raises about a daemon.

    `reason` is the stable name of the cause and `facts` are its particulars as strings, such as `divisors` of
    WORLD_MISMATCH. A reason that this version does not know comes as this class itself."""

    reason: str = ""

    def __init__(self, message: str = "", *, reason: str | None = None, facts: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        self.facts: dict[str, str] = dict(facts or {})


class Unavailable(LoaderdError):
    """No step now, perhaps later: the client asks again by itself and raises the last cause when its patience ends."""

    reason = "UNAVAILABLE"


class SourceDry(Unavailable):
    """Every document has been read and the next step needs more: publish documents, or seal or drain the run."""

    reason = "SOURCE_DRY"


class SourceDown(Unavailable):
    """The daemon cannot reach the document stream: look after NATS."""

    reason = "SOURCE_DOWN"


class TokenizerBehind(Unavailable):
    """Documents wait to be tokenized: give the daemon more cores, or publish tokens."""

    reason = "TOKENIZER_BEHIND"


class PoolFilling(Unavailable):
    """Documents flow, but pool, shuffle window or step are not full yet."""

    reason = "POOL_FILLING"


class RankBehind(Unavailable):
    """Another rank holds the plan back: look at that rank (`Client.stats` lists readers and their steps)."""

    reason = "RANK_BEHIND"


class RankMissing(Unavailable):
    """A rank of the job is not connected, does not answer, or holds a step that the other ranks have finished: look at its process (`facts`: job, rank,
    world, step, since_seconds, state)."""

    reason = "RANK_MISSING"


class StreamFull(Unavailable):
    """The document stream has reached its bound: producers wait for room, and the run waits for documents (`facts`: stream, bytes, max_bytes, release)."""

    reason = "STREAM_FULL"


class Replaying(Unavailable):
    """The daemon plans again what its log holds, after a restart."""

    reason = "REPLAYING"


class NotLeading(Unavailable):
    """Another process plans this run."""

    reason = "NOT_LEADING"


class PlanLogDown(Unavailable):
    """The plan log cannot be written: look after NATS and its disk."""

    reason = "PLAN_LOG_DOWN"


class StorageFull(Unavailable):
    """There is no space to write the streams: make room on the disk that the message names, then restart the daemon."""

    reason = "STORAGE_FULL"


class StorageDown(Unavailable):
    """The streams cannot be written: check the disk that the message names, then restart the daemon."""

    reason = "STORAGE_DOWN"


class CauseUnknown(Unavailable):
    """The step is late, and nothing that the daemon observes explains it: the facts list what it observes."""

    reason = "CAUSE_UNKNOWN"


class ShuttingDown(Unavailable):
    """The daemon stops in good order; its successor goes on with the same step."""

    reason = "SHUTTING_DOWN"


class Limited(Unavailable):
    """There are too many streams, records or searches, of this identity or of all."""

    reason = "LIMITED"


class SlowReader(Unavailable):
    """The reader took nothing for so long that the daemon ended its stream: the client asks again by itself when it goes on."""

    reason = "SLOW_READER"


class SilentReader(Unavailable):
    """The reader asked for no step for so long that the daemon dropped it: the client asks again by itself when it goes on."""

    reason = "SILENT_READER"


class PlanMismatch(LoaderdError):
    """The run has another fingerprint: its configuration is not the one of the checkpoint."""

    reason = "PLAN_MISMATCH"


class StreamMismatch(LoaderdError):
    """The document stream is not the one that the plan was made of: it was deleted, made again, or has another name."""

    reason = "STREAM_MISMATCH"


class PlanTruncated(LoaderdError):
    """The plan lost its end: the daemon does not go on with it before `loaderd repair`."""

    reason = "PLAN_TRUNCATED"


class PlanForeign(LoaderdError):
    """The plan has a record that none of the run's daemons wrote: it is not followed before `loaderd repair`."""

    reason = "PLAN_FOREIGN"


class RunMismatch(LoaderdError):
    """The daemon serves another run."""

    reason = "RUN_MISMATCH"


class RunReplaced(LoaderdError):
    """The run was deleted and begun again: it has another id than the run of the checkpoint."""

    reason = "RUN_REPLACED"


class Replaced(LoaderdError):
    """Another stream reads as this rank of the job: one of the same identity, or one whose predecessor no longer reported."""

    reason = "REPLACED"


class DuplicateRank(LoaderdError):
    """Another client reads as this rank of the job: give every process its own rank, another `job`, or another `peer` where processes share a rank on
    purpose (`facts`: job, rank, world, address, since)."""

    reason = "DUPLICATE_RANK"


class WorldMismatch(LoaderdError):
    """The world size does not divide the rows of a step; `facts["divisors"]` has those that do."""

    reason = "WORLD_MISMATCH"


class TooManySegments(LoaderdError):
    """A row has more than 65,535 segments, which uint16 segment ids cannot number."""

    reason = "TOO_MANY_SEGMENTS"


class StepReleased(LoaderdError):
    """The documents of the step are released, since every keeper had committed it: resume from a later checkpoint."""

    reason = "STEP_RELEASED"


class StepNotPlanned(LoaderdError):
    """The step is too far in the future, or behind the end of the run."""

    reason = "STEP_NOT_PLANNED"


class BadTicket(LoaderdError):
    """The request is malformed; the message says what is wrong."""

    reason = "BAD_TICKET"


class BadToken(LoaderdError):
    """The token is missing or wrong. That of a daemon on this machine is found in its data folder: LOADERD_STREAM__DIR,
    or ./loaderd-data."""

    reason = "BAD_TOKEN"


class Forbidden(LoaderdError):
    """The daemon knows who asks, and they may not do this: another run, another's keeper, an action that takes another role, or a commit of steps that none
    of their jobs was sent (`facts`: step, sent)."""

    reason = "FORBIDDEN"


class Unsupported(LoaderdError):
    """This daemon has no such call or action."""

    reason = "UNSUPPORTED"


class DocumentLost(LoaderdError):
    """A document that the step needs is gone from the stream."""

    reason = "DOCUMENT_LOST"


class RunFailed(LoaderdError):
    """The run stopped on an error: the daemon's log has it."""

    reason = "RUN_FAILED"


class InternalError(LoaderdError):
    """The daemon failed to serve the call: its log has the cause under `facts["call"]`."""

    reason = "INTERNAL"


class Unreachable(LoaderdError):
    """No daemon answered for `connect_timeout` seconds: a wrong address, a daemon that is down, or TLS that does not
    match."""

    reason = "UNREACHABLE"


class ProtocolError(LoaderdError):
    """An answer that the wire format (docs/wire.md) does not allow, such as a step out of order. Never the trainer's
    fault."""

    reason = "PROTOCOL"


class ForkedClient(LoaderdError):
    """A client was used, or made, in a process that was forked after one had been made: the transport does not work
    there. Fork before the first client is made, or start processes by spawn or forkserver."""

    reason = "FORKED"


class ClosedClient(LoaderdError):
    """A client was used after `close()`, or closed by another thread while this one waited."""

    reason = "CLOSED"


FROM_DAEMON: dict[str, type[LoaderdError]] = {
    cls.reason: cls
    for cls in (
        SourceDry, SourceDown, TokenizerBehind, PoolFilling, RankBehind, RankMissing, StreamFull, Replaying, NotLeading, PlanLogDown,
        StorageFull, StorageDown, CauseUnknown, ShuttingDown, Limited, SlowReader, SilentReader, PlanMismatch, StreamMismatch, PlanTruncated, PlanForeign, RunMismatch,
        RunReplaced, Replaced, DuplicateRank, WorldMismatch, TooManySegments, StepReleased, StepNotPlanned, BadTicket, BadToken, Forbidden, Unsupported, DocumentLost, RunFailed, InternalError,
    )
}  # fmt: skip
"""The class of every reason that the daemon gives."""

_UNAVAILABLE_CODE = 14


def from_status(status: Status) -> LoaderdError:
    """The exception of a status that has a reason. One that is not known yet is worth retrying when its code is
    UNAVAILABLE."""
    cls = FROM_DAEMON.get(status.reason, Unavailable if status.code == _UNAVAILABLE_CODE else LoaderdError)
    return cls(status.message or status.reason, reason=status.reason, facts=status.facts)
