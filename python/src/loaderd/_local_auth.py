"""The data folder of a daemon on this machine: its user's tokens, and calls that are signed with one of them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import os
import time
from pathlib import Path
from urllib.parse import urlsplit

FLIGHT_TOKEN = "flight.token"
"""The file with the token for Flight and HTTP, if the daemon has neither identities nor a token file."""


MAC_BYTES = 16


def data_folder() -> Path:
    """Returns the default data folder of a daemon, which a file or flags can override."""
    return Path(os.environ.get("LOADERD_STREAM__DIR") or "loaderd-data")


def is_loopback(host: str | None) -> bool:
    """Reports whether a host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def read_token(folder: Path, name: str) -> str:
    """Reads a token of a data folder.

    Raises:
        OSError: If the file cannot be read.
    """
    return (folder / name).read_text().strip()


def mac(token: str, text: str) -> bytes:
    """Returns the MAC of a text, which proves possession of the token without sending it."""
    return hmac.new(hashlib.sha256(token.encode()).digest(), text.encode(), hashlib.sha256).digest()


def unpadded(data: bytes) -> str:
    """Returns Base64 with the alphabet of URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(token: str, purpose: str, address: str, now: float) -> str:
    """Returns a signature that proves possession of a token to a daemon on this machine (internal/auth/sign.go).

    Args:
        token: The token, which is not part of the signature.
        purpose: What the signature is for, such as "call".
        address: The daemon's address, host:port.
        now: The time in seconds since 1970.
    """
    stamp = f"{int(now * 1e6):x}"
    text = "\0".join((f"loaderd {purpose}", address, stamp))
    return f"{stamp}.{unpadded(mac(token, text)[:MAC_BYTES])}"


class LocalCaller:
    """Calls one daemon on this machine, as the user whose data folder has its token."""

    def __init__(self, folder: Path, url: str) -> None:
        """Creates a caller of the daemon at a URL.

        Args:
            folder: The data folder, whose token is read for each call.
            url: The address of the daemon.

        Raises:
            ValueError: If the URL is of another machine.
        """
        parts = urlsplit(url)
        if not is_loopback(parts.hostname) or not parts.port:
            raise ValueError(f"{url} is not on this machine")
        # Another process may listen at the other address of localhost.
        host = "127.0.0.1" if parts.hostname == "localhost" else str(ipaddress.ip_address(parts.hostname or ""))
        self.address = f"[{host}]:{parts.port}" if ":" in host else f"{host}:{parts.port}"
        self._folder = folder.absolute()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Returns the headers of a call that is made now.

        They are empty without a token, which a daemon that starts later may create.
        """
        try:
            token = read_token(self._folder, FLIGHT_TOKEN)
        except (OSError, ValueError):
            return []
        return [(b"authorization", b"Loaderd " + sign(token, "call", self.address, time.time()).encode())]


def local_caller(folder: Path, url: str) -> LocalCaller | None:
    """Returns a caller of the daemon at a URL, or None for another machine."""
    try:
        return LocalCaller(folder, url)
    except ValueError:
        return None
