"""tokenizer.model: loaderd gives the ids of SentencePiece, for every kind of model and every option."""

from __future__ import annotations

import pathlib
import random
import struct
from collections.abc import Sequence
from typing import Any

import pytest
import sentencepiece

import trained_tokenizers
from loaderd.fingerprint import fingerprint
from published_tokenizers import SENTENCEPIECE_SHA256, published_model
from scale import everything, share
from test_fingerprint import of_loaderd
from texts_for_tokenizers import adversarial, borders, broken, mixtures, sources
from tokenizer_comparison import check, decoded, ids_of, run

SEED = 20261201
MARK = "▁"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SYMBOLS = ["<x>", "ab", f"{MARK}z", "new word", "<x><y>", "中"]

# options of the trainer for each kind of model
TRAINED: list[dict[str, Any]] = [
    {"model_type": "unigram"},
    {"model_type": "unigram", "byte_fallback": True, "user_defined_symbols": SYMBOLS},
    {"model_type": "unigram", "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    {"model_type": "unigram", "normalization_rule_name": "nfkc_cf", "treat_whitespace_as_suffix": True},
    {"model_type": "unigram", "split_by_whitespace": False, "add_dummy_prefix": False},
    {"model_type": "bpe"},
    {
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "split_digits": True,
        "allow_whitespace_only_pieces": True,
        "user_defined_symbols": SYMBOLS,
    },  # Llama, Mistral, Gemma
    {"model_type": "bpe", "treat_whitespace_as_suffix": True, "control_symbols": ["<c>"]},
    {"model_type": "char", "user_defined_symbols": SYMBOLS},
    {"model_type": "word"},
]


def texts() -> list[bytes]:
    rng = random.Random(SEED)
    parts = [
        " ",
        "  ",
        "\n",
        "\t",
        MARK,
        MARK * 2,
        *SYMBOLS,
        "<s>",
        "</s>",
        "<unk>",
        "<c>",
        "\u3000",
        "\xa0",
        "ﬁ\u0301",
    ]
    parts += [
        "e\u0301",
        "ｶﾞ",
        "㌀",
        "ﷺ",
        "각\u11a8",
        "क़\u0300",
        "\u200d",
        "aaa",
        "-----",
        "func",
        "return",
        "<0x41>",
        "\x00",
    ]
    parts += ["\x7f", "\ufeff", "\u200b", "ö", "м", "𐍈", "abab", "中文", "字", " \x01 ", "x" * 40]
    found = []
    for _ in range(500):
        few = rng.sample(parts, rng.randrange(2, len(parts)))
        found.append("".join(rng.choice(few) for _ in range(rng.randrange(1, 30))).encode())
    wide = borders()
    found += ["".join(rng.sample(wide, 80)).encode() for _ in range(40)]
    found += [*sources()[::8], *mixtures(200), *broken(40), *(t[:1500] for t in adversarial())]
    return [*found, b"", b" ", b"\n \n", b"  a  ", f"{MARK} {MARK}".encode()]


def reference_ids(model: bytes, some: Sequence[bytes]) -> list[list[int]]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.encode(decoded(text)) for text in some]


def write(tmp_path: pathlib.Path, model: bytes) -> pathlib.Path:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(model)
    return path


@pytest.mark.parametrize("number", range(len(TRAINED)))
def test_ids_of_trained_models(loaderd: str, tmp_path: pathlib.Path, number: int) -> None:
    model = trained_tokenizers.sentencepiece_model(**frozen(TRAINED[number]))
    check(texts(), ids_of(loaderd, write(tmp_path, model), texts()), reference_ids(model, texts()))


def frozen(options: dict[str, Any]) -> dict[str, Any]:
    """Returns options that a cache accepts: the trainer also reads lists with commas."""
    return {k: ",".join(v) if isinstance(v, list) else v for k, v in options.items()}


