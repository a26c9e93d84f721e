"""`loaderd tokenize` gives the ids of Hugging Face tokenizers and of tiktoken, compared live on every kind of text."""

from __future__ import annotations

import base64
import json
import pathlib
import random
import subprocess
import unicodedata
from typing import Any

import pytest

import reference_tokenizers as reference
from scale import quick, share, thinned
from texts_for_tokenizers import SEED, adversarial, broken, every_character, mixtures, sources
from tokenizer_comparison import check, decoded, hugging_face_ids, ids_of, run

CORPORA = {
    "sources": lambda: sources(share(40, 4)),
    "every character": lambda: [*thinned(every_character(lambda c: f"a{c} {c}1"), 4)],
    "mixtures": lambda: mixtures(share(3_000, 4)),
    "broken": lambda: broken(share(1_000, 4)),
    "adversarial": adversarial,
}


@pytest.fixture(scope="session", params=CORPORA)
def corpus(request: pytest.FixtureRequest) -> list[bytes]:
    return CORPORA[request.param]()


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


@pytest.mark.parametrize("name", quick(reference.BUILTIN, ["gpt2", "cl100k_base"]))
def test_converted_file_equals_builtin(loaderd: str, name: str, converted: dict[str, pathlib.Path]) -> None:
    texts = mixtures(share(2_000, 4)) + adversarial()
    check(texts, ids_of(loaderd, converted[name], texts), ids_of(loaderd, name, texts))


@pytest.mark.parametrize("name", quick(reference.BUILTIN, ["gpt2", "o200k_base"]))
def test_special_tokens_as_text(loaderd: str, name: str, converted: dict[str, pathlib.Path]) -> None:
    texts = [t for t in mixtures(share(2_000, 4)) + adversarial() if b"<|" in t]
    got = ids_of(loaderd, name, texts, "--special-as-text")
    check(texts, got, [reference.tiktoken_encoding(name).encode_ordinary(decoded(t)) for t in texts])
    check(texts, got, hugging_face_ids(converted[name], texts, special_as_text=True))


def test_each_maximal_subpart_of_invalid_utf8_is_one_replacement_character(loaderd: str) -> None:
    texts = {
        b"\xf0\x9f\x98": 1,
        b"\xe4\xb8a": 1,
        b"\xed\xa0\x80": 3,
        b"\xc0\x80": 2,
        b"\xf4\x90\x80\x80": 4,
        b"\xe1\x80\xe1": 2,
    }
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
    # The ids in the file differ from those of the reference, because the vocabulary lacks the tokens.
    options["added"] = [{"id": 5000 + 7 * i, **a} for i, a in enumerate(options.get("added", []))]
    content = reference.tokenizer_json(ranks, MERGES[merges](ranks), pattern, **options)
    return reference.write(folder / "tokenizer.json", content)


@pytest.mark.parametrize(("pattern", "merges", "option"), CASES)
def test_small_files(loaderd: str, tmp_path: pathlib.Path, pattern: str, merges: str, option: str) -> None:
    texts = mixtures(share(500, 4)) + adversarial() + [b"<|end<|endoftext|><|x|><of the<|x|> of the\n\n\n"]
    path = small_file(tmp_path, pattern, merges, **OPTIONS[option])
    check(texts, ids_of(loaderd, path, texts), hugging_face_ids(path, texts))


@pytest.mark.parametrize("pattern", reference.PATTERNS)
def test_small_file_with_special_tokens_as_text(loaderd: str, tmp_path: pathlib.Path, pattern: str) -> None:
    texts = [b"<|end<|endoftext|><|x|><of the<|x|> of the\n\n\n", "中中中|><|end".encode(), *mixtures(1_000)]
    path = small_file(tmp_path, pattern, added=ADDED)
    check(texts, ids_of(loaderd, path, texts, "--special-as-text"), hugging_face_ids(path, texts, special_as_text=True))


def combining(count: int) -> list[bytes]:
    """Returns characters that normalization changes, joins or moves, in random order."""
    rng = random.Random(SEED)
    marks = [chr(c) for c in range(0x32000) if unicodedata.combining(chr(c))]
    bases = [chr(c) for c in range(0x32000) if unicodedata.decomposition(chr(c))[:1] not in ("", "<")]
    bases += [chr(c) for c in range(0x32000) if unicodedata.decomposition(chr(c)).startswith("<")][::5]
    bases += [d for c in bases[::7] for d in unicodedata.normalize("NFD", c)] + list("aAeEoO <\n1")
    bases += [chr(c) for r in (range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A7, 0x11C4)) for c in r] * 20
    bases += [chr(c) for c in range(0xAC00, 0xD7A4, 5)]
    texts = []
    for _ in range(count):
        few = rng.sample(marks, 8) + list("\u0301\u0323\u0345")
        texts.append("".join(rng.choice(few if rng.random() < 0.5 else bases) for _ in range(rng.randrange(1, 60))))
    return [t.encode() for t in texts] + [("a" + "\u0301\u0323" * 40 + "b").encode()]


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_normalization_form(loaderd: str, tmp_path: pathlib.Path, form: str) -> None:
    path = small_file(tmp_path, "qwen", normalizer=form)
    points = [c for c in range(0x32000) if not 0xD800 <= c < 0xE000]
    for texts in (
        combining(share(4_000, 4)),
        [
            "".join(f"{chr(c)} a{chr(c)}\u0301{chr(c)}" for c in points[i : i + 64]).encode()
            for i in range(0, len(points), 64)
        ],
    ):
        check(texts, ids_of(loaderd, path, texts), hugging_face_ids(path, texts))


@pytest.mark.parametrize("added", [[], ADDED], ids=["plain", "added"])
def test_space_before_text(loaderd: str, tmp_path: pathlib.Path, added: list[dict[str, Any]]) -> None:
    texts = mixtures(share(2_000, 4)) + adversarial() + [b"a<|x|>b<|x|> c<|x|>", b"the", b" of of"]
    path = small_file(tmp_path, "gpt2", added=added, prefix_space=True)
    check(texts, ids_of(loaderd, path, texts), hugging_face_ids(path, texts))


def test_file_as_the_reference_writes_it(loaderd: str, tmp_path: pathlib.Path, corpus: list[bytes]) -> None:
    texts = corpus[::8]
    for pattern in reference.PATTERNS:
        path = reference.write(tmp_path / "tokenizer.json", reference.trained(pattern))
        check(texts, ids_of(loaderd, path, texts), hugging_face_ids(path, texts))


# --- decoding, and bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", reference.BUILTIN)
def test_decode_is_the_way_back(loaderd: str, name: str) -> None:
    texts = mixtures(500) + adversarial()
    *ids, cut = ids_of(loaderd, name, [*texts, "👩".encode()])
    lines = [*({"id": {"n": i}, "ids": x} for i, x in enumerate(ids)), {"ids": cut[:1]}]
    *out, half = run(loaderd, ["--tokenizer", name, "--decode"], lines)
    assert [line["id"]["n"] for line in out] == list(range(len(texts)))
    assert [line["text"].encode() for line in out] == texts
    assert "👩".encode().startswith(base64.b64decode(half["base64"]))


REFUSED = {
    "normalizer": {"normalizer": {"type": "Nmt"}},
    "pre_tokenizer": {"pre_tokenizer": {"type": "Whitespace"}},
    "truncation": {"truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}},
    "dropout": {"model": {"dropout": 0.1}},
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
