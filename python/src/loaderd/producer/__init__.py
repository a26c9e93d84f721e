"""Publishes documents to the daemon's stream, with nats-py (docs/how-to/publish-python.md)."""

from loaderd.producer._chat import Chat
from loaderd.producer._dataset import Documents, documents
from loaderd.producer._errors import (
    DocumentTooLargeError,
    InputChangedError,
    InvalidDocumentError,
    NotAcceptedError,
    NotPermittedError,
    PublishError,
    StreamNotFoundError,
)
from loaderd.producer._pipeline import Published
from loaderd.producer._publisher import Publisher, apublish, publish
from loaderd.producer._stream_readers import RunIntake

__all__ = [
    "Chat",
    "DocumentTooLargeError",
    "Documents",
    "InputChangedError",
    "InvalidDocumentError",
    "NotAcceptedError",
    "NotPermittedError",
    "PublishError",
    "Published",
    "Publisher",
    "RunIntake",
    "StreamNotFoundError",
    "apublish",
    "documents",
    "publish",
]
