"""The tokens and losses of the same chats in TRL's SFTTrainer, Axolotl's `chat_template` strategy and loaderd's
publisher.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

from chat_tokenizers import read_parts
from loaderd import Chat, InvalidDocumentError

Masked = tuple[list[int], list[bool]]
"""Ids, and which of them have a loss."""


def loaderd(tokenizer: Any, chats: list[list[dict[str, Any]]], **arguments: Any) -> list[Masked | str]:
    """Returns those of the published parts, each tokenized separately as in a run; the error of a refused chat."""
    made = Chat(tokenizer, **arguments)

    def one(chat: list[dict[str, Any]]) -> Masked | str:
        try:
            return read_parts(tokenizer, made(chat)["parts"])
        except InvalidDocumentError as error:
            return str(error)

    return [one(chat) for chat in chats]


def trl(tokenizer: Any, chats: list[list[dict[str, Any]]], folder: Path) -> list[Masked]:
    """Returns those of the dataset that SFTTrainer prepares with `assistant_only_loss`, and of its collator's batch.

    It refuses chats without an assistant's turn, and replaces a known template without marks by another one.
    """
    from datasets import Dataset, disable_progress_bars
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    disable_progress_bars()
    logging.disable(logging.WARNING)
    tiny = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = SFTConfig(
            str(folder), assistant_only_loss=True, max_length=None, report_to="none", use_cpu=True, bf16=False
        )
        trainer = SFTTrainer(
            LlamaForCausalLM(tiny),
            args=config,
            train_dataset=Dataset.from_dict({"messages": chats}),
            processing_class=tokenizer,
        )
    logging.disable(logging.NOTSET)
    rows = list(trainer.train_dataset)
    batch = trainer.data_collator([dict(row) for row in rows])
    out = []
    for row, ids, labels in zip(rows, batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
        n = len(row["input_ids"])
        assert ids[:n] == row["input_ids"] and labels[:n] == row["labels"] and set(labels[n:]) <= {-100}
        out.append((ids[:n], [label != -100 for label in labels[:n]]))
    return out


def axolotl(tokenizer: Any, chats: list[list[dict[str, Any]]], template: str, ends: list[str]) -> list[Masked]:
    """Returns those of the `chat_template` strategy with its defaults (the assistant's turns and their end token),
    where `ends` may end a turn.
    """
    logging.disable(logging.WARNING)
    from axolotl.prompt_strategies.chat_template import ChatTemplatePrompter, ChatTemplateStrategy

    prompter = ChatTemplatePrompter(tokenizer, template, max_length=1 << 20)
    strategy = ChatTemplateStrategy(
        prompter,
        tokenizer,
        train_on_inputs=False,
        sequence_len=1 << 20,
        roles_to_train=["assistant"],
        train_on_eos="turn",
        eot_tokens=ends,
    )
    made = [strategy.tokenize_prompt({"messages": chat}) for chat in chats]
    logging.disable(logging.NOTSET)
    return [(list(m["input_ids"]), [label != -100 for label in m["labels"]]) for m in made]
