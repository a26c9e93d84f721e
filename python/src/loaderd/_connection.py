"""A connection to one daemon: the Flight channel, and its errors as exceptions of this package."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from loaderd import _fork_safety
from loaderd._grpc_status import decode
from loaderd._local_auth import data_folder, local_caller
from loaderd._wire import RunInfo, Ticket, loads
from loaderd.errors import (
    ClosedClientError,
    ForkedClientError,
    InvalidTicketError,
    InvalidTokenError,
    LoaderdError,
    ProtocolError,
    from_status,
)

T = TypeVar("T")

# Pings detect a hanging peer, or a path that drops all packets, within KEEPALIVE + PING_TIMEOUT. The daemon closes
# connections that ping more often than every 10 s.
KEEPALIVE_MS = 12_000
PING_TIMEOUT_MS = 8_000
MAX_ACTION_BYTES = 63 << 10
"""Largest body of an action; a daemon rejects larger messages."""


def _options() -> list[tuple[str, int]]:
    return [
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.min_reconnect_backoff_ms", 5_000),  # despite its name: the limit of one connection attempt
        ("grpc.use_local_subchannel_pool", 1),
    ]


class ConnectionLostError(LoaderdError):
    """The transport failed without a status: no daemon listens, or the connection broke."""

    reason = "LOST"


class CallTimeoutError(ConnectionLostError):
    """No answer arrived within the timeout."""


@dataclass(frozen=True)
class TLS:
    """What TLS needs in addition to the system's authorities: PEM as bytes, or the path of a file.

    Attributes:
        ca: The authorities of the daemon's certificate.
        cert: The client's own certificate, for a daemon that requires one.
        key: The key of `cert`.
        server_name: The name in the daemon's certificate, if it differs from the host of the URL.
    """

    ca: str | Path | bytes | None = None
    cert: str | Path | bytes | None = None
    key: str | Path | bytes | None = None
    server_name: str | None = None

    def _arguments(self) -> dict[str, Any]:
        read = {"tls_root_certs": self.ca, "cert_chain": self.cert, "private_key": self.key}
        found: dict[str, Any] = {
            k: v if isinstance(v, bytes) else Path(v).read_bytes() for k, v in read.items() if v is not None
        }
        return found | ({"override_hostname": self.server_name} if self.server_name else {})


def normalize_url(url: str, tls: bool = False) -> str:
    """Returns an address as grpc://host:port, or as grpc+tls://host:port.

    Args:
        url: The address, whose scheme may be omitted.
        tls: Whether an address without a scheme uses TLS.

    Raises:
        ValueError: If `url` is not an address of a daemon.
    """
    scheme, _, address = url.rpartition("://")
    if scheme not in ("", "grpc", "grpc+tcp", "grpc+tls") or not address:
        raise ValueError(f"url {url!r}: want grpc://host:port or grpc+tls://host:port")
    return f"{'grpc+tls' if tls or scheme == 'grpc+tls' else 'grpc'}://{address.rstrip('/')}"


def is_secure(url: str) -> bool:
    """Reports whether a normalized address uses TLS."""
    return url.startswith("grpc+tls://")


class Connection:
    """Calls one daemon over Flight, without retries.

    It connects on the first call and reconnects after a loss. It is safe for use by several threads.
    """

    def __init__(
        self, url: str, *, token: str | None = None, tls: TLS | None = None, folder: Path | None = None
    ) -> None:
        """Creates a connection, which connects on the first call.

        Args:
            url: grpc://host:port, or grpc+tls://host:port for TLS, which `tls` implies.
            token: The daemon's bearer token. Without it, calls to this machine are signed with the token of `folder`.
            tls: What TLS needs in addition to the system's authorities.
            folder: A data folder, which may have a token.
        """
        self.url = normalize_url(url, tls is not None)
        self.secure = is_secure(self.url)
        if _fork_safety.forked_after_use():
            raise ForkedClientError(
                "cannot create a client in a process that was forked after a client had been created: "
                "fork before the first client is created, or start processes with spawn or forkserver"
            )
        self._bearer = [(b"authorization", b"Bearer " + token.encode())] if token else []
        self._local = None if token else local_caller(folder or data_folder(), self.url)
        # With TLS the certificate identifies the daemon, so the address is not replaced.
        self._location = self.url if self.secure or self._local is None else f"grpc://{self._local.address}"
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._arguments = {"generic_options": _options(), **(tls._arguments() if tls else {})}
        self._client: Any = self._connect()
        self.plan: str | None = None  # fingerprint of the plan of the current daemon; None: unknown
        self.run_id = ""  # id of its run; empty: unknown, or the run has not begun

    def check_fork(self) -> None:
        """Checks that this process was not forked after the connection was created: calls would hang there.

        Raises:
            ForkedClientError: If it was.
        """
        if os.getpid() != self._pid:
            raise ForkedClientError(
                f"cannot use the client of {self.url}: it was created before the process was forked; create it in the "
                "child process"
            )

    def act(self, name: str, body: Mapping[str, Any], timeout: float) -> list[dict[str, Any]]:
        """Calls an action of the daemon.

        Args:
            name: The name of the action.
            body: Its arguments; values of None are omitted.
            timeout: The time limit in seconds.

        Returns:
            The results of the action, decoded from JSON.

        Raises:
            InvalidTicketError: If the arguments are larger than a daemon accepts.
            ConnectionLostError: If the transport fails.
            LoaderdError: If the daemon returns an error.
        """
        client = self._opened()
        encoded = json.dumps({k: v for k, v in body.items() if v is not None}).encode()
        if len(encoded) > MAX_ACTION_BYTES:
            raise InvalidTicketError(
                f"action {name}: its body has {len(encoded)} bytes, at most {MAX_ACTION_BYTES} are possible"
            )
        action = flight.Action(name, encoded)
        options = flight.FlightCallOptions(timeout=timeout, headers=self._headers())
        try:
            return [loads(r.body.to_pybytes(), f"result of {name}") for r in client.do_action(action, options)]
        except FAILURES as error:
            raise self._failed(client, error) from None

    def info(self, run: str | None, timeout: float) -> RunInfo:
        """Returns the description of the run."""
        results = self.act("info", {"run": run}, timeout)
        if len(results) != 1:
            raise ProtocolError(f"{len(results)} results of info, want 1")
        info = RunInfo.decode(results[0])
        self.plan, self.run_id = info.fingerprint, info.run_id
        return info

    def ping(self, timeout: float) -> None:
        """Checks that the daemon answers within `timeout` seconds. Any answer suffices, including an error.

        Raises:
            ConnectionLostError: If no answer arrives.
        """
        try:
            self.act("info", {}, timeout)
        except ConnectionLostError:
            raise
        except LoaderdError:
            pass

    def read(self, ticket: Ticket) -> Opening:
        """Opens the stream of a ticket."""
        client = self._opened()
        options = flight.FlightCallOptions(headers=self._headers())

        def open() -> Any:
            try:
                return _fork_safety.register_transport(client.do_get(flight.Ticket(ticket.encode()), options))
            except FAILURES as error:
                raise self._failed(client, error) from None

        return Opening(
            open, lambda: self._failed(client, flight.FlightTimedOutError("did not receive the stream's schema"))
        )

    def close(self) -> None:
        """Closes the connection permanently.

        The channel is freed after the last call on it. FlightClient.close is not called because it frees memory that a
        call of another thread may use.
        """
        if os.getpid() == self._pid:
            with self._lock:
                self._client = None

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return self._bearer if self._local is None else self._local.headers()

    def _connect(self) -> Any:
        return _fork_safety.register_transport(flight.FlightClient(self._location, **self._arguments))

    def _failed(self, client: Any, error: Exception) -> LoaderdError:
        """Returns the error of a call.

        A failed channel is replaced: it would keep a broken connection, or wait before it reconnects, for longer than
        this client does.
        """
        if self._client is None:  # closed during the call
            return ClosedClientError(f"the client of {self.url} is closed")
        cause = translate(error)
        if isinstance(cause, ConnectionLostError):
            self.plan = None  # the next daemon at this address may have another plan
            with self._lock:
                if self._client is client:
                    self._client = self._connect()
        return cause

    def _opened(self) -> Any:
        self.check_fork()
        client = self._client
        if client is None:
            raise ClosedClientError(f"the client of {self.url} is closed")
        return client


FAILURES = (flight.FlightError, pa.ArrowException, OSError)
"""Exceptions that pyarrow raises when a call fails."""


def translate(error: Exception) -> LoaderdError:
    """Returns the exception of a failed call.

    The gRPC status in the error is more specific than pyarrow's exceptions.
    """
    status = decode(getattr(error, "extra_info", None))
    if status is not None and status.reason:
        return from_status(status)
    if isinstance(error, (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)):
        return InvalidTokenError(str(error))
    if isinstance(error, flight.FlightTimedOutError):
        return CallTimeoutError(str(error))
    if isinstance(error, (flight.FlightError, OSError)):
        return ConnectionLostError(str(error))
    return ProtocolError(f"{type(error).__name__}: {error}")


class Opening:
    """A stream that a thread opens.

    pyarrow waits for the schema without a timeout, and only a transport failure ends that wait.
    """

    def __init__(self, open: Callable[[], Any], late: Callable[[], LoaderdError]) -> None:
        self._reader: Future[Any] = Future()
        self._late = late
        threading.Thread(target=self._run, args=(open,), name="loaderd-open", daemon=True).start()

    def reader(self, timeout: float) -> Any:
        """Returns the FlightStreamReader within `timeout` seconds.

        Raises:
            ConnectionLostError: If the stream is not open in time, or after `cancel()`.
            LoaderdError: If the daemon returns an error.
        """
        try:
            return self._reader.result(timeout)
        except FutureTimeout:
            if not self._reader.cancel():
                return self._reader.result()  # it opened just in time
            raise self._late() from None
        except CancelledError:
            raise ConnectionLostError("the stream was cancelled before it was open") from None
        finally:
            self._reader.cancel()  # an interrupt of the wait

    def cancel(self) -> None:
        """Abandons the attempt, from any thread.

        A stream that opens afterwards is cancelled.
        """
        self._reader.cancel()

    def _run(self, open: Callable[[], Any]) -> None:
        opened, error = None, None
        try:
            opened = open()
        except BaseException as e:  # passed on to the waiting caller
            error = e
        if not self._reader.set_running_or_notify_cancel():
            if opened is not None:
                opened.cancel()
        elif error is not None:
            self._reader.set_exception(error)
        else:
            self._reader.set_result(opened)


def call_interruptibly(call: Callable[[], T]) -> T:
    """Returns the result of a call that ignores Ctrl-C.

    The call runs in a thread, and Ctrl-C interrupts the wait for it.
    """
    return _start_call(call).result()


def call_with_probes(call: Callable[[], T], alive: Callable[[], None], interval: float) -> T:
    """Returns the result of a call that may never return if the peer is gone.

    Meanwhile `alive` is called every `interval` seconds and raises if the peer is gone.
    """
    done = _start_call(call)
    while True:
        try:
            return done.result(interval)
        except FutureTimeout:
            if done.done():
                return done.result()
            alive()


def _start_call(call: Callable[[], T]) -> Future[T]:
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="loaderd-call", daemon=True).start()
    return done
