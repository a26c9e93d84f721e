"""Published tokenizer.json files give the ids of Hugging Face tokenizers."""

from __future__ import annotations

import pytest

import texts_for_tokenizers as texts
from published_tokenizers import SHA256, published
from scale import quick, thinned
from tokenizer_comparison import check, hugging_face_ids, ids_of

QUICK = ("claude", "deepseek_v3", "internlm2", "llama2", "qwen3")  # one file of every kind


@pytest.fixture(scope="module")
def batch() -> list[bytes]:
    every = texts.every_character(lambda c: f"a{c} ", step=499)
    found = [
        *texts.mixtures(1_000),
        *texts.adversarial(),
        *texts.broken(150),
        *texts.sources(12),
        *texts.languages(),
        *every,
    ]
    specials = [
        "<s>",
        "</s>",
        "<bos>",
        "<|im_start|>",
        "<|eot_id|>",
        "[INST]",
        "<unk>",
        "<pad>",
        "<｜User｜>",
        "<start_of_turn>",
        "\n\n\n",
        "\t\t",
    ]
    found += (f"{a} b{a}{a}c {b}".encode() for a in specials for b in specials)
    return [*thinned(found, 3)]


@pytest.mark.parametrize("name", quick(SHA256, QUICK))
def test_published_file(loaderd: str, name: str, batch: list[bytes]) -> None:
    path = published(name)
    check(batch, ids_of(loaderd, path, batch), hugging_face_ids(path, batch))
