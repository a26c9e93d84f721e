"""Unigram: loaderd gives the ids of Hugging Face tokenizers, with every option on and off."""

from __future__ import annotations

import copy
import functools
import json
import pathlib
import random
import subprocess
from typing import Any

import pytest
from tokenizers import Tokenizer

import reference_tokenizers as reference
import trained_tokenizers
from loaderd.fingerprint import fingerprint
from scale import share
from test_fingerprint import of_loaderd
from texts_for_tokenizers import adversarial, borders, broken, mixtures, sources
from tokenizer_comparison import check, hugging_face_ids, ids_of, run

SEED = 20261130
MARK = "▁"
ADDED = [
    {"content": "</s>", "special": True, "normalized": False},
    {"content": "<extra_id_0>", "special": True, "normalized": False, "lstrip": True, "rstrip": True},
    {"content": "new word", "special": False, "normalized": True},
]


def metaspace(**options: Any) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": MARK, **options}


SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
QUOTES = {"type": "Replace", "pattern": {"String": "``"}, "content": '"'}
SPLIT = {"type": "WhitespaceSplit"}
# normalizers before or after the charsmap, None, and pre-tokenizers of published files
SHAPES: list[tuple[list[Any], list[Any]]] = [
    ([None], [SPLIT, metaspace(prepend_scheme="always")]),  # T5, XLM-R
    ([None, SPACES], [metaspace(prepend_scheme="always")]),  # T5 in later versions
    ([{"type": "Strip", "strip_left": True, "strip_right": True}, None, SPACES], [metaspace(prepend_scheme="always")]),
    ([{"type": "Strip", "strip_left": False, "strip_right": True}, None, {**SPACES, "content": MARK}], [metaspace()]),
    (
        [QUOTES, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, None],
        [SPLIT, metaspace(prepend_scheme="always")],
    ),  # ALBERT
    ([None], [metaspace(prepend_scheme="always", split=False)]),
    ([], [metaspace(prepend_scheme="never")]),
    ([None], []),
]


@functools.cache
def texts() -> list[bytes]:
    rng = random.Random(SEED)
    parts = [
        " ",
        "  ",
        "\n",
        "\t",
        "\r\n",
        MARK,
        MARK * 2,
        "</s>",
        "<extra_id_0>",
        "new word",
        "\u3000",
        "\xa0",
        "ﬁ\u0301",
        "①",
    ]
    parts += ["e\u0301", "a\u0300\u0323", "ｶﾞ", "㌀", "ﷺ", "가", "각", "각\u11a8", "한", "क्ष", "क़\u0300", "™\u0301"]
    parts += [
        "👩\u200d🔬",
        "🇩🇪",
        "©\u200d™\u0300",
        "aaa",
        "-----",
        "====",
        "abab",
        "func",
        "return",
        "<0x41>",
        "<unk>",
        "\x00",
    ]
    parts += ["\x7f", "\ufeff", "\u200b", "ö", "м", "aa a", "``x''", "\u0600a", "\u0301"]
    found = []
    for _ in range(600):
        few = rng.sample(parts, rng.randrange(2, len(parts)))
        found.append("".join(rng.choice(few) for _ in range(rng.randrange(1, 30))).encode())
    wide = borders()
    found += ["".join(rng.sample(wide, 80)).encode() for _ in range(60)]
    marks = [c for c in wide if "\u0300" <= c <= "\u036f" or c >= "\u0600"] + ["\u0301", "\u0300"]
    found += ["".join(rng.choice("eA1ﬁ™ｶ가क㌀") + rng.choice(marks) for _ in range(40)).encode() for _ in range(200)]
    found += [*sources()[::6], *mixtures(300), *broken(60), *(t[:1500] for t in adversarial()), b"", b" ", b"\n \n"]
    return found


def file_of(rng: random.Random, shape: tuple[list[Any], list[Any]], rule: str) -> dict[str, Any]:
    content = copy.deepcopy(
        trained_tokenizers.unigram(trained_tokenizers.sentencepiece_model(normalization_rule_name=rule))
    )
    normalizers, pre_tokenizers = shape
    charsmap = content["normalizer"]
    content["normalizer"] = {"type": "Sequence", "normalizers": [n or charsmap for n in normalizers]}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": pre_tokenizers} if pre_tokenizers else None
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    content["added_tokens"] = (
        [{"id": 9000 + i, **flags, **a} for i, a in enumerate(ADDED)] if rng.random() < 0.6 else []
    )
    vocab = content["model"]["vocab"]
    if rng.random() < 0.5:
        content["model"]["byte_fallback"] = True
        vocab += [[f"<0x{b:02X}>", 0.0] for b in range(256) if rng.random() < 0.999]
    if rng.random() < 0.3:  # many equal sums
        for piece in vocab[3:]:
            piece[1] = round(piece[1])
    if rng.random() < 0.3:
        vocab += [[a + b, rng.uniform(-9, -3)] for a in ("a", f"b{MARK}", MARK) for b in (f"{MARK}c", "a a", MARK)]
    return content


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc_cf"])
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_ids(loaderd: str, tmp_path: pathlib.Path, number: int, rule: str) -> None:
    for k in range(share(2, 2)):
        content = file_of(random.Random(f"{SEED} {number} {k} {rule}"), SHAPES[number], rule)
        path = reference.write(tmp_path / "tokenizer.json", content)
        check(texts(), ids_of(loaderd, path, texts()), hugging_face_ids(path, texts()))


