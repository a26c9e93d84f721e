"""Added tokens: every combination of their flags gives the ids of Hugging Face tokenizers."""

from __future__ import annotations

import base64
import itertools
import json
import pathlib
import random
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from tokenizers import Tokenizer

import reference_tokenizers as reference
from scale import everything, quick

SEED = 20260104
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

# The components of tokens and texts: contents that overlap, begin and end with spaces, are changed by normalization, or
# are in the vocabulary.
CONTENTS = [
    "<x>",
    "<x",
    "x>",
    "<",
    "ab",
    "abc",
    "bc b",
    " ab",
    "ab ",
    " ",
    "  ",
    "\n",
    "\n\n",
    " \n",
    "e\u0301",
    "é",
    "\u0301",
    "_a",
    "1",
]
CONTENTS += [
    "中",
    "中中",
    "a中",
    "<x><x>",
    "<x>  ",
    "\u2581",
    "\u2581\u2581",
    "\u2581ab",
    "²",
    "\u200d",
    "'s",
    "aaaab",
    "aaa",
    "<|end|>",
    "Ġ",
    "Ã",
]
BETWEEN = [
    " ",
    "  ",
    "\n",
    "\t",
    "\u3000",
    "\x85",
    "a",
    "b",
    "_",
    "1",
    "²",
    "\u200c",
    "é",
    "e\u0301",
    "\u0301",
    ".",
    "<",
    "x",
    "中",
    "\u2581",
    "aa",
    "''",
]

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
UNDERLINE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
PREPEND = {"type": "Prepend", "prepend": "\u2581"}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}


QUICK = ("bytes", "bytes nfc", "characters", "characters metaspace")


def sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(parts)}


SHAPES: dict[str, tuple[str, dict[str, Any] | None, dict[str, Any] | None]] = {
    "bytes": ("bytes", None, BYTE_LEVEL),
    "bytes nfc": ("bytes", {"type": "NFC"}, BYTE_LEVEL),
    "bytes space": ("bytes", None, {**BYTE_LEVEL, "add_prefix_space": True}),
    "characters": ("characters", sequence(PREPEND, UNDERLINE), None),
    "characters underline": ("characters", UNDERLINE, None),
    "characters word mark": ("characters", {**UNDERLINE, "content": "_"}, None),
    "characters wide space": ("characters", {**UNDERLINE, "content": "\u3000"}, None),
    "characters newline": ("characters", {**UNDERLINE, "content": "\n"}, None),
    "characters metaspace": ("characters", None, METASPACE),
    "characters metaspace always": ("characters", None, {**METASPACE, "prepend_scheme": "always"}),
}


def model(kind: str) -> dict[str, Any]:
    options = {"dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    if kind == "bytes":
        symbols = list(reference.byte_alphabet().values())
        merges = [("a", "b"), ("Ġ", "ab"), ("ab", "c"), ("Ġ", "Ġ"), ("Ã", "©")]
    else:
        options["unk_token"] = "<unk>"
        symbols = ["<unk>", *(f"<0x{b:02X}>" for b in range(256)), *"abcex<>1_\u2581中."]
        merges = [("a", "b"), ("\u2581", "ab"), ("ab", "c"), ("\u2581", "\u2581"), ("中", "中")]
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*symbols, *(a + b for a, b in merges)]))}
    fallback = {"fuse_unk": kind != "bytes", "byte_fallback": kind != "bytes", "ignore_merges": False}
    return {"type": "BPE", **options, **fallback, "vocab": vocab, "merges": [" ".join(pair) for pair in merges]}


def file_with(shape: str, added: Sequence[dict[str, Any]]) -> dict[str, Any]:
    kind, normalizer, pre_tokenizer = SHAPES[shape]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": 50_000 - i, **token} for i, token in enumerate(added)],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": None,
        "model": model(kind),
    }


def token(content: str, *flags: str) -> dict[str, Any]:
    return {"content": content, **{name: name in flags for name in FLAGS}}


def reference_of(content: dict[str, Any]) -> Tokenizer | None:
    """Returns the reference's tokenizer, or None if it refuses the tokens (equal ones after normalization)."""
    try:
        return Tokenizer.from_str(json.dumps(content))
    except Exception as error:
        assert "duplicate" in str(error) or "empty" in str(error), error
        return None


