"""The connection to NATS.

After a loss the caller reconnects explicitly, so that no message is buffered and sent later unnoticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from loaderd._connection import TLS
from loaderd._local_auth import data_folder
from loaderd.errors import UnreachableError
from loaderd.producer._errors import NotPermittedError, PublishError, StreamNotFoundError
from loaderd.producer._nats_auth import USER, find_login, is_token, signed

if TYPE_CHECKING:
    import nats.aio.client

T = TypeVar("T")

ATTEMPT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
BUSY = (429, 500, 503)
"""Codes of temporary errors. 503 without an error number: no server answers."""
NO_LEADER = 10008
"""Error number of a cluster without a leader, of JetStream or of a stream."""
GET_MESSAGES, GET_BYTES = 1000, 8 << 20
"""Maximum messages and bytes of one answer while a subject is read back."""
BEHIND_SECONDS = 2.0
"""Seconds that a server of a cluster may have nothing new before the others are queried, and they before the read is
restarted."""

_HEADERS_FRAME = len(b"NATS/1.0\r\n" + b"\r\n")
"""Bytes of the protocol before and after the lines of headers."""


class NatsConnectionError(Exception):
    """No answer: the connection is lost, or the server timed out.

    Whether the request took effect is unknown.
    """


class NatsRequestError(Exception):
    """The server answered with an error: the request had no effect."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.code = int(answer.get("code", 0))
        self.number = int(answer.get("err_code", 0))
        self.description = str(answer.get("description", ""))
        super().__init__(f"{self.description} ({self.number or self.code})")

    @property
    def leaderless(self) -> bool:
        """Whether JetStream answered that it has no leader: then no server of the cluster can list the streams."""
        return self.number == NO_LEADER


@dataclass(frozen=True)
class Access:
    """The servers' addresses and the caller's credentials."""

    url: str
    """NATS servers, separated by commas; nats:// or tls://, optionally with user:password@."""
    credentials: str | os.PathLike[str] | None = None
    nkey: str | os.PathLike[str] | None = None
    user: str | None = None
    password: str | None = None
    token: str | None = None
    tls: TLS | ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        for server in self.servers:
            parts = urlsplit(server)
            if parts.scheme in ("grpc", "grpc+tls", "grpc+tcp"):
                raise ValueError(
                    f"{self.shown} is an address of Flight: publish documents to NATS, by default nats://127.0.0.1:4222"
                )
            if parts.scheme not in ("nats", "tls", "ws", "wss") or not parts.hostname:
                raise ValueError(f"{self.shown} is not an address of NATS: want nats://host:port or tls://host:port")

    @property
    def servers(self) -> list[str]:
        """The addresses of the servers."""
        return [s if "://" in s else f"nats://{s}" for s in (s.strip() for s in self.url.split(",")) if s] or [""]

    @property
    def shown(self) -> str:
        """The servers without passwords."""
        return ", ".join(f"{s.partition('://')[0]}://{s.partition('://')[2].rpartition('@')[2]}" for s in self.servers)

    def options(self) -> dict[str, Any]:
        """Returns arguments of nats.connect.

        Tokens of the server inside a daemon are not sent.
        """
        token = self._token()
        return {
            "servers": [
                f"{s.partition('://')[0]}://{s.rpartition('@')[2]}" if token and "@" in s else s for s in self.servers
            ],
            "user_credentials": None if self.credentials is None else os.fspath(self.credentials),
            "nkeys_seed": None if self.nkey is None else os.fspath(self.nkey),
            "user": self.user,
            "password": self.password,
            "token": self.token,
            "tls": context(self.tls) if isinstance(self.tls, TLS) else self.tls,
            "tls_hostname": self.tls.server_name if isinstance(self.tls, TLS) else None,
            **(signed(*token) if token else {}),
        }

    def _token(self) -> tuple[str, str] | None:
        """Returns user and token for the server inside a daemon, from the arguments or the URL."""
        if is_token(secret := self.token or self.password):
            return self.user or USER, secret or ""
        for server in self.servers:
            parts = urlsplit(server)
            if is_token(secret := parts.password or parts.username):
                return (parts.username if parts.password else None) or USER, secret or ""
        return None

    def login(self) -> dict[str, Any]:
        """Returns additional arguments of nats.connect, to be determined for each connection.

        A daemon on this machine may start later, or with another token.
        """
        if any(x is not None for x in (self.credentials, self.nkey, self.user, self.token)) or "@" in self.url:
            return {}
        found = find_login(self.servers)
        return {} if found is None else signed(*found)


