"""Chats of JSON lines as messages, compared with rendering, tokenizing and masking by transformers."""

from __future__ import annotations

from collections.abc import Iterator

from bench import Bench, python
from measures import Measure


def chats(bench: Bench) -> Iterator[Measure]:
    """Conversations of about 200 tokens per second of processor time, as texts and as token ids."""
    command = [python(), bench.script("chats/speed.py"), 20 if bench.moment else 2000]
    for found in bench.ask(command, cores=1):
        for form, limit, whose in (
            ("texts", "rendering", "jinja2 alone"),
            ("tokens", "limit", "jinja2 and tokenizer alone"),
        ):
            name = f"chats as {form}, {found['model']}"
            yield Measure(name, found[form], "chats/s", found["transformers"], "apply_chat_template")
            yield Measure(f"{name}, of the limit", found[form], "chats/s", found[limit], whose)
