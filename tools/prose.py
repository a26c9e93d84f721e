"""Counts phrases of the deny-list (tools/vale/styles/Loaderd) in comments and pages, and compares them with limits.

    python3 tools/prose.py            # the table, and the first hits where a limit is exceeded
    python3 tools/prose.py --lower    # also lowers the limits of pages to the present numbers

Comments and docstrings of Go and Python may have a number of phrases per 1,000 lines of their files, in each top-level
directory. Pages may have a fixed number per top-level directory, which can only be lowered. Both are in
tools/vale/limits.json. All tracked files count. A generated page counts because its text has a source in the code.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from commits import git, merge_base

ROOT = Path(__file__).resolve().parents[1]
LIMITS = Path("tools/vale/limits.json")
VALE = ["go", "tool", f"-modfile={ROOT / 'tools' / 'go.mod'}", "vale", f"--config={ROOT / '.vale.ini'}", "--no-global"]
SHOWN = 20


@dataclass(frozen=True)
class Limits:
    """The most phrases: per 1,000 lines of a directory's code, and of a directory's pages."""

    comments_per_1000_lines: float
    pages: Mapping[str, int]

    @classmethod
    def parse(cls, text: str) -> Limits:
        fields = json.loads(text)
        return cls(float(fields["comments_per_1000_lines"]), dict(fields["pages"]))

    def format(self) -> str:
        fields = {"comments_per_1000_lines": self.comments_per_1000_lines, "pages": dict(sorted(self.pages.items()))}
        return json.dumps(fields, indent=2) + "\n"


@dataclass(frozen=True)
class Hit:
    """A phrase of the deny-list in a file."""

    file: str
    line: int
    phrase: str
    message: str


@dataclass
class Group:
    """The pages, or the files with comments, of a top-level directory."""

    directory: str
    pages: bool
    lines: int
    hits: list[Hit]

    def most(self, limits: Limits) -> int:
        """Returns the most phrases that the limits allow."""
        if self.pages:
            return limits.pages.get(self.directory, 0)
        return int(limits.comments_per_1000_lines * self.lines / 1000)


def is_prose(line: str, phrase: str) -> bool:
    """Reports whether a phrase in a line is a word and not an identifier, such as `told(` or `.told`.

    TokenIgnores of vale do not work for these: they add backticks around an identifier, even within a code span.
    """
    word = re.escape(phrase.split(maxsplit=1)[0])
    return word not in line or re.search(rf"(?<![\w.]){word}(?![\w(])", line) is not None


def find(files: Iterable[str]) -> list[Hit]:
    """Returns the phrases in files, in the order of files and lines. Raises SystemExit if vale fails."""
    command = [*VALE, "--output=JSON", "--no-exit", "--minAlertLevel=error", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tools/prose.py: vale: {(done.stderr or done.stdout).strip()}")
    hits = []
    for file, alerts in sorted(json.loads(done.stdout).items()):
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        for alert in sorted(alerts, key=lambda a: (a["Line"], a["Span"])):
            at, phrase = alert["Line"], alert["Match"]
            if is_prose(lines[at - 1] if at <= len(lines) else "", phrase):
                hits.append(Hit(file, at, " ".join(phrase.split()), alert["Message"]))
    return hits


def grouped(files: Iterable[str], hits: Iterable[Hit]) -> list[Group]:
    """Returns the groups of files: code before pages, in the order of directories."""

    def key(file: str) -> tuple[bool, str]:
        return file.endswith(".md"), file.partition("/")[0] if "/" in file else "."

    lines: Counter[tuple[bool, str]] = Counter()
    for file in files:
        lines[key(file)] += (ROOT / file).read_text(encoding="utf-8").count("\n")
    groups = {(pages, directory): Group(directory, pages, n, []) for (pages, directory), n in sorted(lines.items())}
    for hit in hits:
        groups[key(hit.file)].hits.append(hit)
    return list(groups.values())


def table(groups: Iterable[Group], limits: Limits) -> str:
    rows = [("directory", "lines", "phrases", "per 1,000 lines", "most phrases")]
    for g in groups:
        rate = f"{1000 * len(g.hits) / max(g.lines, 1):.1f}"
        name = g.directory + (", pages" if g.pages else ", comments")
        rows.append((name, f"{g.lines:,}", f"{len(g.hits):,}", rate, f"{g.most(limits):,}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )


def raised(limits: Limits, before: Limits) -> list[str]:
    """Returns the names of limits that are higher than before. A new directory may have any limit."""
    names = [d for d, most in limits.pages.items() if most > before.pages.get(d, most)]
    return names + ["comments"] * (limits.comments_per_1000_lines > before.comments_per_1000_lines)


def problems(groups: Iterable[Group], limits: Limits, changed: frozenset[str] = frozenset()) -> list[str]:
    """Returns a line per group that exceeds its limit, followed by its first hits. Changed files are listed first."""
    found = []
    for g in groups:
        if len(g.hits) > g.most(limits):
            hits = sorted(g.hits, key=lambda h: h.file not in changed)[:SHOWN]
            title = f"{'pages' if g.pages else 'comments'} of {g.directory}"
            found.append(f"{title}: {len(g.hits)} phrases, at most {g.most(limits)} are allowed")
            found += [f"{h.file}:{h.line}: {h.phrase} ({h.message})" for h in hits]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lower", action="store_true", help="lower the limits of pages to the present numbers")
    lower = parser.parse_args().lower

    tracked = subprocess.check_output(["git", "ls-files", "-z", "*.go", "*.py", "*.md"], cwd=ROOT, text=True)
    files = [file for file in tracked.split("\0") if file and (ROOT / file).is_file()]
    limits = Limits.parse((ROOT / LIMITS).read_text())
    groups = grouped(files, find(files))
    print(table(groups, limits))

    fewer = {g.directory: len(g.hits) for g in groups if g.pages and len(g.hits) < g.most(limits)}
    present = {g.directory for g in groups if g.pages}
    if lower:
        pages = {d: fewer.get(d, most) for d, most in limits.pages.items() if d in present}
        (ROOT / LIMITS).write_text(Limits(limits.comments_per_1000_lines, pages).format())
    elif fewer:
        print(f"Lower the limits of pages in {', '.join(fewer)}: python3 tools/prose.py --lower")

    base = merge_base()
    before = git("show", f"{base}:{LIMITS.as_posix()}") if base else None
    changed = git("diff", "--name-only", base) if base else None
    found = problems(groups, limits, frozenset((changed or "").splitlines()))
    if before and (higher := raised(limits, Limits.parse(before))):
        found.append(f"{LIMITS}: limits can only be lowered: {', '.join(higher)}")
    if found:
        sys.exit("tools/prose.py: " + "\n".join(found))


if __name__ == "__main__":
    main()
