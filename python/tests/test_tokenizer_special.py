"""Post-processors, decoding to text, and rank files, compared with the reference libraries."""

from __future__ import annotations

import base64
import json
import pathlib
import subprocess
import zlib
from typing import Any

import pytest
import tiktoken
from tokenizers import Tokenizer

import reference_tokenizers as reference
import texts_for_tokenizers as texts
from loaderd.fingerprint import fingerprint
from published_tokenizers import published
from scale import everything, quick
from tokenizer_comparison import check, decoded, hugging_face_ids, ids_of, run

ROBERTA = {
    "type": "RobertaProcessing",
    "sep": ["b", 98],
    "cls": ["a", 97],
    "trim_offsets": True,
    "add_prefix_space": True,
}
BERT = {"type": "BertProcessing", "sep": ["c", 99], "cls": ["d", 100]}


def single(*pieces: str) -> dict[str, Any]:
    special = {"[S]": [100, 101], "[E]": [102]}
    parts = [
        {"Sequence": {"id": "A", "type_id": 0}} if p == "A" else {"SpecialToken": {"id": p, "type_id": 0}}
        for p in pieces
    ]
    return {
        "type": "TemplateProcessing",
        "single": parts,
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {n: {"id": n, "ids": ids, "tokens": [str(i) for i in ids]} for n, ids in special.items()},
    }


OFFSETS = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
PROCESSORS = {
    "before": single("[S]", "A"),
    "around": single("[E]", "[S]", "A", "[E]", "[E]"),
    "none": single("A"),
    "bert": BERT,
    "roberta": ROBERTA,
    "sequence": {
        "type": "Sequence",
        "processors": [OFFSETS, {"type": "Sequence", "processors": [single("[S]", "A", "[E]")]}],
    },
    "offsets": OFFSETS,
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_post_processor(loaderd: str, tmp_path: pathlib.Path, name: str) -> None:
    content = reference.trained("gpt2", 400)
    path = reference.write(tmp_path / "tokenizer.json", {**content, "post_processor": PROCESSORS[name]})
    batch = [b"", b"a text", "<|endoftext|> é".encode(), *texts.mixtures(50)]
    tokenizer = Tokenizer.from_file(str(path))
    for on in (True, False):
        want = [e.ids for e in tokenizer.encode_batch([decoded(t) for t in batch], add_special_tokens=on)]
        check(batch, ids_of(loaderd, path, batch, *(["--add-special-tokens"] if on else [])), want)


def test_post_processor_that_is_not_known(loaderd: str, tmp_path: pathlib.Path) -> None:
    content = {**reference.trained("gpt2", 400), "post_processor": {"type": "Sequence", "processors": [BERT, ROBERTA]}}
    assert fingerprint(content) != fingerprint(content, add_special_tokens=True)
    path = reference.write(tmp_path / "tokenizer.json", content)
    assert ids_of(loaderd, path, [b"a"])  # it has no effect
    with pytest.raises(AssertionError, match="post_processor"):
        ids_of(loaderd, path, [b"a"], "--add-special-tokens")


@pytest.mark.parametrize("pieces", [("A", "A"), ("[S]",), ()])
def test_template_that_has_not_the_text_once(loaderd: str, tmp_path: pathlib.Path, pieces: tuple[str, ...]) -> None:
    """The reference applies it even if no special tokens are requested."""
    content = {**reference.trained("gpt2", 400), "post_processor": single(*pieces)}
    path = reference.write(tmp_path / "tokenizer.json", content)
    assert len(Tokenizer.from_file(str(path)).encode("a", add_special_tokens=False).ids) == pieces.count("A")
    with pytest.raises(AssertionError, match="post_processor without the text"):
        ids_of(loaderd, path, [b"a"])


@pytest.mark.parametrize("name", quick(["llama2", "internlm2", "gemma", "qwen3"], ["llama2", "qwen3"]))
def test_the_way_back(loaderd: str, name: str) -> None:
    """Decoding equals the reference's decoder, except where that has U+FFFD for invalid UTF-8."""
    path = published(name)
    tokenizer = Tokenizer.from_file(str(path))
    batch = [
        decoded(t)
        for t in [*texts.mixtures(300), *texts.adversarial(), b"  two spaces", "\u2581x 👩‍🔬\n".encode(), b" "]
    ]
    ids = [e.ids for e in tokenizer.encode_batch_fast(batch, add_special_tokens=False)]
    out = run(loaderd, ["--tokenizer", str(path), "--decode"], ({"id": i, "ids": x} for i, x in enumerate(ids)))
    for i, line in enumerate(out):
        want = tokenizer.decode(ids[i], skip_special_tokens=False)
        assert line.get("text", want if "\ufffd" in want else None) == want, batch[i]


def rank_file(path: pathlib.Path, ranks: dict[bytes, int]) -> pathlib.Path:
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % r for t, r in ranks.items()))
    return path


