"""Publishing: a whole input in one call, from a coroutine, or document by document."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING

from loaderd.producer._dataset import Documents, behind
from loaderd.producer._errors import InputChangedError, InvalidDocumentError
from loaderd.producer._pipeline import Published, PublishOptions, SendPipeline

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from loaderd.producer._message import Document, Message

NATS = "nats://127.0.0.1:4222"


class Publisher:
    """Sends documents one at a time, in order, each stored once.

    `send` returns when room for the document is available. `flush` waits until all are stored, and so does the end of a
    `with` block. At most two batches are buffered; a full stream or a lost connection makes `send` wait (backpressure).
    Several threads may send; the order is then that of the calls.

    Without a name the generated ids are unique to this publisher: a document equal to one that an earlier publisher
    sent is stored. With a name the messages contain their position in the input of that name. `position`, that of the
    next document to send, starts after those that the stream has; `start` sets it instead.

    Example:
        ```python
        with loaderd.Publisher("nats://127.0.0.1:4222", source="web") as publisher:
            publisher.send("some text")
        ```
    """

    def __init__(
        self,
        url: str = NATS,
        *,
        source: str,
        name: str | None = None,
        start: int | None = None,
        tokenizer: object = None,
        **options: Unpack[PublishOptions],
    ) -> None:
        """Connects to NATS, and finds the position of the input.

        Args:
            url: NATS servers, separated by commas; nats:// or tls://, optionally with user:password@.
            source: The source of the documents, as in `publish`.
            name: The permanent name of the input.
            start: The position at which it continues.
            tokenizer: The tokenizer of token ids, or its fingerprint.
            **options: As in PublishOptions.

        Raises:
            UnreachableError: If no server answers.
            StreamNotFoundError: If no stream accepts the documents.
            NotPermittedError: If the server rejects the credentials.
        """
        self._pipeline = SendPipeline(
            url, options, source=source, name=name, start=start, tokenizer=tokenizer, own_ids=True
        )
        self._pipeline.open()
        self._turn = threading.Lock()

    def send(self, document: Document) -> None:
        """Sends a document, and waits while no room is available.

        Args:
            document: As in `publish`.

        Raises:
            InvalidDocumentError: For this document, after which the publisher can continue.
            DocumentTooLargeError: For this document, after which the publisher can continue.
            PublishError: If publishing ended; so does any other error.
        """
        with self._turn:
            self._offer(self._pipeline.message(document))

    def flush(self, timeout: float | None = None) -> Published:
        """Waits until all sent documents are stored, including those buffered to share a message.

        Args:
            timeout: Seconds to wait; None waits without a limit.

        Raises:
            TimeoutError: If not all are stored in time.
        """
        with self._turn:
            self._offer(self._pipeline.rest())
        return self._pipeline.flush(timeout)

    def _offer(self, message: Message | None) -> None:
        while message is not None and (room := self._pipeline.offer(message)) is not None:
            room.result()

    @property
    def published(self) -> Published:
        """The counts of the documents confirmed so far."""
        return self._pipeline.published

    @property
    def position(self) -> int:
        """Position of the next document in its input."""
        return self._pipeline.position

    @property
    def last_id(self) -> str:
        """Id of the last message of the input of this name that the stream had when this publisher started.

        Producers whose documents' ids contain their position continue there. It is "" without such a message, and with
        `start`.
        """
        return self._pipeline.place.last_id

    def close(self) -> None:
        """Stops without waiting: unflushed documents may or may not be stored."""
        self._pipeline.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits until all is stored. After an interrupt it waits a few seconds at most."""
        try:
            if error is None:
                self.flush()
                self._pipeline.concluded().result()
            else:
                self._pipeline.settle(error)
        finally:
            self.close()


