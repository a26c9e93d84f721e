"""Errors of inputs."""

from __future__ import annotations

from loaderd.errors import LoaderdError


class FileError(LoaderdError):
    """A file cannot be read: it does not exist, is damaged, or has another format."""

    reason = "BAD_FILE"
