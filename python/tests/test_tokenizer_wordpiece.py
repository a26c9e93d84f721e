"""WordPiece: loaderd gives the ids of Hugging Face tokenizers, with every option on and off."""

from __future__ import annotations

import copy
import functools
import pathlib
import random
import subprocess
from typing import Any

import pytest
from tokenizers import Tokenizer

import reference_tokenizers as reference
import trained_tokenizers
from scale import share
from test_fingerprint import of_loaderd
from texts_for_tokenizers import adversarial, borders, broken, mixtures, sources
from tokenizer_comparison import check, decoded, hugging_face_ids, ids_of, run

SEED = 20261129
ADDED = [
    {"content": "[MASK]", "special": True, "normalized": False, "lstrip": True},
    {"content": "[SEP]", "special": True, "normalized": False},
    {"content": "NewWord", "special": False, "normalized": True, "single_word": True},
    {"content": "été", "special": False, "normalized": True},
]


def bert(**options: Any) -> dict[str, Any]:
    defaults = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    return {"type": "BertNormalizer", **defaults, **options}


NORMALIZERS: list[dict[str, Any] | None] = [
    bert(),
    bert(lowercase=False),
    bert(strip_accents=True, lowercase=False),
    bert(strip_accents=False),
    bert(clean_text=False),
    bert(handle_chinese_chars=False),
    None,
    {"type": "Sequence", "normalizers": [{"type": t} for t in ("NFD", "Lowercase", "StripAccents")]},
    {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, bert()]},
    {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "NFKC"}]},
]


@functools.cache
def texts() -> list[bytes]:
    rng = random.Random(SEED)
    words = [
        "[MASK]",
        " [SEP]",
        "NewWord",
        "newword",
        "ÉTÉ",
        "été",
        "func",
        "İ",
        "ΑΣ",
        "\u0345\u0301",
        "㌀",
        "中文",
        "\u0600",
    ]
    words += [
        "a" * 99,
        "a" * 100,
        "é" * 100,
        "b" * 101,
        " ",
        "  ",
        "\t",
        "\xa0",
        "\u3000",
        "##ing",
        "don't",
        "x!?y",
        "\ufffd",
    ]
    marks = ["a\u0301\u0323", "\u302e\u0301", "\U0001d165\U0001d16d", "\u0c4d\u0345", "\u05b0\u05c1", "\u1dfa\u0300"]
    found = ["".join(rng.choice(words + marks) for _ in range(rng.randrange(1, 25))).encode() for _ in range(600)]
    wide = borders()
    found += [" a".join(rng.sample(wide, 60)).encode() for _ in range(60)]
    found += [*sources()[::6], *mixtures(400), *broken(60), *(t[:1500] for t in adversarial()), b"", b" ", b"\n \n"]
    return found


def file_of(rng: random.Random, normalizer: dict[str, Any] | None) -> dict[str, Any]:
    content = copy.deepcopy(trained_tokenizers.wordpiece(normalizer is None or "lowercase" not in str(normalizer)))
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    content["added_tokens"] = (
        [{"id": 9000 + i, **flags, **a} for i, a in enumerate(ADDED)] if rng.random() < 0.6 else []
    )
    content["normalizer"] = normalizer
    content["pre_tokenizer"] = {
        "type": rng.choice(["BertPreTokenizer", "BertPreTokenizer", "WhitespaceSplit", "Whitespace"])
    }
    content["model"]["max_input_chars_per_word"] = rng.choice([100, 100, 5, 200])
    if rng.random() < 0.2:
        content["model"]["continuing_subword_prefix"] = rng.choice(["", "a", "+"])
    return content


@pytest.mark.parametrize("number", range(len(NORMALIZERS)))
def test_ids(loaderd: str, tmp_path: pathlib.Path, number: int) -> None:
    for k in range(share(2, 2)):
        content = file_of(random.Random(f"{SEED} {number} {k}"), NORMALIZERS[number])
        path = reference.write(tmp_path / "tokenizer.json", content)
        check(texts(), ids_of(loaderd, path, texts()), hugging_face_ids(path, texts()))


def test_every_character(loaderd: str, tmp_path: pathlib.Path) -> None:
    """Each character between letters and after marks, whose normal form the vocabulary shows."""
    points = [c for c in range(1, 0x32000) if not 0xD800 <= c < 0xE000]
    alphabet = {chr(c): c + 1 for c in points}
    content = trained_tokenizers.wordpiece()
    vocab = {"[UNK]": 0, **alphabet}
    content = {**content, "added_tokens": [], "post_processor": None}
    content["model"] = {
        **content["model"],
        "vocab": vocab,
        "continuing_subword_prefix": "",
        "max_input_chars_per_word": 9999,
    }
    characters = [f"a{chr(c)}b\u0301{chr(c)} " for c in points]
    some = ["".join(characters[i : i + 400]).encode() for i in range(0, len(characters), 400)]
    for options in ({}, {"lowercase": False}):
        path = reference.write(tmp_path / "tokenizer.json", {**content, "normalizer": bert(**options)})
        check(some, ids_of(loaderd, path, some), hugging_face_ids(path, some))


def test_special_tokens_and_decoding(loaderd: str, tmp_path: pathlib.Path) -> None:
    path = reference.write(
        tmp_path / "tokenizer.json",
        {
            **trained_tokenizers.wordpiece(),
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        },
    )
    tokenizer = Tokenizer.from_file(str(path))
    some = ["func main() { don't, stop! }", "x", ""]
    want = [e.ids for e in tokenizer.encode_batch(some)]
    check([t.encode() for t in some], ids_of(loaderd, path, [t.encode() for t in some], "--add-special-tokens"), want)
    plain = [tokenizer.encode(t, add_special_tokens=False).ids for t in some]
    out = run(loaderd, ["--tokenizer", str(path), "--decode"], [{"id": i, "ids": x} for i, x in enumerate(plain)])
    assert [line["text"] for line in out] == [tokenizer.decode(x, skip_special_tokens=False) for x in plain]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("unk_token", {"unk_token": "nothing"}),
        ("unk_token", {"unk_token": None}),
        ("max_input_chars_per_word", {"max_input_chars_per_word": -1}),
        ("continuing_subword_prefix", {"continuing_subword_prefix": 3}),
        ("vocab", {"vocab": [["a", 1.0]]}),
    ],
)
def test_incomplete_model(loaderd: str, tmp_path: pathlib.Path, name: str, change: dict[str, Any]) -> None:
    content = trained_tokenizers.wordpiece()
    path = reference.write(tmp_path / "tokenizer.json", {**content, "model": {**content["model"], **change}})
    done = subprocess.run([loaderd, "tokenize", "--tokenizer", path], input=b"", capture_output=True)
    assert done.returncode != 0
    assert name in done.stderr.decode()


def test_fingerprint(loaderd: str, tmp_path: pathlib.Path) -> None:
    from loaderd.fingerprint import fingerprint

    path = reference.write(tmp_path / "tokenizer.json", trained_tokenizers.wordpiece())
    assert of_loaderd(loaderd, path) == fingerprint(path) == fingerprint(Tokenizer.from_file(str(path)))
    assert decoded(b"a") == "a"
