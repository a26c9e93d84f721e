"""Tokenizes rendered chats and their parts, in batches."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

Offsets = Sequence[tuple[int, int]]


class ChatTokenizer:
    """A fast tokenizer of transformers for rendered chats, to which no special tokens are added.

    Attributes:
        exact: The tokenizer, or a copy whose offsets have all characters of a token.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.exact = _with_exact_offsets(tokenizer)
        # Prefix for encoding parts that do not begin a text.
        self._before = next(
            (
                (t.content, i)
                for i, t in tokenizer.added_tokens_decoder.items()
                if t.special and not (t.lstrip or t.rstrip or t.single_word)
            ),
            None,
        )

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Returns the ids of texts."""
        if not texts:
            return []
        backend = self._backend()
        if backend is None:
            found: list[list[int]] = self.exact(texts, add_special_tokens=False, verbose=False)["input_ids"]
            return found
        many = getattr(backend, "encode_batch_fast", backend.encode_batch)  # without offsets
        return [encoding.ids for encoding in many(texts, add_special_tokens=False)]

    def offsets(self, texts: list[str]) -> list[tuple[list[int], Offsets]]:
        """Returns the ids of texts, and the characters [begin, end) of each token."""
        if not texts:
            return []
        backend = self._backend()
        if backend is not None:
            return [(found.ids, found.offsets) for found in backend.encode_batch(texts, add_special_tokens=False)]
        out = self.exact(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return list(zip(out["input_ids"], out["offset_mapping"], strict=True))

    def part(self, text: str, first: bool) -> list[int]:
        """Returns the ids of a part in a run: what the tokenizer prepends to a text is only in the first part."""
        if not text:
            return []
        if not first and self._before is not None:
            content, number = self._before
            [ids] = self.ids([content + text])
            if ids[0] == number:
                return ids[1:]
        return self.ids([text])[0]

    def _backend(self) -> Any:
        """Returns the tokenizer without transformers; None if it truncates, pads, or has another mode."""
        backend = self.exact.backend_tokenizer
        split = bool(getattr(self.exact, "split_special_tokens", False))
        plain = backend.truncation is None and backend.padding is None and backend.encode_special_tokens == split
        return backend if plain else None


def _with_exact_offsets(tokenizer: Any) -> Any:
    """Returns the tokenizer, or a copy whose offsets have all characters of a token.

    With offsets that exclude white space at the ends of tokens, transformers finds no token where a mark begins or ends
    with white space. It then gives the rest of the chat no loss, or all of it.
    """
    processor = tokenizer.backend_tokenizer.post_processor
    if processor is None or b'"trim_offsets":true' not in bytes(processor.__getstate__()):
        return tokenizer
    exact = copy.deepcopy(tokenizer)
    exact.backend_tokenizer.post_processor = None  # it also adds special tokens, which chats do not use
    return exact
