"""The compared tokenizers, each used as its documentation recommends for speed."""

from __future__ import annotations

import itertools
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "tests"))

BATCH = 4 << 20  # bytes of text per call for libraries that return an object per document


class Vocabulary(NamedTuple):
    """A name, its tokenizer.json, and other names of it."""

    name: str
    file: Path
    builtin: str = ""  # loaderd's and tiktoken's name


class UnsupportedError(Exception):
    """The library does not have the vocabulary, or rejects its file."""


class Encoder(ABC):
    """A library with a loaded vocabulary. encode is timed; ids unpacks its result."""

    package: str

    @abstractmethod
    def __init__(self, vocabulary: Vocabulary, cores: int) -> None: ...

    def prepare(self, text: bytes) -> Any:
        """Returns the input of encode, prepared outside the timing: here str, which most libraries require."""
        return [d.decode(errors="replace") for d in text.split(b"\0")[:-1]]

    @abstractmethod
    def encode(self, documents: Any) -> Any: ...

    @abstractmethod
    def ids(self, encoded: Any) -> Sequence[Any]:
        """Returns the ids of each document."""


class HuggingFace(Encoder):
    package = "tokenizers"

    def __init__(self, vocabulary: Vocabulary, cores: int) -> None:
        from tokenizers import Tokenizer

        if vocabulary.file.suffix != ".json":
            raise UnsupportedError("no tokenizer.json")
        self.tokenizer = Tokenizer.from_file(str(vocabulary.file))

    def prepare(self, text: bytes) -> Any:
        return batches(super().prepare(text))

    def encode(self, documents: Any) -> Any:
        return [self.tokenizer.encode_batch_fast(batch, add_special_tokens=False) for batch in documents]

    def ids(self, encoded: Any) -> Sequence[Any]:
        return [encoding.ids for batch in encoded for encoding in batch]


class SentencePiece(Encoder):
    package = "sentencepiece"

    def __init__(self, vocabulary: Vocabulary, cores: int) -> None:
        import sentencepiece

        if vocabulary.file.suffix != ".model":
            raise UnsupportedError("no tokenizer.model")
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary.file))
        self.cores = cores

    def encode(self, documents: Any) -> Any:
        return self.processor.encode(documents, num_threads=self.cores)

    def ids(self, encoded: Any) -> Sequence[Any]:
        return encoded  # type: ignore[no-any-return]


class Tiktoken(Encoder):
    package = "tiktoken"

    def __init__(self, vocabulary: Vocabulary, cores: int) -> None:
        import reference_tokenizers

        if not vocabulary.builtin:
            raise UnsupportedError("not among its encodings")
        self.encoding, self.cores = reference_tokenizers.tiktoken_encoding(vocabulary.builtin), cores

    def encode(self, documents: Any) -> Any:
        return self.encoding.encode_batch(documents, num_threads=self.cores, allowed_special="all")

    def ids(self, encoded: Any) -> Sequence[Any]:
        return encoded  # type: ignore[no-any-return]


class Gigatoken(Encoder):
    package = "gigatoken"

    def __init__(self, vocabulary: Vocabulary, cores: int) -> None:
        import gigatoken

        self.tokenizer, self.source = gigatoken.Tokenizer(str(vocabulary.file)), gigatoken.BytesSource

    def prepare(self, text: bytes) -> Any:
        return text.removesuffix(b"\0")

    def encode(self, documents: Any) -> Any:
        return self.tokenizer.encode_batch(self.source([documents], separator=b"\0"))

    def ids(self, encoded: Any) -> Sequence[Any]:
        offsets, content = encoded.layout.offsets.data, encoded.layout.content.data
        return [content[a:b] for a, b in itertools.pairwise(offsets)]


class Fastokens(Encoder):
    package = "fastokens"

    def __init__(self, vocabulary: Vocabulary, cores: int) -> None:
        import fastokens

        try:
            self.tokenizer = fastokens.Tokenizer.from_file(str(vocabulary.file))
        except Exception as error:
            raise UnsupportedError(str(error)) from error

    def encode(self, documents: Any) -> Any:
        return self.tokenizer.encode_batch_flat(documents, add_special_tokens=False)

    def ids(self, encoded: Any) -> Sequence[Any]:
        content, offsets = np.frombuffer(encoded[0], np.uint32), np.frombuffer(encoded[1], np.uint64)
        return [content[a:b] for a, b in itertools.pairwise(offsets)]


class RsBpe(Encoder):
    package = "rs_bpe"

    def __init__(self, vocabulary: Vocabulary, cores: int) -> None:
        from rs_bpe.bpe import openai

        makers: dict[str, Callable[[], Any]] = {"cl100k_base": openai.cl100k_base, "o200k_base": openai.o200k_base}
        if vocabulary.builtin not in makers:
            raise UnsupportedError("not among its encodings")
        if cores > 1:
            raise UnsupportedError("measured on one core only, for long words")
        self.tokenizer = makers[vocabulary.builtin]()

    def encode(self, documents: Any) -> Any:
        return [self.tokenizer.encode(d) for d in documents]

    def ids(self, encoded: Any) -> Sequence[Any]:
        return encoded  # type: ignore[no-any-return]


ENCODERS: dict[str, type[Encoder]] = {
    e.package: e for e in (Gigatoken, Fastokens, RsBpe, Tiktoken, SentencePiece, HuggingFace)
}
SLOW = {"tokenizers", "sentencepiece", "tiktoken", "rs_bpe"}  # two rounds of these suffice


def batches(documents: list[str]) -> list[list[str]]:
    out: list[list[str]] = [[]]
    size = 0
    for d in documents:
        out[-1].append(d)
        size += len(d)
        if size > BATCH:
            out.append([])
            size = 0
    return out


def write_builtin(name: str, path: Path) -> None:
    """Writes the tokenizer.json of a built-in vocabulary of loaderd."""
    import reference_tokenizers

    path.write_text(json.dumps(reference_tokenizers.builtin_json(name), ensure_ascii=False), encoding="utf-8")
