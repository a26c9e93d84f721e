"""Text is split as by Hugging Face tokenizers, for the pre-tokenizers of published files and for generated patterns.

A ByteLevel that prepends a space to each piece makes the splits visible. The vocabulary is the 256 bytes, and an
additional token per byte followed by a space, which only a space of the same piece can form.
"""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

import reference_tokenizers as reference
import texts_for_tokenizers as texts
from pre_tokenizers_of_models import GPT2, MODELS, PreTokenizer, byte_level, digits, sequence, split
from scale import everything, share, thinned
from tokenizer_comparison import check, hugging_face_ids, ids_of

SEED = 20260107


def cutting_json(parts: Sequence[PreTokenizer]) -> dict[str, Any]:
    """Returns a tokenizer whose ids show where these pre-tokenizers split."""
    bare = [split(GPT2) if p["type"] == "ByteLevel" else p for p in parts]
    ranks = {bytes([b]): b for b in range(256)}
    merges = [(bytes([b]), b" ") for b in range(256)]
    ranks |= {a + b: 256 + i for i, (a, b) in enumerate(merges)}
    content = reference.tokenizer_json(ranks, merges, "gpt2")
    content["pre_tokenizer"] = sequence(*bare, byte_level(prefix_space=True))
    return content


def compare(loaderd: str, path: pathlib.Path, batch: Sequence[bytes]) -> None:
    check(batch, ids_of(loaderd, path, batch), hugging_face_ids(path, batch))


@pytest.fixture(scope="module")
def batch() -> list[bytes]:
    every = texts.every_character(lambda c: f"{c}a{c} ", step=99)
    found = [
        *texts.mixtures(1_000, SEED),
        *texts.adversarial(),
        *texts.broken(200, SEED),
        *texts.sources(8),
        *texts.languages(),
        *every,
    ]
    return [*thinned(found, 8)]


@pytest.mark.parametrize(
    "model", [m for m, parts in MODELS.items() if not any(p["type"] == "ByteLevel" for p in parts[:-1])]
)
def test_cuts_of_published_files(loaderd: str, tmp_path: pathlib.Path, model: str, batch: list[bytes]) -> None:
    compare(loaderd, reference.write(tmp_path / "tokenizer.json", cutting_json(MODELS[model])), batch)


@pytest.mark.parametrize("model", MODELS)
def test_ids_of_published_pre_tokenizers(loaderd: str, tmp_path: pathlib.Path, model: str, batch: list[bytes]) -> None:
    """The same with a vocabulary trained with the pre-tokenizer itself, in one text and without prepended spaces."""
    parts = MODELS[model] if any(p["type"] == "ByteLevel" for p in MODELS[model]) else [*MODELS[model], byte_level()]
    content = reference.trained_behind(sequence(*parts))
    compare(loaderd, reference.write(tmp_path / "tokenizer.json", content), batch[::4])


# --- generated pre-tokenizers -----------------------------------------------------------------------------------------

CLASSES = [
    r"\p{L}",
    r"\p{N}",
    r"\s",
    r"\S",
    r"\w",
    r"\d",
    r"\p{P}",
    r"\p{Lu}",
    r"[^\s\p{L}]",
    "[a-f]",
    "[^a-z]",
    r"[\r\n]",
    "a",
    " ",
    "'",
    r"\.",
    "中",
    ".",
]
CLASSES += [
    r"[\p{L}\p{M}]",
    r"[^\r\n\p{L}\p{N}]",
    r"[\p{L}&&[^\p{Han}]]",
    r"\P{L}",
    r"\p{^N}",
    r"[^(\s|[.,!])]",
    r"\W",
    r"[\w-]",
    r"\x41",
    r"\u00e9",
    r"\p{Han}",
]
QUANTIFIERS = ["", "", "", "?", "*", "+", "+", "{2}", "{1,3}", "{2,}", "??", "+?", "*?"]
ENDS = ["", "", "", "", r"(?!\S)", r"(?=\s)", "(?!a)", "$", r"\b", r"\B", r"(?=(\d{3})*\b)", r"(?=(?:[a-z]{2})+(?!\w))"]
LOOKS = [r"\b", r"\B", "(?=a)", r"(?=(\d{3})+(?!\d))", r"(?=\p{L}+$)", r"(?=(?:[a-z]{2})*\b)"]
CONTRACTIONS = ["(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'(?i:[sdmt]|ll|ve|re)", "'s|'t"]


