"""Tokenizes the chats of rows in batches: one batch is tokenized while the next one is rendered."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from loaderd.chats._errors import FileError
from loaderd.chats._inputs import ChatRows
from loaderd.producer import Chat, InvalidDocumentError
from loaderd.producer._chat import RenderedChat

_CHATS = 64
"""Maximum chats of a batch."""
_CHARACTERS = 4 << 20
"""Characters of rendered chats that end a batch."""
_OF_CHATS = ("messages", "tools", "chat_template_kwargs", "loss_from")


@dataclass
class _Batch:
    """Documents in order, and the tokens of those that are chats."""

    documents: list[tuple[str, int, Any]] = field(default_factory=list)
    """File, row, and document; an error; or the other keys of a chat's document, whose tokens are the next ones."""
    rendered: list[RenderedChat] = field(default_factory=list)
    chats: list[bool] = field(default_factory=list)
    """Whether each document is a chat."""
    tokens: Future[Any] | None = None


@dataclass
class TokenizedRows:
    """The documents of rows, with token ids in the place of chats: an iterable that can begin at any position.

    The tokenizer works in another thread. `rows.place` is the place of the last document, and while a chat is rendered
    the place of that chat.
    """

    rows: ChatRows
    chat: Chat

    def skip(self, count: int) -> TokenizedRows:
        """Returns the documents from a position on."""
        return replace(self, rows=self.rows.skip(count))

    def __iter__(self) -> Iterator[Any]:
        with ThreadPoolExecutor(1, "loaderd-tokenizer") as pool:
            before = _Batch()
            for batch in self._batches():
                batch.tokens = pool.submit(self.chat._tokenize, batch.rendered)
                yield from self._documents(before)
                before = batch
            yield from self._documents(before)

    def _batches(self) -> Iterator[_Batch]:
        batch, characters = _Batch(), 0
        for document in self._read():
            place = (self.rows.place.file, self.rows.place.row)
            found = self._rendered(document)
            is_chat = isinstance(found, RenderedChat)
            if isinstance(found, RenderedChat):
                characters += len(found.text)
                batch.rendered.append(found)
                found = {key: value for key, value in document.items() if key not in _OF_CHATS}
            batch.documents.append((*place, found))
            batch.chats.append(is_chat)
            if len(batch.documents) == _CHATS or characters >= _CHARACTERS:
                yield batch
                batch, characters = _Batch(), 0
        yield batch

    def _read(self) -> Iterator[Any]:
        """Yields the documents of the rows, and the error that ends them, which is raised after these documents."""
        try:
            yield from self.rows
        except FileError as error:
            yield error

    def _rendered(self, document: Any) -> Any:
        """Returns a chat as text, or the error of a chat; any other document is unchanged."""
        if isinstance(document, (InvalidDocumentError, FileError)) or "messages" not in document:
            return document
        try:
            return self.chat._render(
                document["messages"],
                document.get("tools"),
                document.get("chat_template_kwargs"),
                document.get("loss_from", 0),
            )
        except InvalidDocumentError as error:
            return error

    def _documents(self, batch: _Batch) -> Iterator[Any]:
        tokens = iter(batch.tokens.result() if batch.tokens is not None else ())
        for (file, row, document), is_chat in zip(batch.documents, batch.chats, strict=True):
            self.rows.place.file, self.rows.place.row = file, row
            if isinstance(document, FileError):
                raise document
            if not is_chat:
                yield document
                continue
            found = next(tokens)
            yield found if isinstance(found, InvalidDocumentError) else {**document, **found}
