"""tools/words.py: the words of the pages, by hand and generated, and their limit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import words

DOCS = "docs"  # of the test; a test of the links takes a literal path for a page of the repository
TABLE = "one two\n\n<!-- table speed -->\n| a |\n\n    make bench\n\n<!-- end of table -->\n\nthree\n"


@pytest.mark.parametrize(
    ("name", "text", "by_hand", "generated"),
    [
        ("README.md", "# Title\n\n    make test\n", 4, 0),
        ("docs/results/papers.md", TABLE, 3, 14),
        ("docs/results/papers.md", TABLE + TABLE, 6, 28),
        ("docs/results/papers.md", TABLE.replace("<!-- end of table -->", ""), 12, 0),
        ("docs/results/bench.md", "one two\n", 0, 2),
        (f"{DOCS}/reference/commands/run.md", "one two\n", 0, 2),
    ],
)
def test_generated_words_count_apart(name: str, text: str, by_hand: int, generated: int) -> None:
    assert words.count(name, text) == words.Words(by_hand, generated)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("README.md", "CHANGELOG.md", "docs/how-to/operate.md", "docs/results/bench.md", f"{DOCS}/adr/1.md"):
        write(tmp_path, name, "one two three")
    assert words.main(["--limit", "9"], tmp_path) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    for line in (["start", "3", "0"], ["results", "0", "3"], ["development", "3", "0"], ["total", "9", "3"]):
        assert line in shown
    assert words.main(["--limit", "8", "--pages"], tmp_path) == 1
    captured = capsys.readouterr()
    assert "docs/how-to/operate.md" in captured.out and "CHANGELOG.md" not in captured.out
    assert "9 words by hand, the limit is 8" in captured.err


def test_page_without_a_kind(tmp_path: Path) -> None:
    write(tmp_path, f"{DOCS}/other/page.md", "one")
    with pytest.raises(SystemExit, match="is of no kind"):
        words.main([], tmp_path)