# --- random models ----------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(*fields: tuple[int, Any]) -> bytes:
    """Returns a protobuf message of numbers, 32-bit floats, texts and messages."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(content)) + content
    return bytes(out)


def charsmap(rule: str) -> bytes:
    top = dict(trained_tokenizers.fields(trained_tokenizers.sentencepiece_model(normalization_rule_name=rule)))
    return bytes(dict(trained_tokenizers.fields(top[3])).get(2, b""))


LETTERS = [*"abcAé中字 𐍈-1", MARK, MARK, "\u0301"]


def random_model(rng: random.Random) -> bytes:
    """Returns a model with random pieces of all types, many of them with equal scores."""
    kind = rng.choice([1, 1, 2, 2, 3, 4])
    letters = rng.sample(LETTERS, rng.randrange(3, len(LETTERS)))
    count = rng.choice([5, 30, 200])
    words = {"".join(rng.choices(letters, k=min(rng.choice([1, 1, 2, 2, 3, 4, 8]), 8))) for _ in range(count)}
    fallback = rng.random() < 0.4
    digits = rng.choice([0, 1, 6])
    rare = rng.choice([0.0, 0.0, 0.1])  # of pieces that are user-defined, control or unused
    pieces = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    pieces += [(f"<0x{b:02X}>", 0.0, BYTE) for b in range(256) if fallback]
    for word in sorted(words):
        score = round(rng.uniform(*rng.choice([(-12, -1), (-12, -1), (-1, 1), (-90, -80)])), digits)
        if rng.random() < 0.1:
            score = rng.choice([0.0, -0.0, 5.0, -1.0])
        pieces.append((word, score, rng.choice([USER_DEFINED, CONTROL, UNUSED]) if rng.random() < rare else NORMAL))
    if all(t != NORMAL for _, _, t in pieces):
        pieces.append(("zz", -1.0, NORMAL))
    rule = rng.choice(["identity", "identity", "nmt_nfkc", "nfkc_cf"])
    flags = [(number, int(rng.random() < 0.5)) for number in (3, 4)]
    flags.append((5, int(kind == 3 or rng.random() < 0.5)))
    return message(
        *((1, message((1, text), (2, float(score)), (3, kind_of))) for text, score, kind_of in pieces),
        (2, message((3, kind), (24, int(rng.random() < 0.3)), (35, int(fallback)))),
        (3, message((2, charsmap(rule)), *flags)),
    )


def random_texts(rng: random.Random) -> list[bytes]:
    some = []
    for _ in range(40):
        few = rng.sample(LETTERS, rng.randrange(1, len(LETTERS))) + rng.choice([[], [" "] * 4, ["<s>", "<unk>"]])
        some.append("".join(rng.choices(few, k=rng.choice([1, 3, 10, 60, 400]))).encode())
    return some


@pytest.mark.parametrize("number", range(share(1000, 25)))
def test_ids_of_random_models(loaderd: str, tmp_path: pathlib.Path, number: int) -> None:
    rng = random.Random(f"{SEED} {number}")
    model = random_model(rng)
    some = random_texts(rng)
    check(some, ids_of(loaderd, write(tmp_path, model), some), reference_ids(model, some))


def test_sums_of_scores_are_rounded(loaderd: str, tmp_path: pathlib.Path) -> None:
    """Words whose best pieces depend on the rounding of the sum of scores before them, and sums that are reset."""
    rng = random.Random(SEED)
    for scale in (1.0, 40.0):
        letters = {c: rng.uniform(-9, -2) * scale for c in "abcd▁"}
        pieces = [("<unk>", 0.0, UNKNOWN), *((c, score, NORMAL) for c, score in letters.items())]
        for a in "abcd▁":
            for b in "abcd":
                pieces.append((a + b, letters[a] + letters[b] + rng.choice([0, 1e-3, -1e-3, 1e-5]), NORMAL))
        model = message(*((1, message((1, p), (2, s), (3, t))) for p, s, t in pieces), (2, message((3, 1))), (3, b""))
        words = ["".join(rng.choices("abcd", k=rng.randrange(1, 9))) for _ in range(200)]
        some = [" ".join(rng.choices(words, k=k)).encode() for k in (10, 100, 1000, 20000, 60000)]
        some += ["".join(rng.choices("abcd", k=200_000)).encode(), ("ab" * 90_000).encode()]
        check(some, ids_of(loaderd, write(tmp_path, model), some), reference_ids(model, some))


def test_decoding_and_fingerprint(loaderd: str, tmp_path: pathlib.Path) -> None:
    for options in TRAINED[0], TRAINED[6]:
        model = trained_tokenizers.sentencepiece_model(**frozen(options))
        path = write(tmp_path, model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        some = [processor.encode(text) for text in (" func main() {  return err }", "<x>é𐍈", "")]
        some += [[*some[0][:3], 1, 0, 2, *some[0]], [0, *some[1]], [2, *some[0]]]
        out = run(
            loaderd, ["--tokenizer", str(path), "--decode"], [{"id": i, "ids": ids} for i, ids in enumerate(some)]
        )
        assert [line["text"] for line in out] == [processor.decode(ids) for ids in some]
        assert of_loaderd(loaderd, path) == fingerprint(path) == fingerprint(processor)
    with pytest.raises(ValueError, match="cut short"):
        fingerprint(write(tmp_path, model[:-3]))
    for damaged in message((1, message((2, 1.0)))), message((1, message((1, 5)))), message((1, b""), (2, 5)):
        with pytest.raises(ValueError, match="damaged"):
            fingerprint(write(tmp_path, damaged))
    assert fingerprint(write(tmp_path, random_model(random.Random(3)))) != fingerprint(processor)


@everything
@pytest.mark.parametrize("name", SENTENCEPIECE_SHA256)
def test_ids_of_published_models(loaderd: str, name: str) -> None:
    path = published_model(name)
    check(texts(), ids_of(loaderd, path, texts()), reference_ids(path.read_bytes(), texts()))
    assert of_loaderd(loaderd, path) == fingerprint(path)