def publish(
    documents: Iterable[Document],
    url: str = NATS,
    *,
    source: str,
    name: str | None = None,
    start: int | None = None,
    tokenizer: object = None,
    **options: Unpack[PublishOptions],
) -> Published:
    """Sends an input's documents, in order, and returns when all are stored.

    A document is text (str, or bytes in UTF-8), token ids (a list, a numpy array or a tensor, [n]), or a dict with one
    of

    - `text`;
    - `parts`, a text in parts that are tokenized separately: each {"text", "loss"} or (text, loss). Parts without a
      loss are model input but not trained on;
    - `messages`, a chat, optionally with `tools` and `chat_template_kwargs`. Chats need the option `chat`;
    - `ids`, optionally with `loss` (a bool per token) or `loss_runs` (lengths of alternating runs of tokens with and
      without a loss, starting with a loss) and `columns` (values per token, by names that the option `columns` has).
      Token ids need `tokenizer`;

    and optionally `id`, `path`, `domain`, `weight` (a factor of its loss), and `meta`.

    A document without an id gets one derived from source, name, position and content. Publishing the same input again
    within the server's deduplication window (30 seconds) therefore adds nothing. With `name` no window applies: the
    messages contain their position in the input, and those that the stream has are skipped, also after a crash. An
    iterable with a method `skip` (loaderd.documents) is skipped by it.

    With the option `gather`, up to that many documents of token ids share a message, for runs with
    `documents.multiple_per_message`. The grouping follows from the input alone. When publishing ends with an error,
    documents buffered for a message are not sent.

    Before the first document, the reports of the runs that read the stream are checked for whether they accept it. At
    the end they are read for what was skipped meanwhile: `Published.runs`, and the log. That waits while the runs read,
    at most `report` seconds.

    It works inside a running event loop too, which it blocks: there, use apublish.

    Args:
        documents: The documents.
        url: NATS servers, separated by commas; nats:// or tls://, optionally with user:password@.
        source: The source of the documents: letters, digits, - and _. It becomes a part of the subject.
        name: The permanent name of the input.
        start: The position of the input at which `documents` begins, instead of a lookup.
        tokenizer: The tokenizer that encoded token ids, or its fingerprint.
        **options: As in PublishOptions.

    Returns:
        The counts of the confirmed documents.

    Raises:
        InvalidDocumentError: If a document cannot be sent.
        DocumentTooLargeError: If a document exceeds the maximum message size.
        InputChangedError: If the input of this name has changed.
        NotAcceptedError: If every run would reject the documents.
        StreamNotFoundError: If no stream accepts them.
        NotPermittedError: If the server rejects the credentials.
        UnreachableError: If no server answers.
        PublishError: If the server returns a permanent error, or a wait exceeds the option `timeout`. Every error is
            raised once all earlier documents are confirmed, with a note on their number.
    """
    return send_all(documents, create_pipeline(documents, url, options, source, name, start, tokenizer))


def send_all(documents: Iterable[Document], pipeline: SendPipeline) -> Published:
    """Sends an input's documents through a new pipeline, which it closes.

    Args:
        documents: As in `publish`.
        pipeline: The pipeline. Its `close`, called in another thread, ends the call.

    Raises:
        LoaderdError: As in `publish`.
    """
    pipeline.open()
    try:
        for message in _messages(_rest(documents, pipeline), pipeline):
            while (room := pipeline.offer(message)) is not None:
                room.result()
        pipeline.flush()
        pipeline.concluded().result()
        return pipeline.published
    except BaseException as error:
        pipeline.settle(error)
        raise
    finally:
        pipeline.close()


async def apublish(
    documents: Iterable[Document] | AsyncIterable[Document],
    url: str = NATS,
    *,
    source: str,
    name: str | None = None,
    start: int | None = None,
    tokenizer: object = None,
    **options: Unpack[PublishOptions],
) -> Published:
    """Publishes as `publish` does, in a running event loop, without blocking it.

    When the task is cancelled it waits a few seconds for sent documents, as `publish` does after an interrupt.
    Arguments, result and errors are those of `publish`.

    Args:
        documents: The documents, also as an asynchronous iterable.
        url: As in `publish`.
        source: As in `publish`.
        name: As in `publish`.
        start: As in `publish`.
        tokenizer: As in `publish`.
        **options: As in PublishOptions.
    """
    making = asyncio.create_task(
        asyncio.to_thread(create_pipeline, documents, url, options, source, name, start, tokenizer)
    )
    opened = False
    try:
        await asyncio.shield(making)
        pipeline = making.result()
        await asyncio.wrap_future(pipeline.ready)
        opened = True
        async for message in _amessages(_arest(documents, pipeline), pipeline):
            while (room := pipeline.offer(message)) is not None:
                await asyncio.wrap_future(room)
        await asyncio.wrap_future(pipeline.flushed())
        await asyncio.wrap_future(pipeline.concluded())
        return pipeline.published
    except BaseException as error:
        if opened:
            await asyncio.shield(asyncio.to_thread(pipeline.settle, error))
        raise
    finally:
        with contextlib.suppress(Exception):  # the error of its creation is already being raised
            await asyncio.shield(asyncio.to_thread((await making).close))


