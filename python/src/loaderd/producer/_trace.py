"""Selects the documents to trace, and their traces: W3C trace context (docs/how-to/monitor.md#traces)."""

from __future__ import annotations

import random
import secrets
import sys

TRACE = "traceparent"
"""The header."""


def traceparent(share: float) -> str | None:
    """Returns the trace context of a document, None for one that is not sampled.

    It is that of the caller's current span if OpenTelemetry is in use and samples that span, else a new trace.
    """
    if random.random() >= share:
        return None
    return _current() or f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def check_share(share: float) -> float:
    """Returns a share.

    Raises:
        ValueError: If it is not from 0 to 1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"trace={share!r}: want the share of the documents that are traced, 0 to 1")
    return share


def _current() -> str | None:
    api = sys.modules.get("opentelemetry.trace")  # a caller that has not imported it has no span
    if api is None:
        return None
    span = api.get_current_span().get_span_context()
    if not span.is_valid or not span.trace_flags.sampled:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-01"
