"""tools/prose.py: phrases of the deny-list in comments, strings and pages, and their limits."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import prose  # noqa: E402 - the path is set above

TEXTS = {
    "page.md": "# A page\n\nIt waits for\nwhoever reads, and `nobody` is code.\n",
    "package.go": (
        "// Package p waits for whoever reads.\n// F calls told() and x.told.\npackage p\n\n"
        'var s = []string{"nobody", "it waits\\nfor nobody, \\"so\\"", \'"\'} // a "quote\n'
    ),
    "module.py": '"""Waits for whoever reads."""\n\nS = "nobody", "it waits for nobody"\n',
}


@pytest.mark.everything
@pytest.mark.parametrize(("name", "line"), [("page.md", 4), ("package.go", 1), ("module.py", 1)])
def test_vale_finds_phrases_in_prose_only(tmp_path: Path, name: str, line: int) -> None:
    file = tmp_path / name
    file.write_text(TEXTS[name])
    assert [(h.line, h.phrase) for h in prose.find([str(file)])] == [(line, "whoever")]


@pytest.mark.everything
@pytest.mark.parametrize(("name", "line"), [("package.go", 5), ("module.py", 3)])
def test_vale_finds_phrases_in_strings_of_several_words(tmp_path: Path, name: str, line: int) -> None:
    file = tmp_path / name
    file.write_text(TEXTS[name])
    hits = prose.find_in_strings([str(file)])
    assert [(h.file, h.line, h.phrase, h.kind) for h in hits] == [(str(file), line, "nobody", "strings")]


def test_raw_strings_of_go_tests_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "x_test.go"
    file.write_text("package p\n\nvar s = `it waits for nobody`\n")
    assert prose.find_in_strings([str(file)]) == []


def group(directory: str, *, kind: prose.Kind, lines: int, phrases: int) -> prose.Group:
    hits = [prose.Hit(f"{directory}/{i}", i, "whoever", "") for i in range(phrases)]
    return prose.Group(directory, kind, lines, hits)


@pytest.mark.parametrize(("kind", "most"), [("pages", 3), ("comments", 5), ("strings", 4)])
def test_more_phrases_than_the_limit_fail(kind: prose.Kind, most: int) -> None:
    limits = prose.Limits(2.5, 2, {"docs": 3})
    assert not prose.problems([group("docs", kind=kind, lines=2000, phrases=most)], limits)
    title, *hits = prose.problems([group("docs", kind=kind, lines=2000, phrases=most + 1)], limits)
    assert f"{most + 1} phrases, at most {most} are allowed" in title
    assert len(hits) == most + 1


def test_a_directory_without_limit_has_no_phrases() -> None:
    limits = prose.Limits(2.5, 2.5, {"docs": 3})
    assert prose.problems([group("new", kind="pages", lines=2000, phrases=1)], limits)


def test_changed_files_are_listed_first() -> None:
    exceeding = group("docs", kind="pages", lines=10, phrases=30)
    _, first, *others = prose.problems([exceeding], prose.Limits(2.5, 2.5, {}), frozenset({"docs/29"}))
    assert first.startswith("docs/29:29: whoever")
    assert len(others) == prose.SHOWN - 1


def test_limits_are_only_lowered() -> None:
    before = prose.Limits(2.5, 2.5, {"docs": 3, "python": 2})
    assert prose.raised(prose.Limits(2.5, 2.5, {"docs": 3}), before) == []
    assert prose.raised(prose.Limits(2, 2, {"docs": 2, "python": 2, "new": 9}), before) == []
    assert prose.raised(prose.Limits(2.6, 2.6, {"docs": 4, "python": 2}), before) == ["docs", "comments", "strings"]


def test_stored_reports_are_used_until_a_file_or_a_rule_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, module, rule = (tmp_path / name for name in ("page.md", "module.py", "tools/vale/styles/Loaderd/Terms.yml"))
    rule.parent.mkdir(parents=True)
    for file in (page, module, rule, tmp_path / ".vale.ini", tmp_path / "tools" / "go.mod"):
        file.write_text("it waits for nobody\n")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    runs: list[list[str]] = []

    def vale(files: Iterable[str]) -> dict[str, Any]:
        runs.append(list(files))
        return {"page.md": [{"Line": 1, "Span": [14, 19], "Match": "nobody", "Message": "m"}]}

    monkeypatch.setattr(prose, "run_vale", vale)

    def find() -> list[tuple[str, str]]:
        reports = prose.Reports.read()
        hits = prose.find(["page.md", "module.py"], reports)
        reports.write()
        return [(hit.file, hit.phrase) for hit in hits]

    assert find() == find() == [("page.md", "nobody")]
    assert runs == [["page.md", "module.py"]]
    module.write_text("it waits\n")
    assert find() == [("page.md", "nobody")] and runs[1:] == [["module.py"]]
    rule.write_text("another rule\n")
    assert find() == [("page.md", "nobody")] and runs[2:] == [["page.md", "module.py"]]
    (tmp_path / prose.STORED).write_text("{")  # incomplete
    assert find() == [("page.md", "nobody")] and runs[3:] == [["page.md", "module.py"]]
