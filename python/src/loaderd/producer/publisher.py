"""Publishing: a whole input at once, from a coroutine, or document by document."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING

from loaderd.producer.dataset import Documents, behind
from loaderd.producer.errors import BadDocument, InputChanged
from loaderd.producer.line import Line, Options, Published

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from loaderd.producer.message import Document

NATS = "nats://127.0.0.1:4222"


class Publisher:
    """Sends documents one at a time, in order, each stored once.

    `send` returns when there is room for the document; `flush` waits until all are stored, and so does the end of a `with` block. What
    waits is bounded by two batches; a full stream or a lost connection makes `send` wait. Several threads may send; the order is then that
    of the calls.

        with loaderd.Publisher("nats://127.0.0.1:4222", source="web") as publisher:
            publisher.send("some text")

    Without a name the ids that are made are this publisher's own: a document equal to one that an earlier publisher sent is stored. With a
    name the messages carry their place in the input of that name, and `position`, the place of the next document to send, begins behind
    those that the stream has; `start` sets it instead.
    """

    def __init__(
        self,
        url: str = NATS,
        *,
        source: str,
        name: str | None = None,
        start: int | None = None,
        tokenizer: object = None,
        **options: Unpack[Options],
    ) -> None:
        self._line = Line(url, options, source=source, name=name, start=start, tokenizer=tokenizer, own_ids=True)
        self._line.open()
        self._turn = threading.Lock()

    def send(self, document: Document) -> None:
        """Takes a document, waiting while there is no room.

        Raises BadDocument (DocumentTooLarge) for this document, after which the publisher can go on; any other error is final.
        """
        with self._turn:
            message = self._line.message(document)
            while message is not None and (room := self._line.offer(message)) is not None:
                room.result()

    def flush(self, timeout: float | None = None) -> Published:
        """Waits until all that was sent is stored. Raises TimeoutError after so many seconds."""
        return self._line.flush(timeout)

    @property
    def published(self) -> Published:
        """What is confirmed now."""
        return self._line.published

    @property
    def position(self) -> int:
        """Place of the next document in its input."""
        return self._line.position

    def close(self) -> None:
        """Stops without waiting: what was not flushed may or may not be stored."""
        self._line.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Waits until all is stored. After an interrupt it waits a few seconds at most."""
        try:
            if error is None:
                self.flush()
                self._line.concluded().result()
            else:
                self._line.settle(error)
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
    **options: Unpack[Options],
) -> Published:
    """Sends an input's documents, in order, and returns when all are stored.

    A document is text (str, or bytes in UTF-8), token ids (a list, a numpy array or a tensor, [n]), or a dict with `text` or `ids` and
    perhaps `id`, `path`, `domain`, and `meta` (with text). Token ids need `tokenizer`: the tokenizer that made them or its fingerprint.

    `source` (letters, digits, - and _) becomes a part of the subject. A document without an id of its own gets one made of source,
    name, position and content, so that publishing the same input again within the server's window for ids (two minutes) adds nothing.
    With `name`, the lasting name of the input, there is no window: the messages carry their place in the input, and those that the stream
    has are skipped, also after a crash. An iterable with a method `skip` (loaderd.documents) is skipped by it. `start` instead says at which position
    of the input `documents` begins, and asks nothing.

    Raises BadDocument (DocumentTooLarge) for what cannot be sent, NoStream, Unreachable, NotPermitted or PublishError, and whatever iterating
    raises, once what came before is confirmed; a note on the error says how much that is. Works inside a running event loop too, which
    it blocks: there, use apublish.
    """
    line = _line(documents, url, options, source, name, start, tokenizer)
    line.open()
    try:
        for document in _rest(documents, line):
            message = line.message(document)
            while message is not None and (room := line.offer(message)) is not None:
                room.result()
        done = line.flush()
        line.concluded().result()
        return done
    except BaseException as error:
        line.settle(error)
        raise
    finally:
        line.close()