@everything
def test_rank_file_of_llama3_has_all_special_tokens(loaderd: str, tmp_path: pathlib.Path) -> None:
    """The special tokens of Llama 3.1 to 3.3."""
    json_path = published("llama3_2")
    content = json.loads(json_path.read_text(encoding="utf-8"))
    special = "".join(t["content"] for t in content["added_tokens"])
    path = rank_file(tmp_path / "tokenizer.model", reference.ranks_of(content))
    batch = [*texts.mixtures(800), *texts.adversarial(), special.encode(), *texts.languages()[:40]]
    check(batch, ids_of(loaderd, path, batch), hugging_face_ids(json_path, batch))
    assert ids_of(loaderd, path, [special.encode()]) == [list(range(128_000, 128_256))]
    command = [loaderd, "tokenize", "--fingerprint", "--tokenizer", path]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == fingerprint(json_path)


@everything
def test_rank_file_of_qwen_has_all_special_tokens(loaderd: str, tmp_path: pathlib.Path) -> None:
    content = json.loads(published("qwen3").read_text(encoding="utf-8"))
    path = rank_file(tmp_path / "qwen.tiktoken", reference.ranks_of(content))
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))]
    assert ids_of(loaderd, path, ["".join(special).encode()]) == [list(range(151_643, 151_851))]


def test_rank_file_without_special_tokens_says_so(loaderd: str, tmp_path: pathlib.Path) -> None:
    path = rank_file(tmp_path / "x.tiktoken", {bytes([b]): b for b in range(256)})
    command = [loaderd, "tokenize", "--tokenizer", path, "--pattern", "gpt2"]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    assert done.stderr == f"{path}: rank file has no special tokens: name them with --special-token\n"
    done = subprocess.run([*command, "--special-token", "<x>"], input="", capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_rank_file_with_a_pattern(loaderd: str, tmp_path: pathlib.Path) -> None:
    """Compared with tiktoken, also with ranks that no merging by lower ranks produces."""
    ranks = reference.ranks_of(reference.trained("o200k", 1500))
    jumbled = sorted(ranks, key=lambda t: (len(t) > 1, zlib.crc32(t) % 1500 if len(t) % 3 == 0 else ranks[t]))
    ranks = {token: rank + (rank > 900) for rank, token in enumerate(jumbled)}  # with a gap, as in p50k_base
    special = {"<|endoftext|>": 3000, "<|x|>": 3001}
    path = rank_file(tmp_path / "x.tiktoken", ranks)
    batch = [*texts.mixtures(600), *texts.adversarial(), b"<|x|> <|endoftext|>x"]
    for pattern in ("o200k", r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"):
        regex = reference.PATTERNS.get(pattern, pattern)
        encoding = tiktoken.Encoding("x", pat_str=regex, mergeable_ranks=ranks, special_tokens=special)
        flags = ["--pattern", pattern, "--special-token", "<|endoftext|>=3000", "--special-token", "<|x|>"]
        want = [encoding.encode(decoded(t), allowed_special="all") for t in batch]
        check(batch, ids_of(loaderd, path, batch, *flags), want)
        command = [loaderd, "tokenize", "--fingerprint", "--tokenizer", path, *flags]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == fingerprint(
            encoding
        )
