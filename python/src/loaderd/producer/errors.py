"""What can go wrong while documents are published. A server that cannot be reached is `loaderd.errors.Unreachable`."""

from __future__ import annotations

from loaderd.errors import LoaderdError


class PublishError(LoaderdError):
    """Publishing ended: the server refused for good, or waiting lasted longer than `patience`. What was confirmed stays."""

    reason = "PUBLISH"


class NoStream(PublishError):
    """No stream takes documents of this subject, by an answer of JetStream with a leader.

    The daemon, which makes the stream, has never run there, or names its stream otherwise.
    """

    reason = "NO_STREAM"


class NotPermitted(PublishError):
    """The server refuses these credentials."""

    reason = "FORBIDDEN"


class NotAccepted(PublishError):
    """Every run over the stream would reject the documents: token ids of another tokenizer, or texts for a run that takes ids alone. None is published."""

    reason = "NOT_ACCEPTED"


class InputChanged(PublishError):
    """An input of this name is in the stream already, and its last document there is not the one that now stands in that place."""

    reason = "INPUT_CHANGED"


class BadDocument(PublishError, ValueError):
    """Something that cannot be a document: of another type, with unknown keys, tokens that are no int32 ids. Nothing of it was sent."""

    reason = "BAD_DOCUMENT"


class DocumentTooLarge(BadDocument):
    """A document larger than one message of the stream may be; `facts` has `document`, `bytes` and `limit`. Split it."""

    reason = "DOCUMENT_TOO_LARGE"