def context(tls: TLS) -> ssl.SSLContext:
    """Returns the context of Python's own TLS, which reads the client's certificate and key only from files."""
    if isinstance(tls.ca, bytes):  # in place of the system's authorities, as for Flight
        made = ssl.create_default_context(cadata=tls.ca.decode("ascii", "ignore"))
    else:
        made = ssl.create_default_context(cafile=tls.ca)
    if tls.cert is not None:
        if isinstance(tls.cert, bytes) or isinstance(tls.key, bytes):
            raise ValueError("cert and key are bytes: NATS requires their files")
        made.load_cert_chain(tls.cert, tls.key)
    return made


class Session:
    """One connection at a time.

    Its methods raise NatsConnectionError or NatsRequestError, and may then be retried after `reconnect`.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self._options = access.options()
        self._client: nats.aio.client.Client | None = None
        self._lost: asyncio.Future[None] | None = None

    async def first(self, seconds: float) -> None:
        """Connects for the first time.

        Raises:
            UnreachableError: If no server answers within `seconds`.
            NotPermittedError: If waiting cannot resolve the error.
        """
        deadline, wait = time.monotonic() + seconds, 0.1
        while True:
            try:
                return await self.reconnect()
            except NatsConnectionError as error:
                cause = error.__cause__
                if _final(cause):
                    raise NotPermittedError(
                        f"cannot connect to NATS at {self.access.shown}: {cause}: the server inside a daemon requires "
                        "token=, the content of producer.token"
                        f" in the daemon's data folder; the client reads it in {data_folder()} (LOADERD_STREAM__DIR) "
                        "if the lock file there has this address"
                    ) from cause
                if time.monotonic() + wait > deadline:
                    raise UnreachableError(
                        f"cannot connect to NATS at {self.access.shown}: no answer within {seconds:g} s: {error}:"
                        " check that the daemon is running (loaderd serve) and that this is its stream.listen address"
                    ) from cause
            await asyncio.sleep(wait)
            wait = min(2 * wait, 2.0)

    @property
    def connected(self) -> bool:
        """Whether the connection is open."""
        return (
            self._client is not None and self._client.is_connected and self._lost is not None and not self._lost.done()
        )

    async def reconnect(self) -> None:
        """Connects, and closes an old connection.

        Raises:
            NatsConnectionError: If the attempt fails.
        """
        import nats

        await self.close()
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        causes: list[Exception] = []

        async def closed() -> None:
            if not lost.done():
                lost.set_result(None)

        async def failed(error: Exception) -> None:
            causes.append(error)

        connect = nats.connect(
            name="loaderd",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=int(ATTEMPT_SECONDS),
            ping_interval=10,
            max_outstanding_pings=2,
            pending_size=0,
            closed_cb=closed,
            disconnected_cb=closed,
            error_cb=failed,
            **{**self._options, **self.access.login()},
        )
        try:
            client = await asyncio.wait_for(connect, 4 * ATTEMPT_SECONDS)
        except Exception as error:
            cause = causes[-1] if causes and type(error).__name__ == "NoServersError" else error
            raise NatsConnectionError(str(cause) or type(cause).__name__) from cause
        causes.clear()
        self._client, self._lost = client, lost

    async def close(self) -> None:
        """Closes the connection."""
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            with contextlib.suppress(OSError):  # of messages that were not sent yet
                await client.close()

    @property
    def max_payload(self) -> int:
        """Maximum message size of the server, headers included."""
        return self._live().max_payload

    async def send(self, subject: str, messages: Sequence[bytes]) -> None:
        """Sends messages without an answer, in one write, and waits while the server does not read.

        They are queued before it waits: a cancelled call has sent them.

        Args:
            subject: The subject of all messages.
            messages: The headers of each message, as lines of the protocol, each followed by its payload.

        Raises:
            NatsConnectionError: If the connection is lost, or the server does not read.
        """
        client = await self._queued(subject, messages)
        await self._unless_lost(client._flush_pending(force_flush=True), ANSWER_SECONDS)

    async def enqueue(self, subject: str, messages: Sequence[bytes]) -> None:
        """Sends messages as `send` does, and does not wait.

        Raises:
            NatsConnectionError: If the connection is lost.
        """
        client = await self._queued(subject, messages)
        await client._flush_pending()

    async def _queued(self, subject: str, messages: Sequence[bytes]) -> nats.aio.client.Client:
        """Queues messages in the client, which is returned; it never suspends."""
        parts: list[bytes] = []
        name = subject.encode()
        for lines, payload in zip(messages[::2], messages[1::2], strict=True):
            size = len(lines) + _HEADERS_FRAME
            parts.append(b"HPUB %b %d %d\r\nNATS/1.0\r\n%b\r\n" % (name, size, size + len(payload), lines))
            parts += (payload, b"\r\n")
        client = self._live()
        await client._send_command(b"".join(parts))  # publish would copy every message several times
        return client

    async def ask(self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Sends, and returns the answer in JSON.

        Raises:
            NatsConnectionError: If no answer arrives.
            NatsRequestError: If the server returns an error.
        """
        message = await self._request(subject, payload, headers)
        try:
            answer = json.loads(message.data)
        except ValueError:
            raise NatsConnectionError(f"answer {message.data[:100]!r} is not JSON") from None
        if not isinstance(answer, dict):
            raise NatsConnectionError(f"answer {message.data[:100]!r} is not an object")
        if isinstance(error := answer.get("error"), dict):
            raise NatsRequestError(error)
        return answer

    async def _request(self, subject: str, payload: bytes, headers: dict[str, str] | None) -> Any:
        import nats.errors

        try:
            return await self._unless_lost(
                self._live().request(subject, payload, timeout=ANSWER_SECONDS, headers=headers)
            )
        except nats.errors.NoRespondersError:
            raise NatsRequestError({"code": 503, "description": "no server responded"}) from None
        except nats.errors.Error as error:
            raise NatsConnectionError(str(error)) from error

    async def _unless_lost(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Returns the result of a wait for the server, which would not end when the connection is lost.

        Raises:
            NatsConnectionError: If the connection is lost, or after `timeout` seconds.
        """
        lost = self._lost
        assert lost is not None
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, lost), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise NatsConnectionError("the connection was lost" if lost.done() else "the server does not read")
            return task.result()
        finally:
            if not task.done():
                task.cancel()

    def _live(self) -> nats.aio.client.Client:
        if self._client is None or not self.connected:
            raise NatsConnectionError("the connection was lost")
        return self._client

    async def find_stream(self, subject: str) -> str:
        """Returns the name of the stream of a subject.

        Raises:
            StreamNotFoundError: If JetStream has a leader and no such stream exists.
        """
        try:
            names = (await self.ask("$JS.API.STREAM.NAMES", json.dumps({"subject": subject}).encode())).get("streams")
        except NatsRequestError as error:
            if error.code in BUSY:
                raise
            raise PublishError(f"cannot look up the stream of {subject}: {error}") from error
        if not names:
            raise StreamNotFoundError(
                f"no stream at {self.access.shown} has the subject {subject}: start the daemon (loaderd serve), which "
                "creates it, and check that"
                " url is its stream.listen or stream.url and that subject is its stream.subject"
            )
        return str(names[0])

    async def stream(self, name: str) -> dict[str, Any]:
        """Returns configuration and state of a stream."""
        return await self.ask(f"$JS.API.STREAM.INFO.{name}")

    async def last(self, stream: str, subject: str) -> tuple[int, dict[str, str]]:
        """Returns sequence and headers of the last message of a subject; 0 without any."""
        message = await self._request(f"$JS.API.DIRECT.GET.{stream}.{subject}", b"", None)
        return _direct(message)

    async def origin(self, stream: str, sequence: int) -> dict[str, str]:
        """Returns the headers of one message."""
        message = await self._request(f"$JS.API.DIRECT.GET.{stream}", json.dumps({"seq": sequence}).encode(), None)
        return dict(message.headers or {})

    async def value(self, stream: str, subject: str) -> tuple[str, str]:
        """Returns payload and time of the last message of a subject."""
        message = await self._request(f"$JS.API.DIRECT.GET.{stream}.{subject}", b"", None)
        return message.data.decode(), (message.headers or {})["Nats-Time-Stamp"]

    @property
    def clustered(self) -> bool:
        """Whether the servers are a cluster, in which one server's answer may lag behind the others."""
        return bool(self._live()._server_info.get("cluster"))

    async def headers(
        self, stream: str, subject: str, first: int, last: int, each: Callable[[int, dict[str, str]], None]
    ) -> None:
        """Calls `each` with sequence and headers of a subject's messages from `first` to `last`, in order.

        In a cluster any server may answer, and may lag: that it has no further messages is only a hint there. Another
        server is then queried for the next message, until the last message has arrived, or a later one.

        Raises:
            NatsConnectionError: If neither arrives: the message may have been deleted meanwhile.
        """
        seen, moved = first - 1, time.monotonic()

        def note(sequence: int, headers: dict[str, str]) -> None:
            nonlocal seen, moved
            seen, moved = sequence, time.monotonic()
            if sequence <= last:
                each(sequence, headers)

        while True:
            await self._headers_of_one(stream, subject, seen + 1, last, note)
            if seen >= last or not self.clustered:
                return
            following, found = await self._following(stream, subject, seen + 1)
            if following:
                note(following, found)
                if following >= last:
                    return
            elif time.monotonic() - moved > BEHIND_SECONDS:
                raise NatsConnectionError(
                    f"cannot read back {subject}: servers of the cluster have no message after {seen}, but one had "
                    f"{last}"
                )
            else:
                await asyncio.sleep(0.1)

    async def _following(self, stream: str, subject: str, first: int) -> tuple[int, dict[str, str]]:
        """Returns sequence and headers of the first message of a subject from a sequence on.

        Any server of the cluster may answer. The sequence is 0 without such a message.
        """
        question = json.dumps({"seq": first, "next_by_subj": subject}).encode()
        return _direct(await self._request(f"$JS.API.DIRECT.GET.{stream}", question, None))

    async def _headers_of_one(
        self, stream: str, subject: str, first: int, last: int, each: Callable[[int, dict[str, str]], None]
    ) -> None:
        """Calls `each` for what one server has of `headers`, and perhaps one message more."""
        import nats.errors
        import nats.js.errors
        from nats.js.api import ConsumerConfig, DeliverPolicy

        js = self._live().jetstream(timeout=ANSWER_SECONDS)

        async def read() -> None:
            sub = await js.subscribe(
                subject,
                stream=stream,
                ordered_consumer=True,
                config=ConsumerConfig(
                    deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first, headers_only=True
                ),
            )
            try:
                while True:
                    try:
                        message = await sub.next_msg(timeout=BEHIND_SECONDS if self.clustered else ANSWER_SECONDS)
                    except nats.errors.TimeoutError:
                        if self.clustered:  # it has nothing yet
                            return
                        raise
                    at = message.metadata
                    each(at.sequence.stream, dict(message.headers or {}))
                    if at.sequence.stream >= last or at.num_pending == 0:
                        return
            finally:
                if self.connected:
                    await sub.unsubscribe()

        try:
            await self._unless_lost(read())
        except (nats.errors.NoRespondersError, nats.js.errors.ServiceUnavailableError):
            await self._headers_by_gets(stream, subject, first, last, each)
        except nats.errors.Error as error:
            raise NatsConnectionError(f"cannot read back {subject}: {error}") from error

    async def _headers_by_gets(
        self, stream: str, subject: str, first: int, last: int, each: Callable[[int, dict[str, str]], None]
    ) -> None:
        """Does the same as `_headers_of_one` without a consumer, for an account that may not create one.

        It uses direct gets, which also send payloads.
        """
        import nats.errors

        client = self._live()
        inbox = client.new_inbox()
        sub = await client.subscribe(inbox)

        async def read(first: int) -> int:
            """Returns the sequence after the last message of one answer; 0 without any."""
            question = {"seq": first, "next_by_subj": subject, "batch": GET_MESSAGES, "max_bytes": GET_BYTES}
            await client.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(question).encode(), reply=inbox)
            behind = 0
            while True:
                message = await sub.next_msg(timeout=ANSWER_SECONDS)
                found = message.headers or {}
                if found.get("Status") == "204" and "Nats-Sequence" not in found:
                    return behind
                sequence, headers = _direct(message)
                if not sequence:
                    return 0
                behind = sequence + 1
                each(sequence, headers)

        try:
            while first and first <= last:
                first = await self._unless_lost(read(first))
        except nats.errors.Error as error:
            raise NatsConnectionError(f"cannot read back {subject}: {error}") from error
        finally:
            if self.connected:
                await sub.unsubscribe()


def _direct(message: Any) -> tuple[int, dict[str, str]]:
    """Returns sequence and headers of a message from a direct get; 0 without any."""
    headers: dict[str, str] = dict(message.headers or {})
    if (status := headers.get("Status")) and "Nats-Sequence" not in headers:
        if status == "404":
            return 0, {}
        raise NatsRequestError({"code": int(status), "description": headers.get("Description", "")})
    return int(headers["Nats-Sequence"]), headers


def _final(cause: BaseException | None) -> bool:
    """Reports whether an attempt to connect failed permanently."""
    if isinstance(cause, (ssl.SSLError, ImportError, FileNotFoundError, PermissionError)):
        return True
    return "authorization" in str(cause).lower() or "authentication" in str(cause).lower()
