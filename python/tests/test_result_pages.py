"""The tables that `make bench-peers` and `make bench-mixtures` write into docs/results."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "python"))
import marked

ROOT = Path(__file__).resolve().parents[2]
PAGE = "text\n\n<!-- table a -->\n| old |\n\n<!-- end of table -->\n\n<!-- table b -->\n<!-- end of table -->\n"


def module(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / "bench" / "python" / path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_write_replaces_tables_by_name(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    marked.write(page, {"b": r"| \1 |"})
    assert page.read_text() == PAGE.replace("<!-- table b -->\n", "<!-- table b -->\n| \\1 |\n\n")
    marked.write(page, {"a": "| new |", "b": "| new |"})
    assert "old" not in page.read_text() and page.read_text().count("| new |") == 2


def test_write_changes_nothing_without_a_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(ValueError, match="0 blocks of table c"):
        marked.write(page, {"a": "| new |", "c": "| new |"})
    assert page.read_text() == PAGE


def test_pages_have_the_tables_of_the_programs() -> None:
    peers, mixtures = module("peers/table.py"), module("mixtures/mixture_tables.py")
    at = {"at": [1_000_000, 10_000_000, 100_000_000]}
    heads = {
        "peers.md": {"figures": peers.table(peers.FIGURES, []), "nearest": peers.table(peers.NEAREST, [])},
        "mixture-peers.md": mixtures.tables([], at),
    }
    for name, tables in heads.items():
        text = (ROOT / "docs" / "results" / name).read_text()
        assert text.count("<!-- table ") == len(tables)
        for table, head in tables.items():
            assert f"<!-- table {table} -->\n{head}\n| " in text, table
