"""Counts the words of the pages by kind, and apart from them the words that programs write.

    python3 tools/words.py                  # words by kind
    python3 tools/words.py --pages          # also of each page
    python3 tools/words.py --limit 45000    # exit status 1 if more words are written by hand

Words are those of `wc -w`: code, tables and links count. Generated pages are in GENERATED. On other pages, the text
between the marks of a table is generated.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = {
    "start": ("README.md", "docs/index.md", "docs/start/"),
    "how-to": ("docs/how-to/",),
    "reference": ("docs/reference/",),
    "explanation": ("docs/explanation/",),
    "results": ("docs/results/",),
    "development": ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/adr/", "docs/dev/"),
}
GENERATED = (
    "docs/reference/commands",
    "docs/reference/configuration.md",
    "docs/reference/events.md",
    "docs/reference/metrics.md",
    "docs/reference/permissions.md",
    "docs/results/bench.md",
    "docs/results/culprits.md",
)
MARKED = re.compile(r"^<!-- table [\w-]+ -->\n.*?^<!-- end of table -->$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Words:
    """The words of a page or of a kind of pages."""

    by_hand: int = 0
    generated: int = 0

    def __add__(self, other: Words) -> Words:
        return Words(self.by_hand + other.by_hand, self.generated + other.generated)

    def line(self, name: str) -> str:
        return f"{name:<48}{self.by_hand:>10,}{self.generated:>12,}"


def count(name: str, text: str) -> Words:
    """Returns the words of a page, whose path is relative to the root."""
    words = len(text.split())
    by_hand = 0 if name.startswith(GENERATED) else len(MARKED.sub("", text).split())
    return Words(by_hand, words - by_hand)


def kind_of(name: str) -> str | None:
    """Returns the kind of a page, or None for a page that does not count."""
    return next((kind for kind, paths in KINDS.items() if name.startswith(paths)), None)


def pages(root: Path) -> Iterator[tuple[str, str, Words]]:
    """Yields the kind, the path and the words of each page. Raises SystemExit for a page of docs/ without a kind."""
    for path in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")]):
        name = path.relative_to(root).as_posix()
        if kind := kind_of(name):
            yield kind, name, count(name, path.read_text(encoding="utf-8"))
        elif name.startswith("docs/"):
            raise SystemExit(f"tools/words.py: {name} is of no kind: add its folder to KINDS")


def main(arguments: list[str], root: Path = ROOT) -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--limit", type=int, help="most words written by hand")
    flags.add_argument("--pages", action="store_true", help="print each page")
    given = flags.parse_args(arguments)

    kinds: dict[str, Words] = defaultdict(Words)
    print(f"{'pages':<48}{'by hand':>10}{'generated':>12}")
    for kind, name, words in pages(root):
        kinds[kind] += words
        if given.pages:
            print(words.line(name))
    for kind in KINDS:
        print(kinds[kind].line(kind))
    total = sum(kinds.values(), Words())
    print(total.line("total"))
    if given.limit is not None and total.by_hand > given.limit:
        print(f"tools/words.py: {total.by_hand:,} words by hand, the limit is {given.limit:,}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