async def apublish(
    documents: Iterable[Document] | AsyncIterable[Document],
    url: str = NATS,
    *,
    source: str,
    name: str | None = None,
    start: int | None = None,
    tokenizer: object = None,
    **options: Unpack[Options],
) -> Published:
    """publish for a running event loop: takes an asynchronous iterable too, and waits without blocking the loop.

    When the task is cancelled it waits a few seconds for what was sent, as publish does after an interrupt.
    """
    making = asyncio.create_task(asyncio.to_thread(_line, documents, url, options, source, name, start, tokenizer))
    opened = False
    try:
        await asyncio.shield(making)
        line = making.result()
        await asyncio.wrap_future(line.ready)
        opened = True
        async for document in _arest(documents, line):
            message = line.message(document)
            while message is not None and (room := line.offer(message)) is not None:
                await asyncio.wrap_future(room)
        await asyncio.wrap_future(line.flushed())
        await asyncio.wrap_future(line.concluded())
        return line.published
    except BaseException as error:
        if opened:
            await asyncio.shield(asyncio.to_thread(line.settle, error))
        raise
    finally:
        with contextlib.suppress(Exception):  # whatever making it raised is on its way
            await asyncio.shield(asyncio.to_thread((await making).close))


def _line(
    documents: object, url: str, options: Options, source: str, name: str | None, start: int | None, tokenizer: object
) -> Line:
    if isinstance(documents, (str, bytes, bytearray, memoryview, Mapping)):
        raise TypeError(f"documents is a {type(documents).__name__}: want an iterable of documents, for one document [document]")
    if hasattr(documents, "iterrows"):  # iterating a table gives the names of its columns
        raise TypeError(f"documents is a {type(documents).__name__}: want its rows, loaderd.documents(table.to_dict('records'))")
    if tokenizer is None and isinstance(documents, Documents):
        tokenizer = documents.tokenizer
    return Line(url, options, source=source, name=name, start=start, tokenizer=tokenizer, own_ids=False)


def _rest(documents: Iterable[Document], line: Line) -> Iterator[Document | BadDocument]:
    """The documents that the stream does not have, after a look at the last that it has."""
    known = line.place
    if not known.last_id:
        return _each(documents)
    last = known.position - 1
    skipped = behind(documents, last)
    rest = _each(skipped) if skipped is not None else islice(_each(documents), last, None)
    _compare(next(rest, None), line)
    return rest


def _each(documents: Iterable[Document]) -> Iterator[Document | BadDocument]:
    """One after the other the documents, and what is wrong with a dataset's row that is none, for on_reject to be asked."""
    return documents.each() if isinstance(documents, Documents) else iter(documents)


async def _arest(
    documents: Iterable[Document] | AsyncIterable[Document], line: Line
) -> AsyncIterator[Document | BadDocument]:
    if not isinstance(documents, AsyncIterable):
        for count, document in enumerate(await asyncio.to_thread(_rest, documents, line)):
            if count % 64 == 0:
                await asyncio.sleep(0)  # let others have a turn
            yield document
        return
    known, position = line.place, 0
    async for document in documents:
        position += 1
        if not known.last_id or position > known.position:
            yield document
        elif position == known.position:
            _compare(document, line)
    if known.last_id and position < known.position:
        _compare(None, line)


def _compare(document: Document | BadDocument | None, line: Line) -> None:
    """Raises InputChanged if the last document that the stream has of an input is another than the input's own."""
    known = line.place
    if isinstance(document, BadDocument):
        raise document
    if document is None:
        raise InputChanged(
            f"input {line.encoder.input!r} has fewer than the {known.position:,} documents that are in the stream already: give a changed"
            " input another name, or say with start= at which position it begins"
        )
    if (found := line.encoder.encode(document, known.position - 1).id) != known.last_id:
        raise InputChanged(
            f"input {line.encoder.input!r} has changed: its document {known.position - 1:,} is {found!r}, the stream has {known.last_id!r} in that"
            " place: give a changed input another name, or say with start= at which position it begins"
        )