def create_pipeline(
    documents: object,
    url: str,
    options: PublishOptions,
    source: str,
    name: str | None,
    start: int | None,
    tokenizer: object,
) -> SendPipeline:
    """Returns the pipeline of an input; the arguments are those of `publish`.

    Raises:
        TypeError: If `documents` is no iterable of documents.
    """
    if isinstance(documents, (str, bytes, bytearray, memoryview, Mapping)):
        raise TypeError(
            f"documents is a {type(documents).__name__}: want an iterable of documents; for one document, give "
            "[document]"
        )
    if hasattr(documents, "iterrows"):  # iterating a table gives the names of its columns
        raise TypeError(
            f"documents is a {type(documents).__name__}: want its rows, loaderd.documents(table.to_dict('records'))"
        )
    if isinstance(documents, Documents):
        tokenizer = documents.tokenizer if tokenizer is None else tokenizer
        if options.get("chat") is None and documents.chat is not None:
            options = {**options, "chat": documents.chat}
    return SendPipeline(url, options, source=source, name=name, start=start, tokenizer=tokenizer, own_ids=False)


def _rest(documents: Iterable[Document], pipeline: SendPipeline) -> Iterator[Document | InvalidDocumentError]:
    """Yields the documents that the stream does not have, after comparing the last one that it has."""
    known = pipeline.place
    if not known.last_id:
        return _each(documents)
    behind_it = known.position - known.places
    skipped = behind(documents, behind_it)
    rest = _each(skipped) if skipped is not None else islice(_each(documents), behind_it, None)
    _compare(list(islice(rest, known.places)), pipeline)
    return rest


def _messages(documents: Iterator[Document | InvalidDocumentError], pipeline: SendPipeline) -> Iterator[Message]:
    for document in documents:
        if (message := pipeline.message(document)) is not None:
            yield message
    if (message := pipeline.rest()) is not None:
        yield message


async def _amessages(
    documents: AsyncIterator[Document | InvalidDocumentError], pipeline: SendPipeline
) -> AsyncIterator[Message]:
    async for document in documents:
        if (message := pipeline.message(document)) is not None:
            yield message
    if (message := pipeline.rest()) is not None:
        yield message


def _each(documents: Iterable[Document]) -> Iterator[Document | InvalidDocumentError]:
    """Yields the documents in order, and the error of each invalid row of a dataset, for on_reject."""
    return documents.each() if isinstance(documents, Documents) else iter(documents)


async def _arest(
    documents: Iterable[Document] | AsyncIterable[Document], pipeline: SendPipeline
) -> AsyncIterator[Document | InvalidDocumentError]:
    if not isinstance(documents, AsyncIterable):
        for count, document in enumerate(await asyncio.to_thread(_rest, documents, pipeline)):
            if count % 64 == 0:
                await asyncio.sleep(0)  # let other tasks run
            yield document
        return
    known, position = pipeline.place, 0
    last: list[Document | InvalidDocumentError] = []
    async for document in documents:
        position += 1
        if not known.last_id or position > known.position:
            yield document
            continue
        if position > known.position - known.places:
            last.append(document)
        if position == known.position:
            _compare(last, pipeline)
    if known.last_id and position < known.position:
        _compare([], pipeline)


def _compare(last: Sequence[Document | InvalidDocumentError], pipeline: SendPipeline) -> None:
    """Compares the stream's last message of an input with the documents that the input has there.

    Raises:
        InputChangedError: If they differ.
    """
    known = pipeline.place
    if len(last) < known.places:
        raise InputChangedError(
            f"input {pipeline.encoder.input!r} has fewer than the {known.position:,} documents that are already in the "
            "stream: give a changed"
            " input another name, or set start= to the position at which it begins"
        )
    if (found := pipeline.last(last)) != known.last_id:
        raise InputChangedError(
            f"input {pipeline.encoder.input!r} has changed: its document {known.position - 1:,} is {found!r}, the "
            f"stream has {known.last_id!r} at that"
            " position: give a changed input another name, or set start= to the position at which it begins"
        )
