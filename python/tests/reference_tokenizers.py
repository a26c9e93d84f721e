"""Reference tokenizers, built without a network from files on the machine.

Rank files are read from the Go module that loaderd embeds; tiktoken's own definitions give the other parameters. For
Hugging Face tokenizers the same vocabularies are written as tokenizer.json files; small ones are trained during the
test.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import pathlib
import random
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import tiktoken
from tiktoken_ext import openai_public
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

# The split patterns of published tokenizer.json files. gpt2's is built into ByteLevel, and may be written out.
PATTERNS = {
    "gpt2": GPT2,
    "gpt2 split": GPT2,
    "cl100k": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    "qwen": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?"
    + rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
    + SPACES,
}

# loaderd's name -> tiktoken's definition, split pattern
BUILTIN: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "gpt2": (openai_public.r50k_base, "gpt2"),
    "cl100k_base": (openai_public.cl100k_base, "cl100k"),
    "o200k_base": (openai_public.o200k_base, "o200k"),
}


@functools.cache
def rank_folder() -> pathlib.Path:
    """Returns the folder of the rank files in Go's module cache. Downloads the module if the cache lacks it."""
    module = "github.com/pkoukk/tiktoken-go-loader"
    out = subprocess.run(["go", "mod", "download", "-json", module], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return pathlib.Path(json.loads(out.stdout)["Dir"]) / "assets"


def read_ranks(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """Replaces tiktoken's load_tiktoken_bpe: the same file, checked by the same hash, from the module cache."""
    data = (rank_folder() / url.rsplit("/", 1)[-1]).read_bytes()
    if expected_hash and hashlib.sha256(data).hexdigest() != expected_hash:
        raise ValueError(f"{url}: the rank file in the module cache is not tiktoken's")
    pairs = (line.split() for line in data.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


@functools.cache
def definition(name: str) -> dict[str, Any]:
    """Returns tiktoken's definition (pat_str, mergeable_ranks, special_tokens) of a built-in name."""
    openai_public.load_tiktoken_bpe = read_ranks
    return {**BUILTIN[name][0](), "name": name}


@functools.cache
def tiktoken_encoding(name: str) -> tiktoken.Encoding:
    return tiktoken.Encoding(**definition(name))


def byte_alphabet() -> dict[int, str]:
    """Returns GPT-2's bytes_to_unicode: the printable character that represents each byte in a tokenizer.json."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
    alphabet = {b: chr(b) for b in printable}
    for n, b in enumerate(b for b in range(256) if b not in alphabet):
        alphabet[b] = chr(256 + n)
    return alphabet


def merges_of(ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Returns the merge of each token: the two tokens that remain of its bytes after merges of lower rank."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            best, at = rank, -1
            for i in range(len(parts) - 1):
                r = ranks.get(parts[i] + parts[i + 1], rank)
                if r < best:
                    best, at = r, i
            if at < 0:  # not produced by merges, as a special token's text
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
    return merges


def all_splits(ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Returns every way to split every token into two, as written by converters that do not have the merges."""
    merges = []
    for token, _ in sorted(ranks.items(), key=lambda item: item[1]):
        cuts = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += sorted(cuts, key=lambda cut: (ranks[cut[0]], ranks[cut[1]]))
    return merges


def pre_tokenizer(pattern: str, prefix_space: bool = False) -> dict[str, Any]:
    if pattern == "gpt2":
        return {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True, "use_regex": True}
    split = {"type": "Split", "pattern": {"Regex": PATTERNS[pattern]}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [split, level]}


def tokenizer_json(
    ranks: dict[bytes, int],
    merges: Iterable[tuple[bytes, bytes]],
    pattern: str,
    *,
    added: Iterable[dict[str, Any]] = (),
    normalizer: str | None = None,
    prefix_space: bool = False,
    ignore_merges: bool = False,
    joined: bool = True,
) -> dict[str, Any]:
    """Returns a tokenizer.json with the ranks as vocabulary; joined spells merges "a b", otherwise ["a", "b"]."""
    alphabet = byte_alphabet()

    def spell(token: bytes) -> str:
        return "".join(alphabet[b] for b in token)

    pairs = ([spell(a), spell(b)] for a, b in merges)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**flags, **token} for token in added],
        "normalizer": {"type": normalizer} if normalizer else None,
        "pre_tokenizer": pre_tokenizer(pattern, prefix_space),
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": ignore_merges,
            "vocab": {spell(token): rank for token, rank in ranks.items()},
            "merges": [" ".join(p) for p in pairs] if joined else list(pairs),
        },
    }


def builtin_json(name: str) -> dict[str, Any]:
    """Returns the tokenizer.json of a built-in vocabulary."""
    ranks, special = definition(name)["mergeable_ranks"], definition(name)["special_tokens"]
    added = [{"id": i, "content": c} for c, i in sorted(special.items(), key=lambda item: item[1])]
    content = tokenizer_json(ranks, merges_of(ranks), BUILTIN[name][1], added=added)
    content["model"]["vocab"].update(special)  # otherwise the reference assigns them the next free ids
    return content


def write(path: pathlib.Path, content: dict[str, Any]) -> pathlib.Path:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


@functools.cache
def trained(pattern: str, size: int = 2000) -> dict[str, Any]:
    """Returns a small tokenizer that the reference library trains on source text, as tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    if pattern == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        split = pre_tokenizers.Split(Regex(PATTERNS[pattern]), "isolated")
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[AddedToken("<|endoftext|>", special=True, normalized=False)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tokenizer").glob("*.go"))]
    tokenizer.train_from_iterator(
        [*texts, "naïve façade 中文字符 中文 ここ Ünïcödé 'S 123 1234 \n\n\n  \t x" * 50], trainer
    )
    return json.loads(tokenizer.to_str())


def trained_behind(pre_tokenizer: dict[str, Any], size: int = 2000) -> dict[str, Any]:
    """Returns a small tokenizer that is trained with a pre-tokenizer, given as in a tokenizer.json."""
    empty = tokenizer_json({}, [], "gpt2")
    tokenizer = Tokenizer.from_str(json.dumps({**empty, "pre_tokenizer": pre_tokenizer}))
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=[]
    )
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tokenizer").glob("[a-m]*.go"))]
    wide = (
        "naïve façade 中文字符、中文。ここ・カナ 한국어 Ünïcödé Ελληνικά русский 'S ‘quoted’ it's 123 1234 ²³ \n\n\n  \t x\n \r\n"  # noqa: E501 - wide characters count twice
        * 50
    )
    tokenizer.train_from_iterator([*texts, wide], trainer)
    return json.loads(tokenizer.to_str())


def ranks_of(content: dict[str, Any]) -> dict[bytes, int]:
    """Returns the byte strings of a tokenizer.json's vocabulary, with their ids."""
    byte = {c: b for b, c in byte_alphabet().items()}
    vocab = content["model"]["vocab"]
    return {bytes(byte[c] for c in token): i for token, i in vocab.items() if all(c in byte for c in token)}


def shuffled(merges: Iterable[tuple[bytes, bytes]], seed: int) -> list[tuple[bytes, bytes]]:
    """Returns the same merges in an order that no training produces."""
    merges = list(merges)
    random.Random(seed).shuffle(merges)
    return merges
