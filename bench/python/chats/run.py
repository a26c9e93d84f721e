#!/usr/bin/env python3
"""Prints which tokens of the same chats have a loss with TRL, Axolotl and loaderd.

Usage:

    $(make -s environment)/bin/python bench/python/chats/run.py [PAGE]

A page's table is replaced.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parents[2] / "python"
sys.path[:0] = [str(PYTHON / "src"), str(PYTHON / "tests"), str(HERE), str(HERE.parent)]

import marked  # noqa: E402

import chat_masks as masks  # noqa: E402
from chat_tokenizers import MODELS, TURN_ENDS, with_template  # noqa: E402
from chats import CHATS  # noqa: E402
from published_templates import site, template  # noqa: E402


def compared(name: str, of: str, folder: Path) -> str:
    """Returns a row of the table."""
    tokenizer = with_template(name, of)
    chats = [chat for label, chat in CHATS.items() if label != "no answer"]  # TRL refuses it
    theirs = masks.trl(tokenizer, chats, folder)
    columns: list[list[masks.Masked | str]] = [
        list(theirs),
        list(masks.axolotl(tokenizer, chats, template(of), [TURN_ENDS[name]])),
        masks.loaderd(tokenizer, chats),
    ]
    plain = of.removesuffix("_training")
    tokenizer = with_template(name, plain)
    columns += [
        list(masks.axolotl(tokenizer, chats, template(plain), [TURN_ENDS[name]])),
        masks.loaderd(tokenizer, chats),
    ]
    return (
        f"| {name} | {' | '.join(said(column, theirs, tokenizer).replace('|', chr(92) + '|') for column in columns)} |"
    )


def said(column: list[masks.Masked | str], trl: list[masks.Masked], tokenizer: Any) -> str:
    """Returns the tokens with a loss, of all tokens, and if the tokens are equal the number of TRL's that have none
    (-).
    """
    made = [(one, theirs) for one, theirs in zip(column, trl, strict=True) if not isinstance(one, str)]
    words = [f"{sum(sum(loss) for (_, loss), _ in made)}/{sum(len(ids) for (ids, _), _ in made)}"] if made else []
    less, more, other = Counter[str](), Counter[str](), 0
    for (ids, loss), (reference, learnt) in made:
        other += ids != reference
        if ids == reference:
            less.update(tokenizer.decode([i]) for i, a, b in zip(ids, loss, learnt, strict=True) if b and not a)
            more.update(tokenizer.decode([i]) for i, a, b in zip(ids, loss, learnt, strict=True) if a and not b)
    words += [f"-{count} `{text!r}`" for text, count in sorted(less.items())]
    words += [f"+{count} `{text!r}`" for text, count in sorted(more.items())]
    words += [f"{other} chats with different tokens"] if other else []
    words += [f"{len(column) - len(made)} chats rejected"] if len(made) < len(column) else []
    return ", ".join(words)


HEAD = """\
| tokenizer | TRL, marks | Axolotl, marks | loaderd, marks | Axolotl, published | loaderd, published |
| --- | --- | --- | --- | --- | --- |"""


def main(page: str = "") -> None:
    sys.path.append(str(site()))
    with tempfile.TemporaryDirectory() as folder:
        table = "\n".join([HEAD, *(compared(name, of, Path(folder)) for name, of in MODELS.items())])
    print(table)
    if page:
        marked.write(Path(page), {"masks": table})


if __name__ == "__main__":
    main(*sys.argv[1:])
