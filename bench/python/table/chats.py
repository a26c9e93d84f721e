"""Chats of JSON lines as messages, compared with rendering, tokenizing and masking by transformers."""

from __future__ import annotations

from collections.abc import Iterator

from bench import Bench, python
from measures import Measure


def chats(bench: Bench) -> Iterator[Measure]:
    """Conversations of about 200 tokens per second of processor time, as texts and as token ids."""
    command = [python(), bench.script("chats/speed.py"), 20 if bench.moment else 2000]
    for found in bench.ask(command, cores=1):
        for form in ("texts", "tokens"):
            yield Measure(
                f"chats as {form}, {found['template']}",
                found[form],
                "chats/s",
                found["transformers"],
                "apply_chat_template",
            )
