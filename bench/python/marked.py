"""Tables of a page that a program writes: the text between `<!-- table NAME -->` and `<!-- end of table -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path


def write(page: Path, tables: Mapping[str, str]) -> None:
    """Replaces tables on a page. Raises ValueError if the page does not have exactly one block of each name."""
    text = page.read_text()
    for name, table in tables.items():
        block = re.compile(rf"(<!-- table {re.escape(name)} -->\n).*?(<!-- end of table -->)", re.DOTALL)
        text, n = block.subn(lambda m, table=table: f"{m[1]}{table}\n\n{m[2]}", text)
        if n != 1:
            raise ValueError(f"{page} has {n} blocks of table {name}")
    page.write_text(text)