def compare(
    loaderd: str, path: pathlib.Path, content: dict[str, Any], texts: Sequence[str], as_text: bool = False
) -> int:
    """Returns how many texts were compared: the reference panics where tokens with rstrip and lstrip overlap."""
    path.write_text(json.dumps(content), encoding="utf-8")
    lines = "".join(json.dumps({"base64": base64.b64encode(t.encode()).decode()}) + "\n" for t in texts)
    command = [loaderd, "tokenize", "--tokenizer", path, *(["--special-as-text"] if as_text else [])]
    done = subprocess.run(command, input=lines.encode(), capture_output=True)
    tokenizer = reference_of(content)
    if tokenizer is None:
        assert b"normalized" in done.stderr and done.returncode != 0, content["added_tokens"]
        return 0
    assert done.returncode == 0, done.stderr.decode()
    got = [json.loads(line)["ids"] for line in done.stdout.splitlines()]
    tokenizer.encode_special_tokens = as_text
    compared = 0
    for text, ids, want in zip(texts, got, reference_ids(tokenizer, texts), strict=True):
        if want is not None:
            compared += 1
            assert ids == want, f"{text!r} with {[t for t in content['added_tokens'] if t['content'] in text]}"
    return compared


def reference_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int] | None]:
    """Returns None where the reference panics."""
    try:
        return [e.ids for e in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
    except BaseException as error:
        assert "PanicException" in type(error).__name__
        return [None] if len(texts) == 1 else [ids for text in texts for ids in reference_ids(tokenizer, [text])]


def random_text(rng: random.Random, contents: Sequence[str]) -> str:
    return "".join(rng.choice(contents if rng.random() < 0.5 else BETWEEN) for _ in range(rng.randrange(1, 14)))


@pytest.mark.parametrize("shape", quick(SHAPES, QUICK))
def test_every_combination_of_flags(loaderd: str, tmp_path: pathlib.Path, shape: str) -> None:
    """One token with each of the 32 combinations, with all kinds of neighbours."""
    rng = random.Random(SEED)
    compared = 0
    for flags in itertools.product((False, True), repeat=len(FLAGS)):
        on = [name for name, value in zip(FLAGS, flags, strict=True) if value]
        one, other = rng.sample(CONTENTS, 2)
        content = file_with(shape, [token(one, *on), token("<x>", "special") if one != "<x>" else token("ab", *on)])
        texts = [
            f"{a}{b}{one}{c}{d}"
            for a, b, c, d in itertools.product(("", "a "), BETWEEN[::4], BETWEEN[::3], ("", " a", one, "<x>"))
        ]
        texts += [random_text(rng, [one, other, "<x>", "ab"]) for _ in range(100)]
        compared += compare(loaderd, tmp_path / "tokenizer.json", content, texts, rng.random() < 0.3)
    assert compared > 8_000


@pytest.mark.parametrize("shape", quick(SHAPES, QUICK))
def test_tokens_that_overlap(loaderd: str, tmp_path: pathlib.Path, shape: str) -> None:
    """Several tokens with random flags, some of the vocabulary, in random texts of them."""
    rng = random.Random(SEED + 1)
    compared = 0
    for _ in range(25):
        chosen = rng.sample(CONTENTS, rng.randrange(1, 9))
        added = [token(c, *(name for name in FLAGS if rng.random() < 0.3)) for c in chosen]
        texts = [random_text(rng, [*chosen, rng.choice(CONTENTS)]) for _ in range(250)]
        compared += compare(loaderd, tmp_path / "tokenizer.json", file_with(shape, added), texts, rng.random() < 0.3)
    assert compared > 3_000


@everything
def test_every_character_beside_a_single_word(loaderd: str, tmp_path: pathlib.Path) -> None:
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    texts = ["".join(f"@@{c}@@ {c}# " for c in points[i : i + 32]) for i in range(0, len(points), 32)]
    content = file_with("bytes", [token("@@", "single_word"), token("#", "lstrip")])  # @@ is not in the vocabulary
    assert compare(loaderd, tmp_path / "tokenizer.json", content, texts) == len(texts)


def test_many_thousands_of_tokens(loaderd: str, tmp_path: pathlib.Path) -> None:
    rng = random.Random(SEED + 2)
    names = sorted({"".join(rng.choice("ab<x ") for _ in range(rng.randrange(2, 12))) for _ in range(20_000)})
    added = [token(name, *(("normalized",) if i % 3 else ())) for i, name in enumerate(names)]
    texts = ["".join(rng.choice("ab<x 1") for _ in range(rng.randrange(1, 400))) for _ in range(300)]
    assert compare(loaderd, tmp_path / "tokenizer.json", file_with("bytes", added), texts) == len(texts)
