"""Who publishes to the server inside a daemon: the token of producers, which a daemon of this machine keeps in its data folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import SplitResult, urlsplit

from loaderd.local import data_folder, mac, read_token, unpadded

USER = "producer"
NONCE_BYTES = 8
"""The shortest nonce that is signed."""


def find_login(servers: Iterable[str]) -> tuple[str, str] | None:
    """User and password for one of these servers; None where none of them is that of the data folder, or its token is not for us."""
    folder = data_folder()
    try:
        held = urlsplit(json.loads((folder / "lock").read_text()).get("nats") or "")
        if not any(_same(held, urlsplit(server)) for server in servers):
            return None
        return USER, read_token(folder, "producer.token")
    except (OSError, ValueError, AttributeError):
        return None


def is_token(secret: str | None) -> bool:
    """Whether a secret is a token of the server inside a daemon."""
    return (secret or "").startswith(("producer_", "operator_"))


def signed(user: str, token: str) -> dict[str, Any]:
    """Arguments of nats.connect that prove a token without sending it: a MAC of the server's nonce (internal/auth/nonce.go)."""

    def sign(nonce: str) -> bytes:
        if len(nonce) < NONCE_BYTES:
            return b""
        return unpadded(mac(token, "loaderd nats\0" + nonce)).encode()

    return {"user": user, "password": None, "token": None, "signature_cb": sign}


def _same(announced: SplitResult, server: SplitResult) -> bool:
    """Whether a server has the announced address. Another loopback address of the port may be that of another process, which would pass the
    server's nonce on to be signed."""
    return announced.port is not None and (announced.hostname, announced.port) == (server.hostname, server.port or 4222)
