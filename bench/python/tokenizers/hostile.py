"""Texts that are a single word, or in which no word repeats: each a file with a single document."""

from __future__ import annotations

import random
from pathlib import Path

SIZE = 4_000_000  # bytes


def build(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    for name, unit in UNITS.items():
        write(folder / name, unit * (SIZE // len(unit.encode())))
    ideographs = (chr(0x4E00 + min(int(rng.expovariate(1 / 2000)), 0x51FF)) for _ in range(SIZE // 3))
    write(folder / "han", "".join(ideographs))
    words = ("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=10)) for _ in range(SIZE // 11))
    write(folder / "words", " ".join(words))
    write(folder / "unicode", "".join(chr(rng.choice(ASSIGNED)) for _ in range(SIZE // 3)))
    return [folder / name for name in (*UNITS, "han", "words", "unicode")]


UNITS = {
    "letter": "a",
    "space": " ",
    "newline": "\n",
    "digit": "7",
    "punctuation": "!",
    "equals": "=",
    "emoji": "👩\u200d🔬",
    "ideograph": "中",
    "alternating": "a1 ",
    "marks": "e\u0301",
}
BLOCKS = ((0x21, 0x250), (0x370, 0x700), (0x900, 0xE00), (0x3041, 0x30FF), (0xAC00, 0xD7A3))
ASSIGNED = [c for first, last in BLOCKS for c in range(first, last)]


def write(path: Path, text: str) -> None:
    if not path.exists():
        path.write_bytes(text.encode() + b"\0")
