"""Prints how many conversations per second of processor time become messages, read from JSON lines, as JSON.

Baselines of the same run: what transformers renders, tokenizes and masks; jinja2 alone (`template`); and jinja2 and the
tokenizer alone, which gets 64 rendered conversations per call (`limit`). The parameter is the number of conversations.

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

from transformers.utils.chat_template_utils import _compile_jinja_template  # noqa: E402

from chat_tokenizers import reference, with_template  # noqa: E402
from chats import chat  # noqa: E402
from loaderd import Chat  # noqa: E402
from loaderd.chats import ChatRows  # noqa: E402
from loaderd.chats._token_batches import TokenizedRows  # noqa: E402
from loaderd.producer._message import Encoder  # noqa: E402

TEMPLATES = (("Llama 3", "llama3", "llama3_training"), ("Qwen 2.5", "qwen3", "qwen2_5_training"))
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


def speeds(tokenizer: Any, chats: list[Any], path: str) -> dict[str, float]:
    """Returns chats per second: medians of the rounds."""
    texts, ids = Chat(tokenizer), Chat(tokenizer, as_tokens=True)
    rows, names, encode = ChatRows([path]), tokenizer.special_tokens_map, tokenizer.backend_tokenizer.encode_batch_fast
    compiled = _compile_jinja_template(tokenizer.chat_template)
    as_texts, as_tokens = Encoder("chats", chat=texts), Encoder("chats", fingerprint=ids.fingerprint)

    def rendered() -> list[str]:
        return [compiled.render(messages=some, **names) for some in chats]

    def limit() -> list[Any]:
        whole = rendered()
        return [encode(whole[k : k + 64], add_special_tokens=False) for k in range(0, len(whole), 64)]

    works: dict[str, Callable[[], object]] = {
        "texts": lambda: [as_texts.encode(row, k) for k, row in enumerate(rows)],
        "tokens": lambda: [as_tokens.encode(row, k) for k, row in enumerate(TokenizedRows(rows, ids))],
        "transformers": lambda: [reference(tokenizer, some) for some in chats],
        "rendering": rendered,
        "limit": limit,
    }
    rounds = [[per_second(work, len(chats)) for work in works.values()] for _ in range(ROUNDS)]
    return {name: sorted(column)[ROUNDS // 2] for name, column in zip(works, zip(*rounds, strict=True), strict=True)}


def main() -> None:
    chats = conversations(int(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "chats.jsonl")
        path.write_text("".join(json.dumps({"messages": some}) + "\n" for some in chats), encoding="utf-8")
        results = [
            {"model": model, **speeds(with_template(tokenizer, template), chats, str(path))}
            for model, tokenizer, template in TEMPLATES
        ]
    print(json.dumps(results))


main()