def test_every_character(loaderd: str, tmp_path: pathlib.Path) -> None:
    """The charsmap replaces each character, alone and before a mark, as the reference does."""
    points = [c for c in range(1, 0x32000) if not 0xD800 <= c < 0xE000]
    content = trained_tokenizers.unigram(trained_tokenizers.sentencepiece_model(normalization_rule_name="nmt_nfkc"))
    vocab = [["<unk>", 0.0], *([chr(c), -5.0] for c in points)]
    content = {**content, "pre_tokenizer": None, "model": {**content["model"], "unk_id": 0, "vocab": vocab}}
    for form in ("a{0}", "a{0}\u0301{0}\u094d", "\u0915{0}\u200d{0}"):
        characters = [form.format(chr(c)) for c in points]
        some = ["".join(characters[i : i + 400]).encode() for i in range(0, len(characters), 400)]
        path = reference.write(tmp_path / "tokenizer.json", content)
        check(some, ids_of(loaderd, path, some), hugging_face_ids(path, some))


def test_scores_are_read_as_the_reference_does(loaderd: str, tmp_path: pathlib.Path) -> None:
    """Sums that differ only in the last bits of a score, decided by its digits in the file."""
    rng = random.Random(SEED)
    content = trained_tokenizers.unigram(trained_tokenizers.sentencepiece_model())
    content["normalizer"], content["pre_tokenizer"] = None, None
    for _ in range(5):
        vocab = [
            ["<unk>", 0.0],
            *([c, f"-{rng.random() * 10 ** rng.randrange(1, 3)!r}{rng.randrange(10**6)}"] for c in "abcd"),
        ]
        vocab += [[a + b, 1.0] for a in "abcd" for b in "abcd"]
        numbers = {piece: score for piece, score in vocab}
        for entry in vocab[5:]:
            entry[1] = repr(float(numbers[entry[0][0]]) + float(numbers[entry[0][1]]))
        text = json.dumps({**content, "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab}})
        for _, score in vocab[1:]:
            text = text.replace(f'"{score}"', score)
        path = tmp_path / "tokenizer.json"
        path.write_text(text)
        some = ["".join(rng.choices("abcd", k=40)).encode() for _ in range(200)]
        check(some, ids_of(loaderd, path, some), hugging_face_ids(path, some))


def test_decoding_and_fingerprint(loaderd: str, tmp_path: pathlib.Path) -> None:
    content = trained_tokenizers.unigram(trained_tokenizers.sentencepiece_model())
    path = reference.write(tmp_path / "tokenizer.json", content)
    tokenizer = Tokenizer.from_file(str(path))
    ids = tokenizer.encode("func main() { return err }").ids
    (out,) = run(loaderd, ["--tokenizer", str(path), "--decode"], [{"id": 0, "ids": ids}])
    assert out["text"] == tokenizer.decode(ids) == "func main() { return err }"
    assert of_loaderd(loaderd, path) == fingerprint(path) == fingerprint(tokenizer)
    content["model"]["vocab"][9][1] -= 1
    assert of_loaderd(loaderd, reference.write(path, content)) != fingerprint(tokenizer)


def damaged(content: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the expected words in the error, and the change of a file."""
    charsmap = content["normalizer"]["precompiled_charsmap"]

    def normalizer(text: str) -> dict[str, Any]:
        return {"normalizer": {"type": "Precompiled", "precompiled_charsmap": text}}

    def model(**change: Any) -> dict[str, Any]:
        return {"model": {**content["model"], **change}}

    return [
        ("not base64", normalizer("?")),
        ("empty", normalizer("")),
        ("cut short", normalizer(charsmap[:4000])),
        ("replacement", normalizer(charsmap[:-4000])),
        ("unk_id", model(unk_id=None)),
        ("unk_id", model(unk_id=10**6)),
        ("piece 1", model(vocab=[["<unk>", 0.0], ["a"]])),
        ("piece 0", model(vocab=[[1, "a"]])),
        ("vocab", model(vocab={"a": 0})),
        ("byte_fallback", model(byte_fallback="yes")),
        ("Punctuation", {"pre_tokenizer": {"type": "Punctuation", "behavior": "Isolated"}}),
    ]


@pytest.mark.parametrize("number", range(11))
def test_damaged_file(loaderd: str, tmp_path: pathlib.Path, number: int) -> None:
    content = trained_tokenizers.unigram(trained_tokenizers.sentencepiece_model())
    words, change = damaged(content)[number]
    path = reference.write(tmp_path / "tokenizer.json", {**content, **change})
    done = subprocess.run([loaderd, "tokenize", "--tokenizer", path], input=b"", capture_output=True)
    assert done.returncode != 0
    assert words in done.stderr.decode()
