#!/usr/bin/env python3
"""Packs the same conversations with TRL's SFTTrainer and loaderd, and prints rows, padding and lost tokens.

It fails if a conversation's ids or losses differ between the two, apart from tokens that TRL truncates.

    $(make -s environment)/bin/python bench/python/chats/packing.py [CONVERSATIONS]
"""

from __future__ import annotations

import itertools
import logging
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[2] / "python"
sys.path[:0] = [str(PYTHON / "src"), str(PYTHON / "tests"), str(HERE)]

import loaderd  # noqa: E402
from chat_tokenizers import with_template  # noqa: E402
from chats import chat  # noqa: E402
from published_templates import site  # noqa: E402
from published_tokenizers import published  # noqa: E402

LENGTH = 1024
WORDS = "the of to in model data training loss token user answer question explain how compute result list value".split()

Masked = tuple[list[int], list[bool]]
"""Ids, and which of them have a loss."""


def conversations(count: int) -> list[Any]:
    """Returns different chats of 1 to 4 turns, some of which are longer than a row."""
    rng = random.Random("packing")

    def text(median: int) -> str:
        return " ".join(rng.choices(WORDS, k=max(1, int(median * rng.lognormvariate(0, 1)))))

    turns = ([text(30 + 50 * (n % 2)) for n in range(2 * rng.randrange(1, 5))] for _ in range(count))
    return [chat(f"{k}. {first}", *rest) for k, (first, *rest) in enumerate(turns)]


def trl(tokenizer: Any, chats: list[Any], strategy: str | None, folder: Path) -> list[dict[str, list[int]]]:
    """Returns the rows of the dataset that SFTTrainer prepares."""
    from datasets import Dataset, disable_progress_bars
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    disable_progress_bars()
    tiny = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    config = SFTConfig(
        str(folder),
        assistant_only_loss=True,
        max_length=LENGTH if strategy else None,
        packing=strategy is not None,
        packing_strategy=strategy or "bfd",
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    data = Dataset.from_dict({"messages": chats})
    trainer = SFTTrainer(LlamaForCausalLM(tiny), args=config, train_dataset=data, processing_class=tokenizer)
    return [dict(row) for row in trainer.train_dataset]


def pieces(row: dict[str, list[int]]) -> Iterator[Masked]:
    """Yields the conversations of TRL's row, or their parts."""
    ends = np.cumsum(row.get("seq_lengths") or [len(row["input_ids"])]).tolist()
    for begin, end in itertools.pairwise([0, *ends]):
        yield row["input_ids"][begin:end], [label != -100 for label in row["labels"][begin:end]]


def packed_by_loaderd(tokenizer: Any, chats: list[Any]) -> tuple[int, list[list[Masked]]]:
    """Returns the number of rows, and the parts of each conversation."""
    settings = {
        "tokenizer.name": str(published("qwen3")),
        "tokenizer.end": "none",
        "packing.buckets": LENGTH,
        "steps.rows": 1,
        "log.level": "warn",
    }
    rows, found = 0, dict[int, list[tuple[int, Masked]]]()
    sent = ({"messages": some} for some in chats)
    with (
        loaderd.serve(sent, settings=settings, publish={"chat": loaderd.Chat(tokenizer)}) as url,
        loaderd.Client(url, documents=True) as client,
    ):
        for step in client:
            rows += step.rows
            assert step.sources is not None and step.rows == 1
            of, at = step.sources, 0
            for sequence, start, length in zip(of.sequence, of.start, of.length, strict=True):
                span = slice(at, at := at + int(length))
                masked = step.input_ids[0, span].tolist(), step.loss_mask()[0, span].tolist()
                found.setdefault(int(sequence), []).append((int(start), masked))
    return rows, [[masked for _, masked in sorted(found[k])] for k in sorted(found)]


def line(name: str, rows: int, whole: list[Masked], parts: list[list[Masked]]) -> str:
    """Returns a line of the table. `parts` are those of each conversation."""
    tokens, kept = sum(len(ids) for ids, _ in whole), sum(len(ids) for some in parts for ids, _ in some)
    losses, learnt = sum(sum(loss) for _, loss in whole), sum(sum(loss) for some in parts for _, loss in some)
    cut = sum(len(some) != 1 or len(some[0][0]) < len(one[0]) for one, some in zip(whole, parts, strict=True))
    shares = (1 - kept / (rows * LENGTH), 1 - kept / tokens, 1 - learnt / losses, cut / len(whole))
    return f"| {name} | {rows:,} | {' | '.join(f'{share:.2%}' for share in shares)} |"


def joined(parts: list[Masked]) -> Masked:
    return [i for ids, _ in parts for i in ids], [flag for _, loss in parts for flag in loss]


def main(count: str = "1000") -> None:
    sys.path.append(str(site()))
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    tokenizer, chats = with_template("qwen3", "qwen2_5_training"), conversations(int(count))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        whole = [one for row in trl(tokenizer, chats, None, folder) for one in pieces(row)]
        rows, parts = packed_by_loaderd(tokenizer, chats)
        assert list(map(joined, parts)) == whole, "loaderd has other ids or losses"
        print(f"{count} conversations, {sum(len(ids) for ids, _ in whole):,} tokens, rows of {LENGTH:,}")
        print("| packer | rows | unused | tokens lost | loss tokens lost | conversations cut |")
        print("| --- | --- | --- | --- | --- | --- |")
        print(line("loaderd", rows, whole, parts))

        packed = trl(tokenizer, chats, "bfd", folder)
        of = {tuple(ids): (ids, loss) for row in packed for ids, loss in pieces(row)}
        truncated = [of[tuple(ids[:LENGTH])] for ids, _ in whole]
        assert truncated == [(ids[:LENGTH], loss[:LENGTH]) for ids, loss in whole], "TRL has other ids or losses"
        print(line("TRL `bfd`", len(packed), whole, [[one] for one in truncated]))

        packed = trl(tokenizer, chats, "wrapped", folder)
        ids, loss = joined([one for row in packed for one in pieces(row)])
        every = joined(whole)
        assert (ids, loss) == (every[0][: len(ids)], every[1][: len(ids)]), "TRL has other ids or losses"
        ends = list(itertools.accumulate(len(one) for one, _ in whole))
        bounds = [
            sorted({a, b, *range(-(-a // LENGTH) * LENGTH, b, LENGTH)}) for a, b in itertools.pairwise([0, *ends])
        ]
        wrapped = [[(ids[a:b], loss[a:b]) for a, b in itertools.pairwise(some)] for some in bounds]
        print(line("TRL `wrapped`", len(packed), whole, wrapped))


if __name__ == "__main__":
    main(*sys.argv[1:])
