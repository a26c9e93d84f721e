"""The pipeline of one producer into the stream.

It encodes documents as messages, and commits them in a separate thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from loaderd.errors import LoaderdError, UnreachableError
from loaderd.producer._chat import Chat
from loaderd.producer._committer import Committer
from loaderd.producer._errors import DocumentTooLargeError, InvalidDocumentError, PublishError, StreamNotFoundError
from loaderd.producer._extra_columns import TOKEN_TYPES, VALUE_TYPES, check_types
from loaderd.producer._gather import MessageBuffer, check, size_alone
from loaderd.producer._input_position import InputPosition, find_input_position
from loaderd.producer._message import FINGERPRINT, HEADERS_MOST, Encoder, Message
from loaderd.producer._nats_session import Access, NatsConnectionError, NatsRequestError, Session
from loaderd.producer._outbox import Outbox, resolve
from loaderd.producer._run_checks import RunChecks
from loaderd.producer._source import check_source, fingerprint_of, require_nats
from loaderd.producer._stream_readers import RunIntake
from loaderd.producer._trace import check_share, traceparent

if TYPE_CHECKING:
    import os
    import ssl

    from loaderd._connection import TLS
    from loaderd.producer._message import Document

log = logging.getLogger("loaderd")

STOP_SECONDS = 5.0
"""Seconds that an interrupted operation still waits."""
ABSENT_SECONDS = 2.0
"""Seconds of answers that no stream exists until that is final. A starting daemon creates the stream after its
server starts to answer."""
ABSENT_CLUSTER_SECONDS = 5.0
"""The same for a cluster, whose leader may not have all streams yet."""


@dataclass(frozen=True, slots=True)
class Published:
    """Counts of confirmed documents: stored by the server, on its disk."""

    documents: int = 0
    """Documents that were stored."""
    bytes: int = 0
    """Payload bytes of those documents."""
    duplicates: int = 0
    """Documents that were not stored again, because the stream has them."""
    rejected: int = 0
    """Documents that were skipped, each with a call of `on_reject`."""
    last_sequence: int = 0
    """Stream sequence of the last document; 0 without any."""
    waited: float = 0.0
    """Seconds spent waiting for a full stream, a lost connection or a leader of a cluster."""
    position: int = 0
    """Every document of the input before this position is done: a restart continues here."""
    runs: tuple[RunIntake, ...] = ()
    """What each run over the stream read and skipped meanwhile, of all producers; known when publishing has ended."""


class PublishOptions(TypedDict, total=False):
    """Options of all publishing functions; each has a default."""

    subject: str
    """The daemon's `stream.subject`: documents go to `<subject>.<source>`. Default "docs"."""
    credentials: str | os.PathLike[str] | None
    """NATS credentials file (.creds); needs the package nkeys."""
    nkey: str | os.PathLike[str] | None
    """File with an NKey seed; needs the package nkeys."""
    user: str | None
    """NATS user, with `password`."""
    password: str | None
    """Password of `user`."""
    token: str | None
    """NATS token, or the content of the daemon's producer.token."""
    tls: TLS | ssl.SSLContext | None
    """Authorities and certificates. None trusts the system's authorities if the URL is tls:// or the server requires
    TLS."""
    connect_timeout: float
    """Seconds without an answer from the servers, or their JetStream, at the start until UnreachableError is raised.
    Default 60."""
    timeout: float | None
    """Seconds that one wait, for a full stream, a lost connection or a leader of a cluster, may last before
    PublishError or UnreachableError. None, the default: no limit."""
    batch_bytes: int
    """Bytes of one batch; at most two are held. Default 8 MiB."""
    progress: Callable[[Published], None] | None
    """Called after every batch, from the publisher's thread."""
    on_wait: Callable[[str], None] | None
    """Called with the reason when a wait begins and with "" when it ends, from the publisher's thread. Default: a
    warning in the log "loaderd".
    """
    on_reject: Callable[[InvalidDocumentError], None] | None
    """Called with the error of a document that cannot be sent, which is then skipped. Default None: the error is
    raised."""
    chat: object
    """A loaderd.Chat, or the tokenizer of transformers whose chat template renders `messages`."""
    gather: int
    """Maximum documents of token ids per message, for runs with `documents.multiple_per_message`. Default 1."""
    columns: Mapping[str, str]
    """Types of the documents' additional columns per token (`columns`), by name, as in the run's
    `documents.columns`."""
    meta: Mapping[str, str]
    """Types of the values in `meta` of documents that share a message, by name, as in the run's `documents.meta`."""
    report: float
    """Maximum seconds that publishing waits at its end while runs still read, to count what they skip
    (`Published.runs`); 0 disables it. Default 10."""
    trace: float
    """Share of the documents that are traced to the ranks, 0 to 1, if daemons trace (docs/how-to/monitor.md#traces).
    Default 0."""


