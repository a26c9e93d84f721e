"""Who publishes to the server inside a daemon on this machine: the token that the daemon keeps for producers in its data folder."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

USER = "producer"


def data_folder() -> Path:
    """Where a daemon keeps its data, unless it was told otherwise in a file or by flags."""
    return Path(os.environ.get("LOADERD_STREAM__DIR") or "loaderd-data")


def find_login(servers: Iterable[str]) -> tuple[str, str] | None:
    """User and password for one of these servers; None where none of them is that of the data folder, or its token is not for us."""
    folder = data_folder()
    try:
        held = urlsplit(json.loads((folder / "lock").read_text()).get("nats") or "")
        if not any(_same(held, urlsplit(server)) for server in servers):
            return None
        return USER, (folder / "producer.token").read_text().strip()
    except (OSError, ValueError, AttributeError):
        return None


def _same(a: SplitResult, b: SplitResult) -> bool:
    return a.port is not None and a.port == (b.port or 4222) and (a.hostname == b.hostname or _loopback(a.hostname) and _loopback(b.hostname))


def _loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
