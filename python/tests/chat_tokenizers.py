"""Tokenizers with chat templates: published ones of models, and small ones with templates written for a test."""

from __future__ import annotations

import functools
import json
from typing import Any

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from published_templates import template
from published_tokenizers import published
from reference_tokenizers import trained

NAMED = {
    "command_r_plus": {"bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>", "pad_token": "<PAD>"},
    "deepseek_v3": {
        "bos_token": "<｜begin▁of▁sentence｜>",
        "eos_token": "<｜end▁of▁sentence｜>",
        "pad_token": "<｜▁pad▁｜>",
    },
    "gemma3": {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"},
    "llama2": {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"},
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>", "pad_token": "<|end_of_text|>"},
    "llama3_2": {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>", "pad_token": "<|end_of_text|>"},
    "qwen3": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
}

MODELS = {
    "qwen3": "qwen3_training",
    "deepseek_v3": "deepseekv3_training",
    "llama3": "llama3_training",
    "gemma3": "gemma3_training",
    "command_r_plus": "cohere_training",
}
"""Tokenizers, and the templates of the same models with marks."""

TURN_ENDS = {
    "qwen3": "<|im_end|>",
    "deepseek_v3": "<｜end▁of▁sentence｜>",
    "llama3": "<|eot_id|>",
    "gemma3": "<end_of_turn>",
    "command_r_plus": "<|END_OF_TURN_TOKEN|>",
}
"""The end-of-turn tokens of these templates."""


@functools.cache
def model_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Returns the published tokenizer of that name, without a template."""
    return PreTrainedTokenizerFast(tokenizer_file=str(published(name)), **NAMED[name])


def with_template(name: str, of: str) -> PreTrainedTokenizerFast:
    """Returns the same object every time, with this template set."""
    tokenizer = model_tokenizer(name)
    tokenizer.chat_template = template(of)
    return tokenizer


FRAME = ("<|im_start|>", "<|im_end|>")


@functools.cache
def small_json() -> str:
    """Returns a small tokenizer with tokens that begin and end turns."""
    tokenizer = Tokenizer.from_str(json.dumps(trained("gpt2")))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in FRAME])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False, special=False)])
    return str(tokenizer.to_str())


def small(chat_template: str | None, **named: Any) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(small_json()), eos_token="<|endoftext|>", **named
    )
    tokenizer.chat_template = chat_template
    return tokenizer


@functools.cache
def llama_json() -> str:
    """Returns Llama 2's tokenizer in today's form: only a text gets a leading space, not what follows a special
    token."""
    scheme = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    return json.dumps({**json.loads(published("llama2").read_text()), "normalizer": None, "pre_tokenizer": scheme})


def llama(chat_template: str) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(llama_json()), **NAMED["llama2"])
    tokenizer.chat_template = chat_template
    return tokenizer


SPOKEN = (
    "{% for m in messages %}{% if m.role == 'user' %}Question: {{ m.content }}{% else %}{{ '\\nAnswer: ' }}{% "
    "generation %}{{ m.content + '\\n' }}"
    "{% endgeneration %}{% endif %}{% endfor %}"
)
"""The header ends with a space, which is a part of the answer's first token."""


def reference(tokenizer: Any, chat: list[dict[str, Any]], **arguments: Any) -> tuple[list[int], list[bool]]:
    """Returns ids and mask as computed by transformers."""
    out = tokenizer.apply_chat_template(
        chat, tokenize=True, return_dict=True, return_assistant_tokens_mask=True, **arguments
    )
    return out["input_ids"], [bool(m) for m in out["assistant_masks"]]


def read_parts(tokenizer: Any, parts: list[dict[str, Any]]) -> tuple[list[int], list[bool]]:
    """Returns ids and losses of parts, each tokenized separately."""
    ids: list[int] = []
    loss: list[bool] = []
    for part in parts:
        made = tokenizer(part["text"], add_special_tokens=False)["input_ids"] if part["text"] else []
        ids += made
        loss += [part["loss"]] * len(made)
    return ids, loss
