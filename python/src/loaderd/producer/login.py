"""Who publishes to the server inside a daemon: the token of producers, which a daemon of this machine keeps in its data folder."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

USER = "producer"
NONCE_BYTES = 8
"""The shortest nonce that is signed."""


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


def is_token(secret: str | None) -> bool:
    """Whether a secret is a token of the server inside a daemon."""
    return (secret or "").startswith(("producer_", "operator_"))


def signed(user: str, token: str) -> dict[str, Any]:
    """Arguments of nats.connect that prove a token without sending it: a MAC of the server's nonce (internal/access/nonce.go)."""

    def sign(nonce: str) -> bytes:
        if len(nonce) < NONCE_BYTES:
            return b""
        mac = hmac.new(hashlib.sha256(token.encode()).digest(), b"loaderd nats\0" + nonce.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(mac).rstrip(b"=")

    return {"user": user, "password": None, "token": None, "signature_cb": sign}


def _same(a: SplitResult, b: SplitResult) -> bool:
    return a.port is not None and a.port == (b.port or 4222) and (a.hostname == b.hostname or _loopback(a.hostname) and _loopback(b.hostname))


def _loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
