"""Documents from the rows of a dataset, as text or as the tokens of a given tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from loaderd.producer._errors import InvalidDocumentError

Column = str | Callable[[Any], Any]
"""The name of a column, or a function of a row."""
Encode = Callable[[list[str]], Iterable[Sequence[int]]]


@dataclass(frozen=True)
class Documents:
    """The documents of a dataset's rows: an iterable that can begin at any position.

    `documents` returns it.

    Attributes:
        rows: The dataset.
        columns: The column, or function of a row, of every key of a document.
        meta: The columns of the document's meta, or a function of a row.
        tokenizer: The tokenizer of the tokens, or its fingerprint; None for text.
        encode: The function from texts to token ids; None for text.
        batch_size: How many documents are tokenized at a time.
        chat: What renders chats: a Chat or a tokenizer.
        first: The position of the first row in its input.
    """

    rows: Iterable[Any]
    columns: Mapping[str, Column]
    meta: tuple[Column, ...] | Column | None
    tokenizer: object
    """The tokenizer of the tokens, or its fingerprint; None for text."""
    encode: Encode | None
    batch_size: int
    chat: object = None
    """What renders chats: a Chat or a tokenizer."""
    first: int = 0

    def skip(self, count: int) -> Documents:
        """Returns the documents from a position on.

        It is cheap if the dataset has a method `skip`; otherwise the rows are read and discarded.

        Args:
            count: How many documents to skip.
        """
        rest = behind(self.rows, count)
        return replace(self, rows=_Skipped(self.rows, count) if rest is None else rest, first=self.first + count)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for document in self.each():
            if isinstance(document, InvalidDocumentError):
                raise document
            yield document

    def each(self) -> Iterator[dict[str, Any] | InvalidDocumentError]:
        """Yields the documents in order, and an InvalidDocumentError in the place of an invalid row.

        Yields:
            A document as `publish` accepts it, or the error of a row.
        """
        made = (self._made(row, place) for place, row in enumerate(self.rows, self.first))
        if self.encode is None:
            yield from made
            return
        while some := list(islice(made, self.batch_size)):
            good = [d for d in some if not isinstance(d, InvalidDocumentError)]
            for document, ids in zip(good, self.encode([d.pop("text") for d in good]) if good else (), strict=True):
                document["ids"] = ids
            yield from some

    def _made(self, row: Any, place: int) -> dict[str, Any] | InvalidDocumentError:
        try:
            return self._document(row, place)
        except InvalidDocumentError as error:
            return error

    def _document(self, row: Any, place: int) -> dict[str, Any]:
        try:
            document = {key: column(row) if callable(column) else row[column] for key, column in self.columns.items()}
            if callable(self.meta):
                document["meta"] = self.meta(row)
            elif self.meta is not None:
                document["meta"] = {str(c): row[c] for c in ((self.meta,) if isinstance(self.meta, str) else self.meta)}
        except (KeyError, TypeError) as error:
            there = (
                f"its columns are {', '.join(map(str, row))}"
                if isinstance(row, Mapping)
                else f"it is a {type(row).__name__}"
            )
            raise InvalidDocumentError(
                f"cannot read row {place:,} ({type(error).__name__}: {error}): {there}"
            ) from error
        if self.encode is not None and not isinstance(document.get("text"), str):
            raise InvalidDocumentError(
                f"row {place:,}: its text is a {type(document.get('text')).__name__}, a tokenizer requires str"
            )
        return document


@dataclass(frozen=True)
class _Skipped:
    rows: Iterable[Any]
    count: int

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self.rows), self.count, None)


def behind(rows: object, count: int) -> Iterable[Any] | None:
    """Returns the entries of an input after the first `count`, by its own `skip`; None if it has none.

    Raises:
        TypeError: If `skip` does not return an iterable.
    """
    skip = getattr(rows, "skip", None)
    if skip is None:
        return None
    rest = skip(count)
    if not isinstance(rest, Iterable):
        raise TypeError(
            f"{type(rows).__name__}.skip returned {rest!r}: want an iterable of the rows after the first {count:,}"
        )
    return rest


def documents(
    dataset: Iterable[Any],
    *,
    text: Column | None = None,
    ids: Column | None = None,
    parts: Column | None = None,
    messages: Column | None = None,
    tools: Column | None = None,
    chat_template_kwargs: Column | None = None,
    loss: Column | None = None,
    loss_runs: Column | None = None,
    weight: Column | None = None,
    id: Column | None = None,
    path: Column | None = None,
    domain: Column | None = None,
    meta: Sequence[str] | Column | None = None,
    tokenizer: object = None,
    chat: object = None,
    encode: Encode | None = None,
    batch_size: int = 256,
) -> Documents:
    """Returns the documents of a dataset's rows.

    A column argument is a column's name or a function of a row. Its values are those that `publish` accepts under the
    argument's name.

    Example:
        ```python
        loaderd.publish(loaderd.documents(dataset, text="content", id="url"), source="web", name="crawl-7")
        ```

    Args:
        dataset: A Hugging Face Dataset or IterableDataset, or any iterable of mappings.
        text: The text. It is "text" unless `ids`, `parts` or `messages` is given.
        ids: Token ids, whose tokenizer is `tokenizer`.
        parts: A text in parts.
        messages: A chat, which needs `chat`, here or where it is published.
        tools: The tools of a chat.
        chat_template_kwargs: Arguments of a chat's template.
        loss: Which token ids have a loss.
        loss_runs: Lengths of runs of token ids with and without a loss.
        weight: The factor of the document's loss.
        id: The document's id.
        path: The document's path.
        domain: The document's domain.
        meta: One column, several columns, or a function that returns the dict.
        tokenizer: An object of transformers, tokenizers or tiktoken, by which the text is tokenized here, without
            special tokens and without a limit: the daemon appends the end-of-document token. A special token that is
            spelled out in the text becomes that token; with tiktoken it becomes plain text. With `encode` or `ids`, the
            tokenizer or its fingerprint identifies their tokens.
        chat: A Chat or a tokenizer of transformers, which renders `messages`.
        encode: Any other function from texts to token ids.
        batch_size: How many documents are tokenized at a time, 1 or more.

    Raises:
        ValueError: If the arguments contradict each other.
        TypeError: If the tokenizer is not supported.
    """
    contents = {
        k: v for k, v in (("text", text), ("ids", ids), ("parts", parts), ("messages", messages)) if v is not None
    }
    if len(contents) > 1:
        raise ValueError(f"{' and '.join(contents)}: want one of them")
    for of, more in (
        ("messages", {"tools": tools, "chat_template_kwargs": chat_template_kwargs}),
        ("ids", {"loss": loss, "loss_runs": loss_runs}),
    ):
        if wrong := [] if of in contents else [k for k, v in more.items() if v is not None]:
            raise ValueError(f"{wrong[0]} requires {of}")
    columns = contents or {"text": "text"}
    others = (
        ("tools", tools),
        ("chat_template_kwargs", chat_template_kwargs),
        ("loss", loss),
        ("loss_runs", loss_runs),
        ("weight", weight),
        ("id", id),
        ("path", path),
        ("domain", domain),
    )
    columns |= {k: v for k, v in others if v is not None}
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, want at least 1")
    if encode is not None and (tokenizer is None or "text" not in columns):
        raise ValueError(
            "encode makes ids of text: it requires tokenizer= (its "
            f"fingerprint){'' if 'text' in columns else f' and no {next(iter(columns))}='}"
        )
    if tokenizer is not None and (parts is not None or messages is not None):
        raise ValueError(
            "tokenizer makes tokens from text: omit it with "
            f"{'parts' if messages is None else 'messages, which require chat='}"
        )
    if encode is None and ids is None and tokenizer is not None:
        encode = encoder_of(tokenizer)
    kept = meta if meta is None or isinstance(meta, str) or callable(meta) else tuple(meta)
    return Documents(dataset, columns, kept, tokenizer, encode, batch_size, chat)


def encoder_of(tokenizer: Any) -> Encode:
    """Returns the batch encoder of a tokenizer object.

    Raises:
        TypeError: If the tokenizer is not supported.
        ValueError: If the tokenizer truncates or pads.
    """
    kind = type(tokenizer)
    if hasattr(tokenizer, "encode_ordinary_batch"):  # tiktoken
        return lambda texts: tokenizer.encode_ordinary_batch(texts)
    if hasattr(tokenizer, "encode_batch") and hasattr(tokenizer, "no_truncation"):  # tokenizers
        if tokenizer.truncation is not None or tokenizer.padding is not None:
            raise ValueError("this tokenizer truncates or pads: call its no_truncation() and no_padding() first")
        many = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
        return lambda texts: (e.ids for e in many(texts, add_special_tokens=False))
    if callable(tokenizer) and hasattr(tokenizer, "convert_ids_to_tokens"):  # transformers
        return lambda texts: tokenizer(
            texts,
            add_special_tokens=False,
            padding=False,
            truncation=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )["input_ids"]
    if isinstance(tokenizer, str):
        raise TypeError(
            "tokenizer is a fingerprint: it requires encode=, the function that makes the tokens, or ids=, the column "
            "that has them"
        )
    raise TypeError(
        f"tokenizer is a {kind.__module__}.{kind.__qualname__}: want one of transformers, tokenizers or tiktoken, or "
        "encode="
    )
