"""Small WordPiece, Unigram and SentencePiece tokenizers, trained during the test on source text."""

from __future__ import annotations

import base64
import functools
import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import sentencepiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import reference_tokenizers as reference
from texts_for_tokenizers import sources

MULTILINGUAL = "naïve façade 中文字符 ここ été Привет мир سلام 안녕하세요 😀😀 ½ ﬁ 12 ① Ａ ｶﾞ हिन्दी ไทย e\u0301 \n \t x "


@functools.cache
def lines() -> list[str]:
    paths = sorted((reference.ROOT / "loader").glob("*.go"))[:20]
    found = [line for path in paths for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    found += [line for text in sources()[::4] for line in text.decode(errors="replace").split("\n") if line.strip()]
    return [*found[:20000], *[MULTILINGUAL] * 60]


@functools.cache
def wordpiece(lowercase: bool = True, size: int = 2000) -> dict[str, Any]:
    """Returns the tokenizer.json of a BERT."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=special)
    tokenizer.train_from_iterator(lines(), trainer)
    content: dict[str, Any] = json.loads(tokenizer.to_str())
    return content


@functools.cache
def sentencepiece_model(**options: Any) -> bytes:
    """Returns the tokenizer.model of SentencePiece's trainer."""
    out = io.BytesIO()
    settings = {"vocab_size": 1500, "character_coverage": 0.9995, "hard_vocab_limit": False, **options}
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(lines()), model_writer=out, minloglevel=2, num_threads=2, **settings
    )
    return out.getvalue()


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the fields of a protobuf message: integers, floats of 32 bits, and bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 5:
            at += 4
            yield tag >> 3, struct.unpack("<f", message[at - 4 : at])[0]
        else:
            size = varint()
            at += size
            yield tag >> 3, message[at - size : at]


def unigram(model: bytes) -> dict[str, Any]:
    """Returns the tokenizer.json that converters write for a Unigram model of SentencePiece (T5, XLM-R)."""
    top = list(fields(model))
    trainer, normalizer = (dict(fields(next(v for f, v in top if f == number))) for number in (2, 3))
    pieces = [dict(fields(v)) for f, v in top if f == 1]
    charsmap = base64.b64encode(normalizer[2]).decode()
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
        "post_processor": None,
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": trainer.get(40, 0),
            "vocab": [[piece[1].decode(), piece.get(2, 0.0)] for piece in pieces],
            "byte_fallback": bool(trainer.get(35, 0)),
        },
    }
