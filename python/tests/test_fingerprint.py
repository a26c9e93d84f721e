"""The fingerprint computed in Python equals that of `loaderd tokenize --fingerprint`, for every form of the
tokenizer."""

from __future__ import annotations

import base64
import copy
import json
import pathlib
import random
import re
import subprocess
from typing import Any

import pytest
import tiktoken
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import reference_tokenizers as reference
import scale
from loaderd.fingerprint import fingerprint
from published_tokenizers import published
from scale import quick

FORM = re.compile(r"sha256:[0-9a-f]{64}\Z")


def of_loaderd(loaderd: str, tokenizer: str | pathlib.Path, *flags: str) -> str:
    command = [loaderd, "tokenize", "--fingerprint", "--tokenizer", tokenizer, *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", quick(reference.BUILTIN, ["gpt2", "cl100k_base"]))
def test_builtin_in_every_form(loaderd: str, tmp_path: pathlib.Path, name: str) -> None:
    encoding = reference.tiktoken_encoding(name)
    want = of_loaderd(loaderd, name)
    assert fingerprint(encoding) == want
    if name == "gpt2" or (scale.ALL and name != "o200k_base"):  # the slowest
        assert fingerprint(reference.builtin_json(name)) == want
    path = tmp_path / "ranks.tiktoken"
    lines = [base64.b64encode(t) + f" {r}\r\n".encode() for t, r in encoding._mergeable_ranks.items()]
    path.write_bytes(b"".join(lines[::-1]))
    assert of_loaderd(loaderd, path) == want


def small() -> dict[str, Any]:
    alphabet = reference.byte_alphabet()
    merges = [("a", "b"), ("b", "c"), ("ab", "c"), ("Ġ", "ab"), ("a", "bc"), ("a", "a"), ("aa", "aa"), ("a", "aa")]
    symbols = [*alphabet.values(), *dict.fromkeys(a + b for a, b in merges)]
    content = reference.tokenizer_json(
        {}, [], "cl100k", added=[{"id": 900, "content": "<x>"}, {"id": 7, "content": 'é \U0001f600\x7f"\\'}]
    )
    content["model"]["vocab"] = {token: i for i, token in enumerate(symbols)}
    content["model"]["merges"] = [" ".join(pair) for pair in merges]
    return content


def rewritten(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns other spellings of the same tokenizer."""
    out = {
        name: copy.deepcopy(content)
        for name in ("order", "pairs", "defaults", "dead", "twice", "offsets", "ids", "sequence", "extra")
    }
    rng = random.Random(1)
    vocab = list(content["model"]["vocab"].items())
    rng.shuffle(vocab)
    out["order"]["model"]["vocab"] = dict(vocab)
    out["order"] = dict(reversed(out["order"].items()))
    merges = [m.split(" ") for m in content["model"]["merges"]]
    out["pairs"]["model"]["merges"] = merges
    for option in ("dropout", "unk_token", "fuse_unk", "byte_fallback", "ignore_merges", "continuing_subword_prefix"):
        del out["defaults"]["model"][option]
    out["dead"]["model"]["merges"] = [m for m in content["model"]["merges"] if m not in ("a bc", "a aa")]
    out["twice"]["model"]["merges"] = [content["model"]["merges"][1], *content["model"]["merges"]]
    level = out["offsets"]["pre_tokenizer"]["pretokenizers"][1]
    level.update(trim_offsets=not level["trim_offsets"])
    out["offsets"]["decoder"] = None
    for token in out["ids"]["added_tokens"]:
        token["id"] += 1000
    out["sequence"]["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [content["pre_tokenizer"]]}
    out["sequence"]["normalizer"] = {"type": "Sequence", "normalizers": []}
    out["extra"]["model"]["vocab"]["never reached"] = 0
    out["extra"]["model"]["vocab"] = {
        t: i if t != "never reached" else 5000 for t, i in out["extra"]["model"]["vocab"].items()
    }
    out["extra"]["added_tokens"] = []
    return out


def test_layout_does_not_matter(loaderd: str, tmp_path: pathlib.Path) -> None:
    content = small()
    want = fingerprint(content)
    assert FORM.match(want)
    path = reference.write(tmp_path / "tokenizer.json", content)
    assert of_loaderd(loaderd, path) == want
    assert fingerprint(path) == fingerprint(str(path)) == fingerprint(tmp_path) == fingerprint(path.read_text()) == want
    assert fingerprint(Tokenizer.from_file(str(path))) == want
    bare = {**content, "added_tokens": []}
    for name, other in rewritten(content).items():
        expected = fingerprint(bare) if name == "extra" else want
        assert fingerprint(other) == expected, name
        path.write_text(json.dumps(other, indent=3, ensure_ascii=name == "pairs"), encoding="utf-8")
        assert of_loaderd(loaderd, path) == expected, name


def changes(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns different tokenizers."""
    names = (
        "merges",
        "order",
        "id",
        "pattern",
        "prefix",
        "nfc",
        "special",
        "lstrip",
        "rstrip",
        "single_word",
        "normalized",
        "added",
        "whole words",
    )
    out = {name: copy.deepcopy(content) for name in names}
    out["merges"]["model"]["merges"].remove("a b")
    out["order"]["model"]["merges"].insert(0, out["order"]["model"]["merges"].pop(1))
    vocab = out["id"]["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    out["pattern"]["pre_tokenizer"] = reference.pre_tokenizer("gpt2")
    out["prefix"]["pre_tokenizer"] = reference.pre_tokenizer("gpt2", prefix_space=True)
    out["nfc"]["normalizer"] = {"type": "NFC"}
    for flag in ("special", "lstrip", "rstrip", "single_word", "normalized"):
        out[flag]["added_tokens"][0][flag] = not out[flag]["added_tokens"][0][flag]
    out["added"]["added_tokens"].pop()
    out["whole words"]["model"]["ignore_merges"] = True
    out["whole words"]["model"]["merges"].pop()
    out["whole words"]["model"]["merges"].remove("b c")
    return out


def test_what_shapes_ids_matters(loaderd: str, tmp_path: pathlib.Path) -> None:
    content = small()
    seen = {fingerprint(content): "plain", fingerprint(content, special_as_text=True): "as text"}
    path = reference.write(tmp_path / "tokenizer.json", content)
    assert of_loaderd(loaderd, path, "--special-as-text") == fingerprint(content, special_as_text=True)
    for name, other in changes(content).items():
        found = fingerprint(other)
        assert found not in seen, (name, seen.get(found))
        seen[found] = name
        assert of_loaderd(loaderd, reference.write(path, other)) == found, name


# Tokenizers that take long to read in Python differ from these only in size.
PUBLISHED = ("claude", "deepseek_v3", "internlm2", "llama2", "llama3_2")


@pytest.mark.parametrize("name", quick(PUBLISHED, ["claude", "llama2"]))
def test_published_file(loaderd: str, name: str) -> None:
    path = published(name)
    assert of_loaderd(loaderd, path) == fingerprint(path)


def test_the_library_and_its_file_agree() -> None:
    path = published("llama2")
    fast = PreTrainedTokenizerFast(tokenizer_file=str(path))
    fast("some text", truncation=True, max_length=3)
    assert fingerprint(fast) == fingerprint(Tokenizer.from_file(str(path))) == fingerprint(path)


def test_jumbled_merges(loaderd: str, tmp_path: pathlib.Path) -> None:
    """For merges in random order, of a small alphabet, both determine the same set of merges that can apply."""
    rng = random.Random(2)
    path = tmp_path / "tokenizer.json"
    for _ in range(12):
        tokens = list("abc")
        merges = []
        for _ in range(60):
            a, b = rng.choice(tokens), rng.choice(tokens)
            if len(a + b) < 12:
                merges.append((a, b))
                tokens.append(a + b)
        rng.shuffle(merges)
        content = small()
        symbols = dict.fromkeys([*reference.byte_alphabet().values(), *(a + b for a, b in merges)])
        content["model"].update(vocab={t: i for i, t in enumerate(symbols)}, merges=[list(m) for m in merges])
        assert of_loaderd(loaderd, reference.write(path, content)) == fingerprint(content)


def test_special_tokens_of_the_post_processor(loaderd: str, tmp_path: pathlib.Path) -> None:
    content = small()
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<x>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<x>": {"id": "<x>", "ids": [262], "tokens": ["<x>"]}},
    }
    off = fingerprint(content)
    content["post_processor"] = template
    assert fingerprint(content) == off
    on = fingerprint(content, add_special_tokens=True)
    assert on != off
    path = reference.write(tmp_path / "tokenizer.json", content)
    assert of_loaderd(loaderd, path) == off
    assert of_loaderd(loaderd, path, "--add-special-tokens") == on
    level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    nothing = {**template, "single": template["single"][1:]}
    for processors, want in ([level, template], on), ([nothing, template, level], on), ([nothing, level], off):
        content["post_processor"] = {"type": "Sequence", "processors": processors}
        path = reference.write(tmp_path / "tokenizer.json", content)
        assert fingerprint(content, add_special_tokens=True) == want
        assert of_loaderd(loaderd, path, "--add-special-tokens") == want


def test_others_have_one_too() -> None:
    """Models without merges have a fingerprint too."""
    texts = ["some text to train on, some more text"] * 5
    unigram = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.train_from_iterator(
        texts, trainers.UnigramTrainer(vocab_size=40, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"])
    )
    wordpiece = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    wordpiece.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=60, show_progress=False, special_tokens=["[UNK]"])
    )
    found = set()
    for tokenizer in (unigram, wordpiece):
        one = fingerprint(tokenizer)
        assert FORM.match(one)
        text = tokenizer.to_str()
        content = json.loads(text)
        # reading a file may change the last bit of a score, so it is the fingerprint of what has been read
        read = Tokenizer.from_str(text)
        assert fingerprint(read) == fingerprint(text) == fingerprint(dict(reversed(content.items())))
        assert tokenizer is unigram or fingerprint(read) == one
        tokenizer.add_tokens([AddedToken("new")])
        assert fingerprint(tokenizer) != one
        found |= {one, fingerprint(tokenizer)}
    unigram.enable_truncation(3)
    assert len({*found, fingerprint(unigram)}) == 5


def test_special_tokens_as_text_are_asked_for() -> None:
    tokenizer = Tokenizer.from_str(json.dumps(small()))
    tokenizer.encode_special_tokens = True
    assert fingerprint(tokenizer) == fingerprint(small(), special_as_text=True)


def test_unknown_patterns_of_tiktoken() -> None:
    ranks = {bytes([b]): b for b in range(256)} | {b"ab": 256, b"abc": 257}
    encoding = tiktoken.Encoding("mine", pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens={"<x>": 300})
    other = tiktoken.Encoding("other", pat_str=r"\w+|\W+", mergeable_ranks=ranks, special_tokens={"<x>": 300})
    assert fingerprint(encoding) != fingerprint(other)


@pytest.mark.parametrize("what", [3, None, b"x", object()])
def test_what_is_no_tokenizer(what: object) -> None:
    with pytest.raises(TypeError, match=r"tokenizers.Tokenizer"):
        fingerprint(what)


@pytest.mark.parametrize(
    "text", ["{}", '{"model":{"vocab":{"a":NaN}}}', '{"model":{"type":"BPE","vocab":{},"merges":["a b c"]}}']
)
def test_malformed_content(text: str) -> None:
    with pytest.raises(ValueError, match=r"tokenizer.json"):
        fingerprint(text)
