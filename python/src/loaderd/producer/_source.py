"""The origin of documents: the name of a source, and the tokenizer of tokens."""

from __future__ import annotations

import importlib
import importlib.util
import re

_SOURCE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_source(source: str) -> None:
    """Checks the name of a source.

    Raises:
        ValueError: If it is invalid.
    """
    if not isinstance(source, str) or not _SOURCE.fullmatch(source):
        raise ValueError(f"source {source!r}: want 1 to 64 letters, digits, - and _")


def fingerprint_of(tokenizer: object) -> str | None:
    """Returns a fingerprint unchanged, and the fingerprint of a tokenizer object."""
    if tokenizer is None or isinstance(tokenizer, str):
        return tokenizer
    return str(importlib.import_module("loaderd.fingerprint").fingerprint(tokenizer))


def require_nats(keys: bool) -> None:
    """Checks that the packages for publishing are installed.

    Args:
        keys: Whether credentials or NKeys are used.

    Raises:
        ImportError: If a package is missing; the message states what to install.
    """
    if importlib.util.find_spec("nats") is None:
        raise ImportError("publishing requires the package nats-py: pip install nats-py", name="nats")
    if keys and importlib.util.find_spec("nkeys") is None:
        raise ImportError("credentials and NKeys require the package nkeys: pip install 'nats-py[nkeys]'", name="nkeys")
