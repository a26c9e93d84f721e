"""Prints how many conversations per second of processor time become messages, read from JSON lines, and how many
transformers renders, tokenizes and masks, as JSON. The parameter is the number of conversations.

    $(make -s environment)/bin/python bench/python/chats/speed.py 2000
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"
PYTHON = Path(__file__).resolve().parents[3] / "python"
sys.path[:0] = [str(PYTHON / "src"), str(PYTHON / "tests")]

from chat_tokenizers import reference, with_template  # noqa: E402
from chats import chat  # noqa: E402
from loaderd import Chat  # noqa: E402
from loaderd.chats import ChatRows  # noqa: E402
from loaderd.producer._message import Encoder  # noqa: E402

TEMPLATES = (("llama3", "llama3_training"), ("qwen3", "qwen2_5_training"))
WORDS = "the of to in model data training loss token user answer question explain how compute result list value".split()
ROUNDS = 3


def conversations(count: int) -> list[Any]:
    """Returns chats of two turns with about 200 tokens."""
    rng = random.Random("chats")
    return [chat(*(" ".join(rng.choices(WORDS, k=n)) for n in (30, 80, 10, 60))) for _ in range(count)]


def per_second(work: Callable[[], object], count: int) -> float:
    began = time.process_time()
    work()
    return count / (time.process_time() - began)


def main() -> None:
    count = int(sys.argv[1])
    chats = conversations(count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "chats.jsonl")
        path.write_text("".join(json.dumps({"messages": some}) + "\n" for some in chats), encoding="utf-8")
        results = []
        for name, template in TEMPLATES:
            tokenizer = with_template(name, template)

            as_texts, as_tokens = (Encoder("chats", chat=Chat(tokenizer, as_tokens=some)) for some in (False, True))
            as_tokens.encode({"messages": chats[0]}, 0)  # computes the fingerprint

            def read(encoder: Encoder) -> float:
                rows = enumerate(ChatRows([str(path)]))
                return per_second(lambda: [encoder.encode(row, k) for k, row in rows], count)

            def render() -> float:
                return per_second(lambda: [reference(tokenizer, some) for some in chats], count)  # noqa: B023

            rounds = [(read(as_texts), read(as_tokens), render()) for _ in range(ROUNDS)]
            texts, tokens, baseline = (sorted(column)[ROUNDS // 2] for column in zip(*rounds, strict=True))
            results.append({"template": template, "texts": texts, "tokens": tokens, "transformers": baseline})
    print(json.dumps(results))


main()
