"""`loaderd tokenize` gives the ids of Hugging Face tokenizers and of tiktoken, compared live on every kind of text."""

from __future__ import annotations

import base64
import json
import pathlib
import random
import subprocess
import sysconfig
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import reference_tokenizers as reference
from tokenizers import Tokenizer

SEED = 20260101

# --- texts ------------------------------------------------------------------------------------------------------------


def sources() -> list[bytes]:
    """About 1 MB of the source trees of Go and of Python: every n-th file, so that every folder has its share."""
    goroot = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
    texts = []
    for folder, pattern in ((pathlib.Path(goroot, "src"), "*.go"), (sysconfig.get_path("stdlib"), "*.py")):
        files = sorted(path for path in pathlib.Path(folder).rglob(pattern) if path.stat().st_size < 200_000)
        texts += [path.read_bytes() for path in files[:: max(1, len(files) // 40)]]
    return texts


def every_character() -> list[bytes]:
    """Every code point but the surrogates and most of the unassigned planes, among letters, digits, spaces and marks."""
    points = [*range(0xD800), *range(0xE000, 0x32000), *range(0x32000, 0xE0000, 199), *range(0xE0000, 0xE0200)]
    points += range(0xE0200, 0x110000, 199)
    texts = []
    for i in range(0, len(points), 64):
        texts.append("".join(f"a{c}B {c}1{c}'s\n" for c in map(chr, points[i : i + 64])))
    return [t.encode() for t in texts]


def borders() -> list[str]:
    """Characters where the general category changes, and those that patterns treat in a way of their own."""
    found = []
    for c in range(1, 0x32000):
        if not 0xD800 <= c - 1 < 0xE000 and not 0xD800 <= c < 0xE000:
            if unicodedata.category(chr(c)) != unicodedata.category(chr(c - 1)):
                found += [chr(c - 1), chr(c)]
    return found


def mixtures(count: int) -> list[bytes]:
    """Short random strings: mostly what patterns treat in a way of their own, and characters around class borders."""
    rng = random.Random(SEED)
    special = list(" \t\r\n\v\f\x00\x1c\x85\xa0\u2028\u3000'’/aAbBsStTlLrReEvVmMdD019.,!?-_<|>") + ["ſ", "K", "\n\n", "  "]
    special += ["'s", "'S", "'ſ", "'ll", "'LL", "'lL", "'Re", "'t", "ǅ", "ʰ", "ª", "中", "ا", "\u0301", "👩\u200d🔬", "½", "²"]
    special += ["<|endoftext|>", "<|endofprompt|>", "<|end"]
    wide = borders()
    texts = []
    for _ in range(count):
        weight = rng.random()
        n = rng.randrange(1, 90)
        texts.append("".join(rng.choice(wide if rng.random() < weight * weight else special) for _ in range(n)))
    return [t.encode() for t in texts]


def broken(count: int) -> list[bytes]:
    """Invalid UTF-8: random bytes, cut characters, surrogates, overlong forms, beyond U+10FFFF."""
    rng = random.Random(SEED)
    parts = [b"\xed\xa0\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xff", b"\xfe"]
    parts += [b"\xe4\xb8", b"\xf0\x9f\x98", b"\xf0\x9f", b"\x80", b"\xbf\xbf", b" a", b"'s", b"\n", "中é".encode(), b"\xf5\x80"]
    texts = [bytes([a, b, c]) for a in (0x41, 0xC2, 0xE1, 0xED, 0xF1, 0xF4) for b in (0x7F, 0x80, 0x90, 0xC3) for c in (0x20, 0xBF)]
    for _ in range(count):
        texts.append(b"".join(rng.choice(parts) for _ in range(rng.randrange(1, 30))))
        texts.append(rng.randbytes(rng.randrange(1, 60)))
    return texts


def adversarial() -> list[bytes]:
    """Long runs, and strings at which tokenizers have gone wrong."""
    long = 4_000
    texts = [unit * (long // len(unit)) for unit in ("a", "A", "1", "'", "/", "é", "中", "👩‍🔬", "e\u0301", "ab", "\u0301")]
    texts += [unit * 1_000 for unit in (" ", "\n", "\r\n", " \n", "\t", "\u3000", "\xa0")]
    texts += [f"x{s}y" for s in texts[-7:]] + ["", " ", "\n", "  \n ", "a\n  ", "\n \n \n  x", " \r\n\r\n \t", "\x00", "'", "''s's"]
    texts += ["it'ſ IT'S we'LL'd'", "don't won't Don'T", "12345678", " 123 456", "1½²٣", "HTTPServer's XMLHttpRequest'LLx"]
    texts += ["!!!\n\n//\n/x", "...\r\n/a", "a//\n//b", "<|endoftext|>", "x<|endoftext|><|endoftext|> y", "<|endoftext|", "🇩🇪🇫🇷"]
    texts += ["a" * k + " " * j + "\n" * i + "b" for k in (0, 1, 62, 63, 64, 65) for j in range(4) for i in range(4)]
    return [t.encode() for t in texts]


CORPORA = {
    "sources": sources,
    "every character": every_character,
    "mixtures": lambda: mixtures(3_000),
    "broken": lambda: broken(1_000),
    "adversarial": adversarial,
}


@pytest.fixture(scope="session", params=CORPORA)
def corpus(request: pytest.FixtureRequest) -> list[bytes]:
    return CORPORA[request.param]()


def decoded(text: bytes) -> str:
    return text.decode("utf-8", errors="replace")


# --- comparing --------------------------------------------------------------------------------------------------------


def run(loaderd: str, args: Sequence[str], lines: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    source = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([loaderd, "tokenize", *args], input=source.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def ids_of(loaderd: str, tokenizer: str | pathlib.Path, texts: Sequence[bytes], *flags: str) -> list[list[int]]:
    """The ids of loaderd: text as "base64", every other valid one as "text"."""

    def lines() -> Iterator[dict[str, Any]]:
        for i, text in enumerate(texts):
            if i % 2 and decoded(text).encode() == text:
                yield {"id": i, "text": decoded(text)}
            else:
                yield {"id": i, "base64": base64.b64encode(text).decode()}

    out = run(loaderd, ["--tokenizer", str(tokenizer), *flags], lines())
    assert [line["id"] for line in out] == list(range(len(texts)))
    return [line["ids"] for line in out]


def check(texts: Sequence[bytes], got: Sequence[list[int]], want: Sequence[list[int]]) -> None:
    assert len(got) == len(want) == len(texts)
    for text, g, w in zip(texts, got, want, strict=True):
        if list(g) != list(w):
            at = next((k for k, (a, b) in enumerate(zip(g, w, strict=False)) if a != b), min(len(g), len(w)))
            pytest.fail(f"{text[:200]!r}: from id {at} on loaderd gives {g[at : at + 8]}, the reference {w[at : at + 8]}")


def hugging_face_ids(path: pathlib.Path, texts: Sequence[bytes], special_as_text: bool = False) -> list[list[int]]:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = special_as_text
    encoded = tokenizer.encode_batch_fast([decoded(t) for t in texts], add_special_tokens=False)
    return [e.ids for e in encoded]


# --- built-in vocabularies --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    folder = tmp_path_factory.mktemp("converted")
    return {n: reference.write(folder / f"{n}.json", reference.builtin_json(n)) for n in reference.BUILTIN}


@pytest.mark.parametrize("name", reference.BUILTIN)
def test_builtin_equals_both_references(
    loaderd: str, name: str, corpus: list[bytes], converted: dict[str, pathlib.Path]
) -> None:
    got = ids_of(loaderd, name, corpus)
    encoding = reference.tiktoken_encoding(name)
    check(corpus, got, [encoding.encode(decoded(t), allowed_special="all") for t in corpus])
    check(corpus, got, hugging_face_ids(converted[name], corpus))


@pytest.mark.parametrize("name", reference.BUILTIN)
def test_converted_file_equals_builtin(loaderd: str, name: str, converted: dict[str, pathlib.Path]) -> None:
    texts = mixtures(2_000) + adversarial()
    check(texts, ids_of(loaderd, converted[name], texts), ids_of(loaderd, name, texts))


@pytest.mark.parametrize("name", reference.BUILTIN)
def test_special_tokens_as_text(loaderd: str, name: str, converted: dict[str, pathlib.Path]) -> None:
    texts = [t for t in mixtures(2_000) + adversarial() if b"<|" in t]
    got = ids_of(loaderd, name, texts, "--special-as-text")
    check(texts, got, [reference.tiktoken_encoding(name).encode_ordinary(decoded(t)) for t in texts])
    check(texts, got, hugging_face_ids(converted[name], texts, special_as_text=True))


def test_each_maximal_subpart_of_invalid_utf8_is_one_replacement_character(loaderd: str) -> None:
    texts = {b"\xf0\x9f\x98": 1, b"\xe4\xb8a": 1, b"\xed\xa0\x80": 3, b"\xc0\x80": 2, b"\xf4\x90\x80\x80": 4, b"\xe1\x80\xe1": 2}
    for text, count in texts.items():
        assert decoded(text).count("\ufffd") == count, "Python replaces maximal subparts"
    want = ids_of(loaderd, "gpt2", [decoded(t).encode() for t in texts])
    assert ids_of(loaderd, "gpt2", list(texts)) == want


# --- files with options on and off ------------------------------------------------------------------------------------

ADDED = [
    {"content": "<|endoftext|>"},
    {"content": "<|end"},
    {"content": "<|x|>", "special": False},
    {"content": "|><", "special": False, "normalized": True},
    {"content": "the", "special": False},
    {"content": " of", "special": False, "normalized": True},
    {"content": "é", "special": False, "normalized": True},
    {"content": "中中", "special": True},
    {"content": "\n\n", "special": False},
]

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ignore_merges": {"ignore_merges": True},
    "pairs": {"joined": False},
    "added": {"added": ADDED},
    "nfc": {"normalizer": "NFC"},
    "nfc added": {"normalizer": "NFC", "added": ADDED},
    "added ignore_merges": {"added": ADDED, "ignore_merges": True},
}
MERGES = {"trained": lambda r: reference.merges_of(r), "all splits": reference.all_splits}
MERGES["shuffled"] = lambda r: reference.shuffled(reference.merges_of(r), SEED)
MERGES["twice"] = lambda r: reference.merges_of(r) + reference.merges_of(r)[::-3]
MERGES["some"] = lambda r: reference.merges_of(r)[::2]
CASES = [(p, "trained", o) for p in reference.PATTERNS for o in OPTIONS]
CASES += [("cl100k", m, o) for m in MERGES for o in OPTIONS if m != "trained"]


def small_file(folder: pathlib.Path, pattern: str, merges: str = "trained", **options: Any) -> pathlib.Path:
    ranks = reference.ranks_of(reference.trained(pattern))
    # ids in the file are not those that the reference gives: the vocabulary lacks them
    options["added"] = [{"id": 5000 + 7 * i, **a} for i, a in enumerate(options.get("added", []))]
    content = reference.tokenizer_json(ranks, MERGES[merges](ranks), pattern, **options)
    return reference.write(folder / "tokenizer.json", content)


@pytest.mark.parametrize(("pattern", "merges", "option"), CASES)
def test_small_files(loaderd: str, tmp_path: pathlib.Path, pattern: str, merges: str, option: str) -> None:
    texts = mixtures(500) + adversarial() + [b"<|end<|endoftext|><|x|><of the<|x|> of the\n\n\n"]
    path = small_file(tmp_path, pattern, merges, **OPTIONS[option])
    check(texts, ids_of(loaderd, path, texts), hugging_face_ids(path, texts))


@pytest.mark.parametrize("pattern", reference.PATTERNS)
def test_small_file_with_special_tokens_as_text(loaderd: str, tmp_path: pathlib.Path, pattern: str) -> None:
    texts = [b"<|end<|endoftext|><|x|><of the<|x|> of the\n\n\n", "中中中|><|end".encode(), *mixtures(1_000)]
    path = small_file(tmp_path, pattern, added=ADDED)
    check(texts, ids_of(loaderd, path, texts, "--special-as-text"), hugging_face_ids(path, texts, special_as_text=True))


def combining(count: int) -> list[bytes]:
    """Characters that normalization changes, joins or moves, in random order."""
    rng = random.Random(SEED)
    marks = [chr(c) for c in range(0x32000) if unicodedata.combining(chr(c))]
    bases = [chr(c) for c in range(0x32000) if unicodedata.decomposition(chr(c))[:1] not in ("", "<")]
    bases += [d for c in bases[::7] for d in unicodedata.normalize("NFD", c)] + list("aAeEoO <\n1")
    bases += [chr(c) for r in (range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A7, 0x11C4)) for c in r] * 20
    bases += [chr(c) for c in range(0xAC00, 0xD7A4, 5)]
    texts = []
    for _ in range(count):
        few = rng.sample(marks, 8) + list("\u0301\u0323\u0345")
        texts.append("".join(rng.choice(few if rng.random() < 0.5 else bases) for _ in range(rng.randrange(1, 60))))
    return [t.encode() for t in texts] + [("a" + "\u0301\u0323" * 40 + "b").encode()]


def test_normalization_form_c(loaderd: str, tmp_path: pathlib.Path) -> None:
    path = small_file(tmp_path, "qwen", normalizer="NFC")
    points = [c for c in range(0x32000) if not 0xD800 <= c < 0xE000]
    for texts in (
        combining(4_000),
        ["".join(f"{chr(c)} a{chr(c)}\u0301{chr(c)}" for c in points[i : i + 64]).encode() for i in range(0, len(points), 64)],
    ):
        check(texts, ids_of(loaderd, path, texts), hugging_face_ids(path, texts))


@pytest.mark.parametrize("added", [[], ADDED], ids=["plain", "added"])
def test_space_before_text(loaderd: str, tmp_path: pathlib.Path, added: list[dict[str, Any]]) -> None:
    texts = mixtures(2_000) + adversarial() + [b"a<|x|>b<|x|> c<|x|>", b"the", b" of of"]
    path = small_file(tmp_path, "gpt2", added=added, prefix_space=True)
    check(texts, ids_of(loaderd, path, texts), hugging_face_ids(path, texts))


def test_file_as_the_reference_writes_it(loaderd: str, tmp_path: pathlib.Path, corpus: list[bytes]) -> None:
    texts = corpus[::8]
    for pattern in reference.PATTERNS:
        path = reference.write(tmp_path / "tokenizer.json", reference.trained(pattern))
        check(texts, ids_of(loaderd, path, texts), hugging_face_ids(path, texts))


# --- the way back, and bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", reference.BUILTIN)
def test_decode_is_the_way_back(loaderd: str, name: str) -> None:
    texts = mixtures(500) + adversarial()
    ids = ids_of(loaderd, name, texts)
    out = run(loaderd, ["--tokenizer", name, "--decode"], ({"id": {"n": i}, "ids": x} for i, x in enumerate(ids)))
    assert [line["id"]["n"] for line in out] == list(range(len(texts)))
    assert [line["text"].encode() for line in out] == texts
    [half] = run(loaderd, ["--tokenizer", name, "--decode"], iter([{"ids": ids_of(loaderd, name, ["👩".encode()])[0][:1]}]))
    assert "👩".encode().startswith(base64.b64decode(half["base64"]))


REFUSED = {
    "normalizer": {"normalizer": {"type": "Lowercase"}},
    "pre_tokenizer": {"pre_tokenizer": {"type": "Whitespace"}},
    "truncation": {"truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}},
    "single_word": {"added_tokens": [{"id": 1, "content": "z", "single_word": True}]},
    "dropout": {"model": {"dropout": 0.1}},
    "byte_fallback": {"model": {"byte_fallback": True}},
    "end_of_word_suffix": {"model": {"end_of_word_suffix": "</w>"}},
}


@pytest.mark.parametrize("component", REFUSED)
def test_unverified_file_is_refused_by_name(loaderd: str, tmp_path: pathlib.Path, component: str) -> None:
    content = json.loads(json.dumps(reference.trained("gpt2")))
    for key, value in REFUSED[component].items():
        content[key] = {**content[key], **value} if key == "model" else value
    path = reference.write(tmp_path / "tokenizer.json", content)
    done = subprocess.run([loaderd, "tokenize", "--tokenizer", path], input=b"", capture_output=True)
    assert done.returncode != 0
    assert component in done.stderr.decode()
    assert "application/vnd.loaderd.tokens" in done.stderr.decode()
