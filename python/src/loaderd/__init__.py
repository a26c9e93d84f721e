"""Reads the training steps of a loaderd daemon: packed and shuffled rows of tokens.

Steps are the same on every rank and after every restart. `Client` returns numpy arrays; `loaderd.torch` returns
tensors; `publish` sends documents; `serve` runs a private daemon.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from loaderd._allocator import keep_memory
from loaderd._client import Client
from loaderd._connection import TLS
from loaderd._prefetch import Prefetcher
from loaderd._serve import DaemonHandle, DaemonNotFoundError, serve
from loaderd._step import Part, Sources, Step
from loaderd._step_stream import StepStream
from loaderd._wire import MixtureChange, Phase, RunInfo, RunLength, RunStatus, SourceCount
from loaderd.errors import (
    CauseUnknownError,
    ClosedClientError,
    DocumentLostError,
    DocumentsFilteredError,
    DuplicateRankError,
    ForbiddenError,
    ForkedClientError,
    IdleReaderError,
    InternalError,
    InvalidTicketError,
    InvalidTokenError,
    LimitedError,
    LoaderdError,
    NotLeadingError,
    PlanForeignError,
    PlanLogDownError,
    PlanMismatchError,
    PlanTruncatedError,
    PoolFillingError,
    ProtocolError,
    RankBehindError,
    RankMissingError,
    ReplacedError,
    ReplayingError,
    RunFailedError,
    RunMismatchError,
    RunReplacedError,
    ShuttingDownError,
    SlowReaderError,
    SourceDownError,
    SourceDryError,
    StepNotPlannedError,
    StepPurgedError,
    StorageDownError,
    StorageFullError,
    StreamFullError,
    StreamMismatchError,
    TokenizerBehindError,
    TooManySegmentsError,
    UnavailableError,
    UnreachableError,
    UnsupportedError,
    WorldConflictError,
    WorldMismatchError,
)

if TYPE_CHECKING:
    from loaderd.producer import (
        Chat,
        Documents,
        DocumentTooLargeError,
        InputChangedError,
        InvalidDocumentError,
        NotAcceptedError,
        NotPermittedError,
        Published,
        Publisher,
        PublishError,
        RunIntake,
        StreamNotFoundError,
        apublish,
        documents,
        publish,
    )

__all__ = [
    "TLS",
    "CauseUnknownError",
    "Chat",
    "Client",
    "ClosedClientError",
    "DaemonHandle",
    "DaemonNotFoundError",
    "DocumentLostError",
    "DocumentTooLargeError",
    "Documents",
    "DocumentsFilteredError",
    "DuplicateRankError",
    "ForbiddenError",
    "ForkedClientError",
    "IdleReaderError",
    "InputChangedError",
    "InternalError",
    "InvalidDocumentError",
    "InvalidTicketError",
    "InvalidTokenError",
    "LimitedError",
    "LoaderdError",
    "MixtureChange",
    "NotAcceptedError",
    "NotLeadingError",
    "NotPermittedError",
    "Part",
    "Phase",
    "PlanForeignError",
    "PlanLogDownError",
    "PlanMismatchError",
    "PlanTruncatedError",
    "PoolFillingError",
    "Prefetcher",
    "ProtocolError",
    "PublishError",
    "Published",
    "Publisher",
    "RankBehindError",
    "RankMissingError",
    "ReplacedError",
    "ReplayingError",
    "RunFailedError",
    "RunInfo",
    "RunIntake",
    "RunLength",
    "RunMismatchError",
    "RunReplacedError",
    "RunStatus",
    "ShuttingDownError",
    "SlowReaderError",
    "SourceCount",
    "SourceDownError",
    "SourceDryError",
    "Sources",
    "Step",
    "StepNotPlannedError",
    "StepPurgedError",
    "StepStream",
    "StorageDownError",
    "StorageFullError",
    "StreamFullError",
    "StreamMismatchError",
    "StreamNotFoundError",
    "TokenizerBehindError",
    "TooManySegmentsError",
    "UnavailableError",
    "UnreachableError",
    "UnsupportedError",
    "WorldConflictError",
    "WorldMismatchError",
    "apublish",
    "documents",
    "keep_memory",
    "publish",
    "serve",
]

_PRODUCER = frozenset(
    [
        "InvalidDocumentError",
        "Chat",
        "Documents",
        "DocumentTooLargeError",
        "InputChangedError",
        "StreamNotFoundError",
        "NotAcceptedError",
        "NotPermittedError",
        "Published",
        "Publisher",
        "PublishError",
        "RunIntake",
        "apublish",
        "documents",
        "publish",
    ]
)


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
