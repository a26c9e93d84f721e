"""The tables of normalization form C as the reference knows it: its own version of Unicode, asked of the reference."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from tokenizers import normalizers

HANGUL = range(0xAC00, 0xD7A4)  # (de)composed by arithmetic
to_nfc = normalizers.NFC().normalize_str
to_nfd = normalizers.NFD().normalize_str
to_nfkd = normalizers.NFKD().normalize_str


def combining_class(c: int) -> int:
    """The canonical combining class, of the characters that the reference moves in front of one of class 240."""
    ccc = unicodedata.combining(chr(c))
    moved = c == 0x345 or (ccc and to_nfd("a\u0345" + chr(c)) == "a" + chr(c) + "\u0345")
    return ccc if moved else 0


def decompositions(points: Iterable[int]) -> dict[int, str]:
    """Full canonical decompositions."""
    return {c: to_nfd(chr(c)) for c in points if c not in HANGUL and to_nfd(chr(c)) != chr(c)}


def compositions(points: Iterable[int]) -> dict[tuple[int, int], int]:
    """The pairs that compose."""
    pairs = {}
    for c in points:
        step = unicodedata.decomposition(chr(c)).split()
        if len(step) == 2 and "<" not in step[0] and to_nfc(chr(c)) == chr(c) and to_nfd(chr(c)) != chr(c):
            pairs[int(step[0], 16), int(step[1], 16)] = c
    return pairs


def unstable(points: list[int]) -> set[int]:
    """Characters that NFC may change, or move or join to what is before them."""
    found = {c for c in points if to_nfc(chr(c)) != chr(c) or combining_class(c)}
    found |= {second for _, second in compositions(points)}
    return found | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))


def table(points: list[int]) -> list[str]:
    """Lines of Go."""
    classes = {c: combining_class(c) for c in points}
    lines = [
        "package norm",
        "",
        "// combiningClasses are the characters whose class is not 0.",
        "var combiningClasses = [...]combiningClass{",
    ]
    lines += _rows(f"{{{c:#x}, {ccc}}}" for c, ccc in classes.items() if ccc)
    lines += ["}", "", "// decompositions are full and canonical.", "var decompositions = [...]decomposition{"]
    lines += rows_of(decompositions(points))
    lines += ["}", "", "// compositions are first, second, composed.", "var compositions = [...][3]rune{"]
    lines += _rows(f"{{{a:#x}, {b:#x}, {c:#x}}}" for (a, b), c in compositions(points).items())
    return [*lines, "}", ""]


def compatibility_table(points: list[int]) -> list[str]:
    """Lines of Go: the characters that forms KC and KD replace with others."""
    full = {c: to_nfkd(chr(c)) for c in points if to_nfkd(chr(c)) != to_nfd(chr(c))}
    lines = [
        "package norm",
        "",
        "// compatibilities are full decompositions of the characters whose canonical one is another.",
    ]
    lines += ["var compatibilities = [...]decomposition{"]
    return [*lines, *rows_of(full), "}", ""]


def rows_of(texts: dict[int, str]) -> list[str]:
    """Rows of characters and the texts that replace them."""
    return _rows(f'{{{c:#x}, "{"".join(_escape(x) for x in s)}"}}' for c, s in texts.items())


def _escape(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    return c if c.isascii() else f"\\U{ord(c):08x}"


def _rows(items: Iterable[str], width: int = 6) -> list[str]:
    items = list(items)
    return ["\t" + ", ".join(items[i : i + width]) + "," for i in range(0, len(items), width)]