class SendPipeline:
    """Starts to connect when it is created, and accepts documents once it is `ready`.

    `name` and `start` are as in Publisher; `own_ids` generates ids that are unique to this line.
    """

    def __init__(
        self,
        url: str,
        options: PublishOptions,
        *,
        source: str,
        name: str | None,
        start: int | None,
        tokenizer: object,
        own_ids: bool,
    ) -> None:
        if unknown := options.keys() - PublishOptions.__annotations__.keys():
            raise TypeError(
                f"unknown options {sorted(unknown)}: want some of {', '.join(PublishOptions.__annotations__)}"
            )
        require_nats(keys=bool(options.get("credentials") or options.get("nkey")))
        check_source(source)
        access = Access(
            url,
            options.get("credentials"),
            options.get("nkey"),
            options.get("user"),
            options.get("password"),
            options.get("token"),
            options.get("tls"),
        )
        label = name if name is not None else secrets.token_hex(8) if own_ids else ""
        chat = options.get("chat")
        columns = check_types("columns", options.get("columns", {}), TOKEN_TYPES)
        meta = check_types("meta", options.get("meta", {}), tuple(VALUE_TYPES))
        self.encoder = Encoder(
            source,
            label,
            fingerprint_of(tokenizer),
            place=name is not None,
            chat=None if chat is None else Chat.of(chat),
            columns=columns,
            meta=meta,
        )
        self.place = InputPosition(start or 0)
        self._lookup = name if start is None else None
        self._subject = f"{options.get('subject', 'docs')}.{source}"
        self._connect_timeout = options.get("connect_timeout", 60.0)
        self._progress = options.get("progress")
        self._on_reject = options.get("on_reject")
        self._trace = check_share(options.get("trace", 0.0))
        self._report = options.get("report", 10.0)
        self._gather = options.get("gather", 1)
        if not isinstance(self._gather, int) or isinstance(self._gather, bool) or self._gather < 1:
            raise ValueError(f"gather={self._gather!r}: want the number of documents per message, at least 1")
        self._gathers = self._gather > 1 or bool(columns)
        self._buffer: MessageBuffer | None = None  # set once it is ready
        self._limit = 0
        self._lock = threading.Lock()  # guards position, _rejected and _published
        self.position = 0
        self._rejected = 0
        self._published = Published()

        session = Session(access)
        self._committer = Committer(
            session, self._subject, options.get("timeout"), options.get("on_wait") or _log_wait, self._committed
        )
        self._loop = asyncio.new_event_loop()
        self._work = asyncio.Event()
        self._outbox = Outbox(options.get("batch_bytes", 8 << 20), self._wake)
        self.ready: Future[None] = Future()
        self._main_task: asyncio.Task[None] | None = None
        self._run_checks: RunChecks | None = None  # set once it is ready
        self._thread = threading.Thread(target=self._run, args=(session,), name="loaderd-publisher", daemon=True)
        self._thread.start()

    # Methods of the caller's thread.

    def open(self) -> None:
        """Waits until the line is ready, and closes it if that fails."""
        try:
            self.ready.result()
        except BaseException:
            self.close()
            raise

    def message(self, document: Document | InvalidDocumentError) -> Message | None:
        """Returns the message that is due with the next document.

        It is the document's own message, or one of several documents that ends with it or before it.

        Args:
            document: The document, or the error of an invalid one.

        Returns:
            The message; None if none is due, or the document is skipped.

        Raises:
            InvalidDocumentError: If the document is invalid and `on_reject` is not given.
        """
        with self._lock:
            position = self.position
            self.position += 1
        try:
            message = self._row(document, position, gathers=self._buffer is not None)
            return message if self._buffer is None else self._buffer.add(message)
        except InvalidDocumentError as error:
            if self._on_reject is None:
                raise
            self._on_reject(error)
        with self._lock:
            self._rejected += 1
            self._published = replace(self._published, rejected=self._rejected)
        return None

    def _row(self, document: Document | InvalidDocumentError, position: int, *, gathers: bool) -> Message:
        """Returns the message of one document, which may later share one.

        Raises:
            InvalidDocumentError: If the document is invalid.
        """
        if isinstance(document, InvalidDocumentError):
            raise document
        message = self.encoder.encode(document, position, traceparent(self._trace) if self._trace else None)
        if gathers:
            check(self.encoder, message)
        elif message.head > HEADERS_MOST:
            raise DocumentTooLargeError(
                f"document {message.label} has {message.head:,} bytes of headers, more than the server's limit of "
                f"{HEADERS_MOST:,}: split it, shorten"
                " its loss and meta, or publish it with gather=, which stores them in columns",
                facts={"document": message.id, "bytes": str(message.head), "limit": str(HEADERS_MOST)},
            )
        size = size_alone(message) if gathers else message.size
        if size > self._limit:
            raise DocumentTooLargeError(
                f"document {message.label} has {size:,} bytes with its headers, more than the server's limit of "
                f"{self._limit:,} per message: split it",
                facts={"document": message.id, "bytes": str(size), "limit": str(self._limit)},
            )
        return message

    def last(self, documents: Sequence[Document | InvalidDocumentError]) -> str:
        """Returns the id that the message before `place` has if it holds these documents of the input.

        Raises:
            InvalidDocumentError: If a document is invalid.
        """
        rows: list[Message] = []
        for position, document in enumerate(documents, self.place.position - len(documents)):
            try:
                rows.append(self._row(document, position, gathers=self.place.gathered))
            except InvalidDocumentError:
                if self._on_reject is None or not self.place.gathered:
                    raise
        return self.encoder.id_of(rows) if self.place.gathered else rows[0].id

    def rest(self) -> Message | None:
        """Returns the message of the buffered documents; None without any."""
        return None if self._buffer is None else self._buffer.rest()

    def offer(self, message: Message) -> Future[None] | None:
        """Accepts a message, or returns a future that is done when room may be available."""
        return self._outbox.offer(message)

    def flushed(self) -> Future[None]:
        """Returns a future that is done when everything offered is committed."""
        return self._outbox.flushed()

    def concluded(self) -> Future[None]:
        """Returns a future that is done when the log and `published` have the producer's summary.

        Call it once all is flushed.
        """
        return asyncio.run_coroutine_threadsafe(self._conclude(), self._loop)

    @property
    def published(self) -> Published:
        """The counts of the documents confirmed so far."""
        with self._lock:
            return self._published

    def close(self) -> None:
        """Stops the thread.

        Unflushed messages may or may not be stored.
        """
        self._outbox.end(None)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(STOP_SECONDS)

    def flush(self, timeout: float | None = None) -> Published:
        """Waits until everything offered is committed.

        Raises:
            TimeoutError: If that takes longer than `timeout` seconds.
        """
        try:
            self.flushed().result(timeout)
        except FutureTimeout:  # a separate class before Python 3.11
            raise TimeoutError(f"not all documents were confirmed within {timeout:g} s") from None
        return self.published

    def settle(self, error: BaseException) -> None:
        """Waits for messages offered before an error, and adds a note on what is confirmed.

        After an interrupt it waits at most STOP_SECONDS.
        """
        late: BaseException | None = None
        try:
            self.flush(None if isinstance(error, Exception) else STOP_SECONDS)
        except (LoaderdError, TimeoutError, KeyboardInterrupt) as other:
            late = other
        self.note(error, None if late is error else late)

    def note(self, error: BaseException, late: BaseException | None) -> None:
        """Adds a note to an error on what is confirmed.

        Args:
            error: The error.
            late: Why the sent messages could not be awaited; None if they were.
        """
        done = self.published
        text = (
            f"loaderd: {done.documents:,} documents are confirmed, and all before position {done.position:,} are in "
            "the stream"
        )
        if late is not None:
            text += f"; later ones may or may not be stored ({type(late).__name__}: {late})"
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(text)

    # Methods of the committer's thread.

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._work.set)

    def _cancel(self) -> None:
        if self._main_task is not None:
            self._main_task.cancel()

    def _run(self, session: Session) -> None:
        asyncio.set_event_loop(self._loop)
        error: BaseException | None = None
        try:
            self._main_task = self._loop.create_task(self._main(session))
            self._loop.run_until_complete(self._main_task)
        except asyncio.CancelledError:
            pass
        except BaseException as other:
            error = other
        finally:
            self._outbox.end(error)
            resolve(self.ready, error or PublishError("the publisher was closed while it connected"))
            with contextlib.suppress(Exception):
                self._loop.run_until_complete(_finish(session))
            self._loop.close()

    async def _main(self, session: Session) -> None:
        stream = await self._open(session)
        self._run_checks = RunChecks(session, stream, self._report)
        resolve(self.ready)
        admitted = False
        while True:
            batch = self._outbox.take()
            if not batch:
                await self._work.wait()
                self._work.clear()
                continue
            if not admitted:
                await self._run_checks.admit(batch[0].headers.get(FINGERPRINT, ""))
                admitted = True
            await self._committer.commit(batch, self._ahead)
            self._outbox.committed(batch[-1])

    async def _ahead(self, count: int) -> list[Message]:
        """Waits for messages of the next batch after its first `count`, and returns them."""
        while not (more := self._outbox.ahead(count)):
            await self._work.wait()
            self._work.clear()
        return more

    async def _conclude(self) -> None:
        assert self._run_checks is not None
        runs = await self._run_checks.conclude(self._committer.tally)
        with self._lock:
            self._published = replace(self._published, runs=runs)

    def _committed(self) -> None:
        tally = self._committer.tally
        with self._lock:
            self._published = now = Published(
                tally.documents,
                tally.bytes,
                tally.duplicates,
                self._rejected,
                tally.last_sequence,
                tally.waited,
                tally.position,
            )
        if self._progress is not None:
            self._progress(now)

    async def _open(self, session: Session) -> str:
        """Connects, finds the stream and the input's position in it, and returns the stream's name."""
        await session.first(self._connect_timeout)
        answered = time.monotonic()  # when JetStream last answered
        absent = 0.0  # since when it answers that no stream exists
        while True:
            try:
                if not session.connected:
                    await session.reconnect()
                bound = ABSENT_CLUSTER_SECONDS if session.clustered else ABSENT_SECONDS
                stream = await session.find_stream(self._subject)
                info = await session.stream(stream)
                state, config = info["state"], info["config"]
                read = int(state["last_seq"])
                if self._lookup is not None:
                    self.place, read = await find_input_position(
                        session, stream, self._subject, self._lookup, int(state["first_seq"])
                    )
                break
            except StreamNotFoundError:
                answered = time.monotonic()
                absent = absent or answered
                if answered > absent + bound:
                    raise
                await asyncio.sleep(0.1)
            except (NatsConnectionError, NatsRequestError) as error:
                absent = 0.0
                if isinstance(error, NatsRequestError) and error.leaderless:
                    await self._committer.wait(f"JetStream at {session.access.shown} has no leader: {error}")
                    answered = time.monotonic()
                    if len(session.access.servers) > 1:  # this server may be partitioned from the others
                        await session.close()
                elif time.monotonic() > answered + self._connect_timeout:
                    raise UnreachableError(
                        f"cannot find the stream of {self._subject} at {session.access.shown}: {error}"
                    ) from error
                else:
                    await asyncio.sleep(0.1)
        self._committer.resume()
        limits = (session.max_payload, int(config.get("max_msg_size", -1)), int(config.get("max_bytes", -1)))
        self._limit = min(n for n in limits if n > 0)
        if self._gathers:
            self._buffer = MessageBuffer(self.encoder, self._gather, self._limit)
        self.position = self.place.position
        self._published = Published(position=self.position, waited=self._committer.tally.waited)
        self._committer.begin(stream, bool(config.get("allow_atomic")), int(state["last_seq"]), read)
        return stream


async def _finish(session: Session) -> None:
    """Closes the connection and cancels all tasks."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(session.close(), 2.0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _log_wait(reason: str) -> None:
    if reason:
        log.warning("publishing paused: %s", reason)
    else:
        log.warning("publishing resumed")
