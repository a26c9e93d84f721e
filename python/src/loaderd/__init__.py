"""Reads training steps from a loaderd daemon: packed, shuffled rows of tokens, the same on every rank and after
every restart.

`Client` returns numpy arrays; `loaderd.torch` returns tensors; `publish` sends documents; `serve` runs a daemon
within a `with` block.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from loaderd._client import Client
from loaderd._connection import TLS
from loaderd.errors import (
    BadTicket,
    BadToken,
    CauseUnknown,
    ClosedClient,
    DocumentLost,
    DuplicateRank,
    Forbidden,
    ForkedClient,
    InternalError,
    Limited,
    LoaderdError,
    NotLeading,
    PlanLogDown,
    PlanForeign,
    PlanMismatch,
    PlanTruncated,
    PoolFilling,
    ProtocolError,
    RankBehind,
    RankMissing,
    Replaced,
    Replaying,
    RunFailed,
    RunMismatch,
    RunReplaced,
    ShuttingDown,
    SilentReader,
    SlowReader,
    SourceDown,
    SourceDry,
    StepNotPlanned,
    StepPurged,
    StorageDown,
    StorageFull,
    StreamFull,
    StreamMismatch,
    TokenizerBehind,
    TooManySegments,
    Unavailable,
    Unreachable,
    Unsupported,
    WorldMismatch,
)
from loaderd._allocator import keep_memory
from loaderd._prefetch import Prefetcher
from loaderd._step_stream import StepStream
from loaderd._serve import NoDaemon, Served, serve
from loaderd._step import Part, Sources, Step
from loaderd._wire import MixtureChange, RunInfo, RunLength, RunStatus, SourceCount

if TYPE_CHECKING:
    from loaderd.producer import (
        BadDocument,
        Chat,
        Documents,
        DocumentTooLarge,
        InputChanged,
        NoStream,
        NotAccepted,
        NotPermitted,
        Published,
        Publisher,
        PublishError,
        RunIntake,
        apublish,
        documents,
        publish,
    )

__all__ = [
    "TLS", "BadDocument", "BadTicket", "BadToken", "CauseUnknown", "Chat", "Client", "ClosedClient", "DocumentLost", "DocumentTooLarge",
    "Documents", "DuplicateRank", "Forbidden", "ForkedClient", "InputChanged", "InternalError", "Limited", "LoaderdError", "MixtureChange", "NoDaemon", "NoStream", "NotAccepted", "NotLeading",
    "NotPermitted", "Part", "PlanLogDown", "PlanForeign", "PlanMismatch", "PlanTruncated", "PoolFilling", "Prefetcher", "ProtocolError",
    "PublishError", "Published", "Publisher", "RankBehind", "RankMissing", "Replaced", "Replaying", "RunFailed", "RunInfo", "RunIntake", "RunLength", "RunMismatch", "RunReplaced", "RunStatus", "Served", "ShuttingDown",
    "SilentReader", "SlowReader", "SourceDown", "SourceCount", "SourceDry", "Sources", "Step", "StepNotPlanned", "StepReleased", "StepStream", "StorageDown", "StorageFull", "StreamFull", "StreamMismatch",
    "TokenizerBehind", "TooManySegments", "Unavailable", "Unreachable", "Unsupported", "WorldMismatch", "apublish",
    "documents", "keep_memory", "publish", "serve",
]  # fmt: skip

_PRODUCER = frozenset([
    "BadDocument", "Chat", "Documents", "DocumentTooLarge", "InputChanged", "NoStream", "NotAccepted", "NotPermitted", "Published",
    "Publisher", "PublishError", "RunIntake", "apublish", "documents", "publish",
])  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports the publishing modules and the version lookup on first use, because readers need neither."""
    if name in _PRODUCER:
        return getattr(import_module("loaderd.producer"), name)
    if name == "__version__":
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("loaderd-client")
    except PackageNotFoundError:  # imported from the source tree
        return "0.0.0"