def random_pattern(rng: random.Random) -> str:
    """Returns alternatives of classes with quantifiers and lookarounds: many are refused, the others must split as
    the reference does."""

    def alternative() -> str:
        parts = [
            rng.choice(CLASSES) + rng.choice(["", "?", "{1,3}", *QUANTIFIERS[rng.randrange(12) :]])
            for _ in range(rng.randrange(2))
        ]
        parts += [rng.choice(CLASSES), rng.choice(CLASSES) + rng.choice(QUANTIFIERS)][rng.randrange(2) :]
        if rng.random() < 0.2:
            parts.append(
                f"(?:{rng.choice(CLASSES)}{rng.choice(CLASSES)}*|{rng.choice(CLASSES)})"
                f"{rng.choice(['', '?', '+', '*', '{2,3}'])}"
            )
        return "".join(parts) + rng.choice(ENDS)

    alternatives = [alternative() for _ in range(rng.randrange(1, 5))]
    if rng.random() < 0.3:
        alternatives.insert(0, rng.choice(CONTRACTIONS))
    if rng.random() < 0.2:
        alternatives.insert(rng.randrange(len(alternatives) + 1), rng.choice(LOOKS))
    return "|".join(alternatives)


def random_parts(rng: random.Random) -> list[PreTokenizer]:
    parts: list[PreTokenizer] = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        kind = rng.random()
        if kind < 0.1:
            parts.append(digits(rng.random() < 0.5))
        elif kind < 0.2:
            parts.append({"type": "Punctuation", "behavior": rng.choice(["Isolated", "Contiguous"])})
        elif kind < 0.25:
            text = rng.choice([" ", "ab", "\n", "'s", "中"])
            parts.append({**split(""), "pattern": {"String": text}, "behavior": rng.choice(["Isolated", "Contiguous"])})
        else:
            behavior, invert = rng.choice(
                [("Isolated", False)] * 4 + [("Isolated", True), ("Contiguous", False), ("Removed", True)]
            )
            parts.append(split(random_pattern(rng), behavior, invert))
    return parts


def test_generated_pre_tokenizers_cut_alike_or_are_refused(loaderd: str, tmp_path: pathlib.Path) -> None:
    rng = random.Random(SEED)
    batch = [*texts.mixtures(100, SEED + 1), *texts.adversarial()[-60:]]
    accepted = 0
    for k in range(share(60, 3)):
        path = reference.write(tmp_path / f"{k}.json", cutting_json(parts := random_parts(rng)))
        done = subprocess.run([loaderd, "tokenize", "--tokenizer", path], input=b"", capture_output=True)
        if done.returncode:
            assert b"application/vnd.loaderd.tokens" in done.stderr, (parts, done.stderr)
            continue
        accepted += 1
        try:
            compare(loaderd, path, batch)
        except pytest.fail.Exception as failure:
            pytest.fail(f"{json.dumps(parts)}: {failure}")
    assert accepted > share(12, 3)


@everything
def test_every_character_has_the_references_properties(loaderd: str, tmp_path: pathlib.Path) -> None:
    """All of Unicode, each character once: splits at every change of the general category, and of the other
    properties."""
    categories = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    batch = ["".join(points[i : i + 4096]).encode() for i in range(0, len(points), 4096)]
    for name, parts in {
        "category": [split("|".join(rf"\p{{{c}}}+" for c in categories))],
        "others": [
            split(r"\w+"),
            split(r"[\w-]+"),
            split(r"\s+"),
            split(r"\p{Han}+"),
            digits(False),
            {"type": "Punctuation", "behavior": "Contiguous"},
        ],
    }.items():
        compare(loaderd, reference.write(tmp_path / f"{name}.json", cutting_json(parts)), batch)
