"""Publishes documents to the daemon's stream, with nats-py (docs/producers.md)."""

from loaderd.producer._stream_readers import RunIntake
from loaderd.producer._chat import Chat
from loaderd.producer._dataset import Documents, documents
from loaderd.producer._errors import (
    InvalidDocumentError,
    DocumentTooLargeError,
    InputChangedError,
    StreamNotFoundError,
    NotAcceptedError,
    NotPermittedError,
    PublishError,
)
from loaderd.producer._pipeline import Published
from loaderd.producer._publisher import Publisher, apublish, publish

__all__ = [
    "InvalidDocumentError",
    "Chat",
    "DocumentTooLargeError",
    "Documents",
    "InputChangedError",
    "StreamNotFoundError",
    "NotAcceptedError",
    "NotPermittedError",
    "PublishError",
    "Published",
    "Publisher",
    "RunIntake",
    "apublish",
    "documents",
    "publish",
]
