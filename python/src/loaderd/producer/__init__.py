"""Publishes documents to the daemon's stream, with nats-py (docs/producers.md)."""

from loaderd.producer.audience import RunIntake
from loaderd.producer.chat import Chat
from loaderd.producer.dataset import Documents, documents
from loaderd.producer.errors import BadDocument, DocumentTooLarge, InputChanged, NoStream, NotAccepted, NotPermitted, PublishError
from loaderd.producer.line import Published
from loaderd.producer.publisher import Publisher, apublish, publish

__all__ = [
    "BadDocument", "Chat", "DocumentTooLarge", "Documents", "InputChanged", "NoStream", "NotAccepted", "NotPermitted", "PublishError",
    "Published", "Publisher", "RunIntake", "apublish", "documents", "publish",
]  # fmt: skip
