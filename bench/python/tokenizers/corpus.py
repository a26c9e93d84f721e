"""The text of the comparison: prose, code and many languages, a third each, from Go, Python and pinned packages.

A document is a file or a piece of one of at most 64 KiB. A line that repeats any earlier line is removed, because
repeated text favours a cache. Lines of a few characters (a brace, an `else`) are kept, because code needs them.
Documents are in one file, each terminated by a NUL byte, which occurs in none; they are shuffled, always in the same
way.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import html
import json
import os
import random
import re
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from itertools import zip_longest
from pathlib import Path
from typing import Any

SHARE = 20_000_000  # bytes of each of the three
PIECE = 64 << 10
SHORT = 12  # lines of fewer characters may repeat
TRANSLATED = ("django", "wagtail", "weblate", "pretix")
TAG = re.compile(r"<[^>]{1,200}>")


def build(path: Path) -> None:
    """Writes the documents to path."""
    seen: set[bytes] = set()
    documents: list[bytes] = []
    for part in (prose(), code(), languages()):
        documents += take(part, seen, SHARE)
    random.Random(7).shuffle(documents)
    whole = path.with_suffix(".part")
    whole.write_bytes(b"".join(d + b"\0" for d in documents))
    whole.rename(path)


def take(texts: Iterable[str], seen: set[bytes], limit: int) -> Iterator[bytes]:
    """Yields documents of new lines, until they have limit bytes."""
    for text in texts:
        for document in pieces(new_lines(text, seen)):
            yield document
            limit -= len(document)
            if limit <= 0:
                return


def new_lines(text: str, seen: set[bytes]) -> Iterator[bytes]:
    for line in text.replace("\0", "").splitlines(keepends=True):
        if len(line.strip()) >= SHORT:
            key = hashlib.blake2b(line.strip().encode("utf-8", "replace"), digest_size=12).digest()
            if key in seen:
                continue
            seen.add(key)
        yield line.encode("utf-8", "replace")


def pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    piece: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > PIECE and piece:
            yield b"".join(piece)
            piece, size = [], 0
        if len(line) <= PIECE:  # a longer one is data
            piece.append(line)
            size += len(line)
    if size >= 100:
        yield b"".join(piece)


def in_turn(*sources: Iterable[str]) -> Iterator[str]:
    for texts in zip_longest(*sources):
        yield from (t for t in texts if t is not None)


def go_files() -> list[Path]:
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    return sorted(p for p in Path(root, "src").rglob("*.go") if p.is_file() and p.stat().st_size < 1 << 20)


def package_files(package: str, *suffixes: str) -> list[Path]:
    files = distribution(package).files or []
    return sorted(Path(str(f.locate())) for f in files if f.suffix in suffixes)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def prose() -> Iterator[str]:
    """Yields descriptions of web services, and the comments of every second file of Go's library."""
    models = (json.loads(gzip.decompress(path.read_bytes())) for path in package_files("botocore", ".gz"))
    services = (" ".join(TAG.sub(" ", text).split()) for model in models for text in described(model))
    comments = (comment for path in go_files()[::2] for comment in comments_of(read(path)))
    return in_turn(gathered(html.unescape(s) for s in services), gathered(comments))


def described(o: Any) -> Iterator[str]:
    if isinstance(o, dict):
        for key, value in o.items():
            if key == "documentation" and isinstance(value, str):
                yield value
            else:
                yield from described(value)
    elif isinstance(o, list):
        for value in o:
            yield from described(value)


def comments_of(source: str) -> Iterator[str]:
    """Yields the paragraphs of the comments, each on one line."""
    block: list[str] = []
    for line in [*source.splitlines(), ""]:
        if line.lstrip().startswith("// "):
            block.append(line.lstrip()[3:].strip())
        elif block:
            yield " ".join(block)
            block = []


def gathered(paragraphs: Iterable[str]) -> Iterator[str]:
    """Yields texts of some KB, joined from paragraphs of 80 characters or more."""
    text, size, n = [], 0, 0
    for p in paragraphs:
        if len(p) < 80:
            continue
        text.append(p)
        size += len(p)
        if size > 2000 * (1 + n % 16):
            yield "\n\n".join(text) + "\n"
            text, size, n = [], 0, n + 1


def code() -> Iterator[str]:
    """Yields the other files of Go's library, Python's library and the packages, and their pages, scripts and style
    sheets.
    """
    python = sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py"))
    python = [p for p in python if "site-packages" not in p.parts and "lib2to3" not in p.parts]
    python += [p for package in TRANSLATED for p in package_files(package, ".py")]
    other = [p for package in TRANSLATED for p in package_files(package, ".html", ".js", ".css", ".ts")]
    other = [p for p in other if ".min." not in p.name]
    random.Random(1).shuffle(python)
    random.Random(2).shuffle(other)
    return in_turn(map(read, go_files()[1::2]), map(read, python), map(read, other))


def languages() -> Iterator[str]:
    """Yields translations of programs into about a hundred languages; a document has one language."""
    catalogs = [p for package in TRANSLATED for p in package_files(package, ".po")]
    random.Random(3).shuffle(catalogs)
    for path in catalogs:
        yield from gathered_lines(translations(read(path)))


def gathered_lines(lines: Iterable[str]) -> Iterator[str]:
    text, size = [], 0
    for line in lines:
        text.append(line)
        size += len(line)
        if size > 8000:
            yield "\n".join(text) + "\n"
            text, size = [], 0
    if size > 200:
        yield "\n".join(text) + "\n"


def translations(catalog: str) -> Iterator[str]:
    """Yields the msgstr of a gettext catalog, without its header."""
    message: list[str] | None = None
    first = True
    for line in [*catalog.splitlines(), ""]:
        if line.startswith("msgstr"):
            message, line = [], line[line.find('"') :]
        elif not line.startswith('"'):
            if message:
                if not first and (text := "".join(message)):
                    yield text
                first = False
            message = None
        if message is not None and line.startswith('"'):
            try:
                message.append(ast.literal_eval(line.strip()))
            except (SyntaxError, ValueError):
                message = None


def main(path: str) -> None:
    build(Path(path))
    print(os.path.getsize(path))


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
