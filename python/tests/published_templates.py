"""Chat templates of models, from the files of an installed package; no copy of them is kept here."""

from __future__ import annotations

import functools
import pathlib

from environments import site_packages


def site() -> pathlib.Path:
    """Returns the folder of the packages that have the templates."""
    return site_packages("chats")


@functools.cache
def template(name: str) -> str:
    """Returns a chat template of TRL: NAME as published, NAME_training with marks."""
    return (site() / "trl" / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")
