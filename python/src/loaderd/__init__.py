"""Reads the training steps of a loaderd daemon: packed and shuffled rows of tokens.

Steps are the same on every rank and after every restart. `Client` returns numpy arrays; `loaderd.torch` returns
tensors; `publish` sends documents; `serve` runs a daemon for the duration of a `with` block.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from loaderd._client import Client
from loaderd._connection import TLS
from loaderd.errors import (
    InvalidTicketError,
    InvalidTokenError,
    CauseUnknownError,
    ClosedClientError,
    DocumentLostError,
    DuplicateRankError,
    ForbiddenError,
    ForkedClientError,
    InternalError,
    LimitedError,
    LoaderdError,
    NotLeadingError,
    PlanLogDownError,
    PlanForeignError,
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
    IdleReaderError,
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
    WorldMismatchError,
)
from loaderd._allocator import keep_memory
from loaderd._prefetch import Prefetcher
from loaderd._step_stream import StepStream
from loaderd._serve import DaemonNotFoundError, DaemonHandle, serve
from loaderd._step import Part, Sources, Step
from loaderd._wire import MixtureChange, RunInfo, RunLength, RunStatus, SourceCount

if TYPE_CHECKING:
    from loaderd.producer import (
        InvalidDocumentError,
        Chat,
        Documents,
        DocumentTooLargeError,
        InputChangedError,
        StreamNotFoundError,
        NotAcceptedError,
        NotPermittedError,
        Published,
        Publisher,
        PublishError,
        RunIntake,
        apublish,
        documents,
        publish,
    )

__all__ = [
    "TLS",
    "InvalidDocumentError",
    "InvalidTicketError",
    "InvalidTokenError",
    "CauseUnknownError",
    "Chat",
    "Client",
    "ClosedClientError",
    "DocumentLostError",
    "DocumentTooLargeError",
    "Documents",
    "DuplicateRankError",
    "ForbiddenError",
    "ForkedClientError",
    "InputChangedError",
    "InternalError",
    "LimitedError",
    "LoaderdError",
    "MixtureChange",
    "DaemonNotFoundError",
    "StreamNotFoundError",
    "NotAcceptedError",
    "NotLeadingError",
    "NotPermittedError",
    "Part",
    "PlanLogDownError",
    "PlanForeignError",
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
    "DaemonHandle",
    "ShuttingDownError",
    "IdleReaderError",
    "SlowReaderError",
    "SourceDownError",
    "SourceCount",
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
    "TokenizerBehindError",
    "TooManySegmentsError",
    "UnavailableError",
    "UnreachableError",
    "UnsupportedError",
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
