"""The agreement of a job's ranks about another world size."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from loaderd.errors import ClosedClientError, LoaderdError, ProtocolError, RankMissingError

log = logging.getLogger("loaderd")

_FIRST_POLL, _LONGEST_POLL = 0.02, 0.5  # seconds between two requests
_LOG_SECONDS = 10.0


def agree(
    request: Callable[..., dict[str, Any]], body: Mapping[str, Any], timeout: float, stop: threading.Event
) -> None:
    """Requests a world size until all of its ranks have requested it.

    Args:
        request: Calls the action with a body.
        body: The rank, world size and step.
        timeout: Seconds to wait for the other ranks.
        stop: Ends the wait.

    Raises:
        RankMissingError: If a rank has not requested it in time.
        WorldConflictError: If another rank requests something else.
        ClosedClientError: If `stop` is set.
    """
    body = {**body, "request_id": uuid.uuid4().hex}  # a later call for the same world size begins anew
    began, poll = time.monotonic(), _FIRST_POLL
    logged = began
    while True:
        found = request(**body)
        if found.get("agreed") is True:
            return
        message = _wait_of(body, found)
        now = time.monotonic()
        if now - began >= timeout:
            if _withdraw(request, body):  # the last rank has joined meanwhile
                return
            raise RankMissingError(
                f"{message}, {now - began:.0f} s: call resize with this step and world size on each of its ranks",
                facts={"world": str(body["world"]), "step": str(body["step"]), "rank": _ranks(found)},
            )
        if now - logged >= _LOG_SECONDS:
            logged = now
            log.warning("%s, %.0f s", message, now - began)
        if stop.wait(min(poll, max(0.0, began + timeout - now))):
            raise ClosedClientError("the client is closed")
        poll = min(2 * poll, _LONGEST_POLL)


def _withdraw(request: Callable[..., dict[str, Any]], body: Mapping[str, Any]) -> bool:
    """Withdraws the request. Returns True if all ranks have agreed before."""
    try:
        return request(**body, left=True).get("agreed") is True
    except LoaderdError as error:
        log.debug("cannot withdraw the request for another world size: %s", error)
        return False


def _ranks(found: Mapping[str, Any]) -> str:
    missing, count = found.get("missing"), found.get("missing_count")
    if not isinstance(missing, list) or type(count) is not int:
        raise ProtocolError(f"result of resize: {dict(found)}")
    more = f" and {count - len(missing)} more" if count > len(missing) else ""
    return ", ".join(map(str, missing)) + more


def _wait_of(body: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Returns what the rank waits for."""
    ranks = _ranks(found)
    name = "ranks" if found["missing_count"] > 1 else "rank"
    verb = "have" if found["missing_count"] > 1 else "has"
    refused = f" ({found['refused']})" if found.get("refused") else ""
    return (
        f"{name} {ranks} of {body['world']} {verb} not agreed on the world size {body['world']} from step "
        f"{body['step']}{refused}"
    )
