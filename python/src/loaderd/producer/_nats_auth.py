"""The producer's credentials for the server inside a daemon.

They are the token of producers, which a daemon on this machine stores in its data folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import SplitResult, urlsplit

from loaderd._local_auth import data_folder, mac, read_token, unpadded

USER = "producer"
NONCE_BYTES = 8
"""The shortest nonce that is signed."""


def find_login(servers: Iterable[str]) -> tuple[str, str] | None:
    """Returns user and password for one of these servers.

    Returns None if none of them is that of the data folder, or its token is not readable for this user.
    """
    folder = data_folder()
    try:
        held = urlsplit(json.loads((folder / "lock").read_text()).get("nats") or "")
        if not any(_same(held, urlsplit(server)) for server in servers):
            return None
        return USER, read_token(folder, "producer.token")
    except (OSError, ValueError, AttributeError):
        return None


def is_token(secret: str | None) -> bool:
    """Reports whether a secret is a token of the server inside a daemon."""
    return (secret or "").startswith(("producer_", "operator_"))


def signed(user: str, token: str) -> dict[str, Any]:
    """Returns arguments of nats.connect that prove possession of a token without sending it.

    The proof is a MAC of the server's nonce (internal/auth/nonce.go).
    """

    def sign(nonce: str) -> bytes:
        if len(nonce) < NONCE_BYTES:
            return b""
        return unpadded(mac(token, "loaderd nats\0" + nonce)).encode()

    return {"user": user, "password": None, "token": None, "signature_cb": sign}


def _same(announced: SplitResult, server: SplitResult) -> bool:
    """Reports whether a server has the announced address.

    Another process may listen on another loopback address of the port, and forward the server's nonce to have it
    signed.
    """
    return announced.port is not None and (announced.hostname, announced.port) == (server.hostname, server.port or 4222)
