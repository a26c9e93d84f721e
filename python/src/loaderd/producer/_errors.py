"""Errors of publishing.

A server that cannot be reached is `loaderd.errors.UnreachableError`.
"""

from __future__ import annotations

from loaderd.errors import LoaderdError


class PublishError(LoaderdError):
    """Publishing ended: the server returned a permanent error, or a wait exceeded `timeout`.

    Confirmed documents stay stored.
    """

    reason = "PUBLISH"


class StreamNotFoundError(PublishError):
    """No stream accepts documents of this subject, according to a JetStream with a leader.

    The daemon, which creates the stream, has never run there, or uses another stream name.
    """

    reason = "NO_STREAM"


class NotPermittedError(PublishError):
    """The server rejects these credentials."""

    reason = "FORBIDDEN"


class NotAcceptedError(PublishError):
    """Every run over the stream would reject the documents; none is published.

    They are token ids of another tokenizer, or texts for a run that accepts only ids.
    """

    reason = "NOT_ACCEPTED"


class InputChangedError(PublishError):
    """The stream already has an input of this name, with another document at the last position that it has."""

    reason = "INPUT_CHANGED"


class InvalidDocumentError(PublishError, ValueError):
    """An invalid document: of another type, with unknown keys, or with tokens that are not int32 ids.

    Nothing of it was sent.
    """

    reason = "BAD_DOCUMENT"


class DocumentTooLargeError(InvalidDocumentError):
    """A document that exceeds the maximum message size of the stream; `facts` has `document`, `bytes` and `limit`.

    Split it.
    """

    reason = "DOCUMENT_TOO_LARGE"
