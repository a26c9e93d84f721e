"""tools/prose.py: phrases of the deny-list in comments and pages, and their limits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import prose  # noqa: E402 - the path is set above

TEXTS = {
    "page.md": "# A page\n\nIt waits for\nwhoever reads, and `nobody` is code.\n",
    "package.go": (
        "// Package p waits for whoever reads.\n// F calls told() and x.told.\npackage p\n\nvar s = `nobody`\n"
    ),
    "module.py": '"""Waits for whoever reads."""\n\nS = "nobody"\n',
}


@pytest.mark.everything
@pytest.mark.parametrize(("name", "line"), [("page.md", 4), ("package.go", 1), ("module.py", 1)])
def test_vale_finds_phrases_in_prose_only(tmp_path: Path, name: str, line: int) -> None:
    file = tmp_path / name
    file.write_text(TEXTS[name])
    assert [(h.line, h.phrase) for h in prose.find([str(file)])] == [(line, "whoever")]


def group(directory: str, *, pages: bool, lines: int, phrases: int) -> prose.Group:
    hits = [prose.Hit(f"{directory}/{i}", i, "whoever", "") for i in range(phrases)]
    return prose.Group(directory, pages, lines, hits)


@pytest.mark.parametrize(("pages", "most"), [(True, 3), (False, 5)])
def test_more_phrases_than_the_limit_fail(pages: bool, most: int) -> None:
    limits = prose.Limits(2.5, {"docs": 3})
    assert not prose.problems([group("docs", pages=pages, lines=2000, phrases=most)], limits)
    title, *hits = prose.problems([group("docs", pages=pages, lines=2000, phrases=most + 1)], limits)
    assert f"{most + 1} phrases, at most {most} are allowed" in title
    assert len(hits) == most + 1


def test_a_directory_without_limit_has_no_phrases() -> None:
    assert prose.problems([group("new", pages=True, lines=2000, phrases=1)], prose.Limits(2.5, {"docs": 3}))


def test_changed_files_are_listed_first() -> None:
    exceeding = group("docs", pages=True, lines=10, phrases=30)
    _, first, *others = prose.problems([exceeding], prose.Limits(2.5, {}), frozenset({"docs/29"}))
    assert first.startswith("docs/29:29: whoever")
    assert len(others) == prose.SHOWN - 1


def test_limits_are_only_lowered() -> None:
    before = prose.Limits(2.5, {"docs": 3, "python": 2})
    assert prose.raised(prose.Limits(2.5, {"docs": 3}), before) == []
    assert prose.raised(prose.Limits(2, {"docs": 2, "python": 2, "new": 9}), before) == []
    assert prose.raised(prose.Limits(2.6, {"docs": 4, "python": 2}), before) == ["docs", "comments"]
