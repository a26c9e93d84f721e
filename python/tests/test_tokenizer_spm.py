"""SentencePiece-style BPE: loaderd gives the ids of Hugging Face tokenizers, with every option on and off."""

from __future__ import annotations

import functools
import json
import pathlib
import random
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import reference_tokenizers as reference
from scale import share
from texts_for_tokenizers import adversarial, broken, mixtures, sources
from tokenizer_comparison import check, hugging_face_ids, ids_of

SEED = 20260107
MARK = "\u2581"
BYTES = [f"<0x{b:02X}>" for b in range(256)]
MULTILINGUAL = (
    "naïve façade 中文字符 中文 ここ Ünïcödé été Привет мир سلام 안녕하세요 😀😀 👩\u200d🔬 ½ ﬁ 12 123 1234 \n\n\n  \t x    y "  # noqa: E501 - wide characters count twice
    * 40
)


# --- small vocabularies -----------------------------------------------------------------------------------------------


@functools.cache
def trained(words: bool) -> dict[str, Any]:
    """Returns the model of a small tokenizer that the reference trains: on words, or on lines, so that tokens
    contain spaces."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=words)
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=["<unk>", "<s>", "</s>", *BYTES], limit_alphabet=150, show_progress=False
    )
    paths = sorted((reference.ROOT / "loader").glob("*.go"))[:12]
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").split("\n")]
    tokenizer.train_from_iterator([*lines, *(MULTILINGUAL[i : i + 30] for i in range(0, 3000, 30))], trainer)
    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    return model


def every_split(vocab: dict[str, int]) -> list[list[str]]:
    """Returns every way to join two tokens to a third, as written by converters that have scores but no merges."""
    merges = []
    for token in sorted(vocab, key=lambda t: vocab[t]):
        if not token.startswith("<"):
            cuts = [[token[:i], token[i:]] for i in range(1, len(token)) if token[:i] in vocab and token[i:] in vocab]
            merges += sorted(cuts, key=lambda cut: (vocab[cut[0]], vocab[cut[1]]))
    return merges


def small_model(rng: random.Random) -> dict[str, Any]:
    model = dict(trained(rng.random() < 0.6))
    vocab, merges = dict(model["vocab"]), model["merges"]
    way = rng.choice(["trained", "every split", "shuffled", "some", "twice"])
    if way == "every split":
        merges = every_split(vocab)
    elif way == "shuffled":
        merges = rng.sample(merges, len(merges))
    elif way == "some":
        merges = merges[::2]
    elif way == "twice":
        merges = merges + merges[::-3]
    if rng.random() < 0.3:
        merges = [" ".join(m) for m in merges]
    if rng.random() < 0.3:  # characters of the text's own alphabet are missing, and the merges with them
        gone = set(rng.sample("aeinrst.,(){}=éм中0", 5))
        vocab = {token: i for token, i in vocab.items() if not gone & set(token) or token.startswith("<")}
        merges = [m for m in merges if not gone & set("".join(m))]
    for byte in rng.sample(BYTES, rng.choice([0, 0, 3, 200])):
        vocab.pop(byte, None)
    for extra in rng.sample(
        ["\n\n", " ", "a b", f"a{MARK}b", "func main()", f"{MARK}{MARK}{MARK}", "the end", "\t\t"], 4
    ):
        vocab.setdefault(extra, 3000 + len(vocab))
    vocab = {token: i for i, token in enumerate(sorted(vocab, key=lambda t: vocab[t]))}
    return model | {
        "vocab": vocab,
        "merges": merges,
        "unk_token": rng.choice(["<unk>", "<unk>", None, "a", "e"]) if "a" in vocab and "e" in vocab else None,
        "fuse_unk": rng.random() < 0.5,
        "byte_fallback": rng.random() < 0.6,
        "ignore_merges": rng.random() < 0.3,
        "dropout": rng.choice([None, 0.0]),
    }


def prepend(text: str) -> dict[str, Any]:
    return {"type": "Prepend", "prepend": text}


def replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def metaspace(**options: Any) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": MARK, **options}


def space_split(behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"String": " "}, "behavior": behavior, "invert": False}


UNDERLINE = replace(" ", MARK)
NORMALIZERS: list[list[dict[str, Any]]] = [
    [],
    [UNDERLINE],
    [prepend(MARK), UNDERLINE],
    [UNDERLINE, prepend(MARK)],
    [prepend(" x "), UNDERLINE],
    [prepend("a"), prepend(MARK), UNDERLINE, prepend("b")],
    [UNDERLINE, prepend(" ")],
    [replace("\n", " \n"), UNDERLINE],
    [UNDERLINE, replace(MARK * 2, MARK)],
    [UNDERLINE, replace("a", " ")],
    [replace("aa", "a"), replace("the", ""), UNDERLINE],
    [{"type": "NFC"}, UNDERLINE],
    [UNDERLINE, {"type": "NFC"}],
    [{"type": "NFKC"}, prepend(MARK), UNDERLINE],
    [UNDERLINE, {"type": "NFKC"}],
    [replace(" ", "é")],
    [replace(" ", "中"), prepend("中")],
    [replace(" ", "__")],
    [replace(" ", "")],
    [{"type": "Sequence", "normalizers": [prepend(MARK), {"type": "Sequence", "normalizers": [UNDERLINE]}]}],
]
PRE_TOKENIZERS: list[dict[str, Any] | None] = [
    None,
    {"type": "Sequence", "pretokenizers": []},
    *(metaspace(prepend_scheme=scheme, split=split) for scheme in ("always", "never") for split in (True, False)),
    metaspace(prepend_scheme="first"),
    metaspace(prepend_scheme="first", split=False),
    metaspace(),
    {"type": "Metaspace", "replacement": "_"},
    {"type": "Metaspace", "replacement": " ", "split": False},
    {"type": "Metaspace", "replacement": "é", "prepend_scheme": "first"},
    {"type": "Sequence", "pretokenizers": [metaspace(split=False), space_split("Removed")]},
]
SPLITS = [space_split(b) for b in ("MergedWithPrevious", "MergedWithNext", "Removed", "Isolated", "Contiguous")]

ADDED = [
    {"content": "<s>", "special": True, "normalized": False},
    {"content": "</s>", "special": True, "normalized": True},
    {"content": "<|x|>", "special": False, "normalized": False},
    {"content": "a b", "special": False, "normalized": True},
    {"content": MARK + "of", "special": False, "normalized": True},
    {"content": "\n\n", "special": False, "normalized": False},
]


def small_file(rng: random.Random, normalizer: list[dict[str, Any]]) -> dict[str, Any]:
    pre_tokenizer = rng.choice(PRE_TOKENIZERS)
    if normalizer in ([UNDERLINE], [prepend(MARK), UNDERLINE]) and rng.random() < 0.5:
        pre_tokenizer = rng.choice(SPLITS)
    if "first" in json.dumps(pre_tokenizer):
        normalizer = rng.choice([[], [UNDERLINE], [replace(" ", "中")]])
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": 9000 + i, **flags, **a} for i, a in enumerate(ADDED)] if rng.random() < 0.6 else [],
        "normalizer": normalizer[0] if len(normalizer) == 1 else {"type": "Sequence", "normalizers": normalizer},
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": None,
        "model": small_model(rng),
    }


# --- texts ------------------------------------------------------------------------------------------------------------


@functools.cache
def texts() -> list[bytes]:
    rng = random.Random(SEED)
    parts = [
        " ",
        "  ",
        " " * 7,
        MARK,
        MARK * 2,
        "\n",
        "\n\n",
        "\t",
        "_",
        "__",
        "é",
        "e\u0301",
        "中",
        "文",
        "😀",
        "\u0301",
        "<s>",
        "</s>",
    ]
    parts += [
        "<|x|>",
        "a",
        "b",
        "aa",
        "a b",
        " of",
        "the",
        "the end",
        "func",
        "main()",
        "func main()",
        "<0x0A>",
        "<unk>",
        "err != nil",
    ]
    parts += ["\xa0", "\u3000", "ﬁ", "\x00", "ö", "м", "a" * 50, "ab" * 30, " a" * 30, "中文" * 20, "\ufffd"]
    found = []
    for _ in range(400):
        few = rng.sample(parts, rng.randrange(2, len(parts)))
        found.append("".join(rng.choice(few) for _ in range(rng.randrange(1, 40))).encode())
    lines = [line for text in sources()[::8] for line in text.split(b"\n\n")]
    found += [*rng.sample(lines, 100), MULTILINGUAL.encode(), *mixtures(100), *broken(40)]
    found += [t[:1500] for t in adversarial()[::3]]
    return [
        *found,
        b"",
        b" ",
        MARK.encode(),
        b"  ",
        b"<s>",
        b"<s> a",
        b" <s> a",
        b"a<s>",
        b"</s>",
        b"func main()",
        b"a b",
    ]


# --- comparing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(NORMALIZERS)))
def test_small_files(loaderd: str, tmp_path: pathlib.Path, number: int) -> None:
    for k in range(share(4, 4)):
        rng = random.Random(f"{SEED} {number} {k}")
        path = reference.write(tmp_path / "tokenizer.json", small_file(rng, NORMALIZERS[number]))
        check(texts(), ids_of(loaderd, path, texts()), hugging_face_ids(path, texts()))


def refusals() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the expected name in the error, and the change of a file."""
    yield "Regex", {"normalizer": {"type": "Replace", "pattern": {"Regex": " +"}, "content": MARK}}
    yield "Precompiled", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}}
    yield "Nmt", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}]}}
    yield "first", {"normalizer": prepend(MARK), "pre_tokenizer": metaspace(prepend_scheme="first")}
    several = {"type": "Replace", "pattern": {"String": "a"}, "content": "e\u0301"}
    yield "first", {"normalizer": several, "pre_tokenizer": metaspace(prepend_scheme="first")}
    yield "Prepend", {"normalizer": prepend("")}
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": " "}
    yield "Split", {"normalizer": spaces, "pre_tokenizer": space_split("Isolated")}
    yield "Whitespace", {"pre_tokenizer": {"type": "Whitespace"}}
    yield "MergedWithNext", {"normalizer": None, "pre_tokenizer": space_split("MergedWithNext")}
    yield "end_of_word_suffix", {"model": {"end_of_word_suffix": "</w>"}}
    yield "continuing_subword_prefix", {"model": {"continuing_subword_prefix": "##"}}
    yield "dropout", {"model": {"dropout": 0.1}}
    yield "unk_token", {"model": {"unk_token": "<nothing>", "byte_fallback": False}}


@pytest.mark.parametrize(("name", "change"), list(refusals()))
def test_unverified_file_is_refused_by_name(
    loaderd: str, tmp_path: pathlib.Path, name: str, change: dict[str, Any]
) -> None:
    content: dict[str, Any] = {"version": "1.0", "added_tokens": [], "normalizer": UNDERLINE, "pre_tokenizer": None}
    content["model"] = trained(True)
    for key, value in change.items():
        content[key] = {**content[key], **value} if key == "model" else value
    path = reference.write(tmp_path / "tokenizer.json", content)
    done = subprocess.run([loaderd, "tokenize", "--tokenizer", path], input=b"", capture_output=True)
    assert done.returncode != 0
    assert name in done.stderr.decode()
