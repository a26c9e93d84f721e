"""Counts phrases of the deny-list (tools/vale/styles/Loaderd) in comments, strings and pages, and checks their limits.

    python3 tools/prose.py            # the table, and the first hits where a limit is exceeded
    python3 tools/prose.py --lower    # also lowers the limits of pages to the present numbers

Comments with docstrings, and string literals of Go and Python, may each have a number of phrases per 1,000 lines of
their files, in each top-level directory. Pages may have a fixed number per top-level directory, which can only be
lowered. The limits are in tools/vale/limits.json. All tracked files count. A generated page counts because its text has
a source in the code.

vale needs minutes for all files, and reports each file separately. Its reports are therefore stored in bin/prose.json,
by the SHA-256 of the file, the rules and the version of vale.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from commits import git, merge_base

ROOT = Path(__file__).resolve().parents[1]
LIMITS = Path("tools/vale/limits.json")
VALE = ["go", "tool", f"-modfile={ROOT / 'tools' / 'go.mod'}", "vale", f"--config={ROOT / '.vale.ini'}", "--no-global"]
STORED = Path("bin/prose.json")
SHOWN = 20
GO_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])+'|"(?P<text>(?:\\.|[^"\\\n])*)"|`(?P<raw>[^`]*)`""", re.DOTALL
)

Kind = Literal["comments", "strings", "pages"]


@dataclass(frozen=True)
class Limits:
    """The most phrases: per 1,000 lines of code in comments and in strings, and in the pages of a directory."""

    comments_per_1000_lines: float
    strings_per_1000_lines: float
    pages: Mapping[str, int]

    @classmethod
    def parse(cls, text: str) -> Limits:
        fields = json.loads(text)
        comments, strings = (fields.get(f"{kind}_per_1000_lines", 0) for kind in ("comments", "strings"))
        return cls(float(comments), float(strings), dict(fields["pages"]))

    def format(self) -> str:
        fields = {
            "comments_per_1000_lines": self.comments_per_1000_lines,
            "strings_per_1000_lines": self.strings_per_1000_lines,
            "pages": dict(sorted(self.pages.items())),
        }
        return json.dumps(fields, indent=2) + "\n"


@dataclass(frozen=True)
class Hit:
    """A phrase of the deny-list in a file."""

    file: str
    line: int
    phrase: str
    message: str
    is_string: bool = False

    @property
    def kind(self) -> Kind:
        return kinds(self.file)[self.is_string]


@dataclass
class Group:
    """The pages, or the comments or strings of the code, of a top-level directory."""

    directory: str
    kind: Kind
    lines: int
    hits: list[Hit]

    def most(self, limits: Limits) -> int:
        """Returns the most phrases that the limits allow."""
        if self.kind == "pages":
            return limits.pages.get(self.directory, 0)
        rate = limits.strings_per_1000_lines if self.kind == "strings" else limits.comments_per_1000_lines
        return int(rate * self.lines / 1000)


def kinds(file: str) -> tuple[Kind, ...]:
    """Returns the kinds of text in a file."""
    return ("pages",) if file.endswith(".md") else ("comments", "strings")


def is_prose(line: str, phrase: str) -> bool:
    """Reports whether a phrase in a line is a word and not an identifier, such as `told(` or `.told`.

    TokenIgnores of vale do not work for these: they add backticks around an identifier, even within a code span.
    """
    word = re.escape(phrase.split(maxsplit=1)[0])
    return word not in line or re.search(rf"(?<![\w.]){word}(?![\w(])", line) is not None


def go_strings(text: str, raw: bool) -> Iterator[tuple[int, str]]:
    """Yields the line and text of each string literal of a Go file, without raw strings unless `raw` is set."""
    line, end = 1, 0
    for token in GO_TOKEN.finditer(text):
        line, end = line + text.count("\n", end, token.start()), token.start()
        if literal := token["text"] or (raw and token["raw"]):
            yield line, literal


def python_strings(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line and source of each string literal of a Python file, except docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, documented) and ast.get_docstring(n, clean=False)]
    docstrings = {n.body[0].lineno for n in nodes}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and token.start[0] not in docstrings:
            yield token.start[0], token.string


class Reports:
    """The alerts of vale by the digest of a file's name suffix and content, and of what else decides them."""

    def __init__(self, stored: Mapping[str, list[Any]] | None = None) -> None:
        self.stored = stored or {}
        self.used: dict[str, list[Any]] = {}
        self.rules = hashlib.sha256()
        styles = sorted((ROOT / "tools" / "vale" / "styles" / "Loaderd").iterdir())
        for file in [ROOT / ".vale.ini", ROOT / "tools" / "go.mod", *styles]:
            self.rules.update(file.read_bytes())

    @classmethod
    def read(cls) -> Reports:
        """Returns the stored reports, or none if they cannot be read."""
        try:
            return cls(json.loads((ROOT / STORED).read_text()))
        except (OSError, ValueError):
            return cls()

    def write(self) -> None:
        """Stores the reports of the files of this run."""
        file = ROOT / STORED
        file.parent.mkdir(exist_ok=True)
        new = file.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(self.used))
        new.replace(file)

    def alerts(self, files: Iterable[str]) -> dict[str, list[Any]]:
        """Returns the alerts of each file. vale runs for files without a stored report."""
        keys = {}
        for file in files:
            digest = self.rules.copy()
            digest.update(Path(file).suffix.encode() + b"\0" + (ROOT / file).read_bytes())
            keys[file] = digest.hexdigest()
        known = {**self.stored, **self.used}
        if missing := [file for file, key in keys.items() if key not in known]:
            alerts = run_vale(missing)
            known |= {keys[file]: alerts.get(file, []) for file in missing}
        self.used |= {key: known[key] for key in keys.values()}
        return {file: known[key] for file, key in keys.items()}


def run_vale(files: Iterable[str]) -> dict[str, list[Any]]:
    """Returns the alerts of vale by file. Raises SystemExit if vale fails."""
    command = [*VALE, "--output=JSON", "--no-exit", "--minAlertLevel=error", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tools/prose.py: vale: {(done.stderr or done.stdout).strip()}")
    return dict(json.loads(done.stdout))


def find_in_strings(files: Iterable[str], reports: Reports | None = None) -> list[Hit]:
    """Returns the phrases in string literals of several words. Raw strings of Go's tests are data and do not count."""
    sources: dict[str, tuple[str, list[int]]] = {}  # by page: the file, and its line for each line of the page
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            text = (ROOT / file).read_text(encoding="utf-8")
            is_go = file.endswith(".go")
            literals = go_strings(text, raw=not file.endswith("_test.go")) if is_go else python_strings(text)
            paragraphs: list[str] = []
            lines: list[int] = []
            for line, literal in literals:
                for i, part in enumerate(re.sub(r"\\[nt]", " ", literal).splitlines()):
                    if " " in part.strip():
                        paragraphs += [part.strip(), ""]
                        lines += [line + i, line + i]
            page = Path(folder, f"{file}.md")
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text("\n".join(paragraphs), encoding="utf-8")
            sources[str(page)] = file, lines
        hits = find(sources, reports)
    found = []
    for hit in hits:
        file, lines = sources[hit.file]
        found.append(replace(hit, file=file, line=lines[hit.line - 1], is_string=True))
    return found


def find(files: Iterable[str], reports: Reports | None = None) -> list[Hit]:
    """Returns the phrases in files, in the order of files and lines. Raises SystemExit if vale fails."""
    hits = []
    for file, alerts in sorted((reports or Reports()).alerts(files).items()):
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        for alert in sorted(alerts, key=lambda a: (a["Line"], a["Span"])):
            at, phrase = alert["Line"], alert["Match"]
            if is_prose(lines[at - 1] if at <= len(lines) else "", phrase):
                hits.append(Hit(file, at, " ".join(phrase.split()), alert["Message"]))
    return hits


def grouped(files: Iterable[str], hits: Iterable[Hit]) -> list[Group]:
    """Returns the groups of files: comments, strings and pages, each in the order of directories."""

    def directory(file: str) -> str:
        return file.partition("/")[0] if "/" in file else "."

    lines: Counter[tuple[Kind, str]] = Counter()
    for file in files:
        for kind in kinds(file):
            lines[kind, directory(file)] += (ROOT / file).read_text(encoding="utf-8").count("\n")
    order = ("comments", "strings", "pages")
    keys = sorted(lines, key=lambda key: (order.index(key[0]), key[1]))
    groups = {key: Group(key[1], key[0], lines[key], []) for key in keys}
    for hit in hits:
        groups[hit.kind, directory(hit.file)].hits.append(hit)
    return list(groups.values())


def table(groups: Iterable[Group], limits: Limits) -> str:
    rows = [("directory", "lines", "phrases", "per 1,000 lines", "most phrases")]
    for g in groups:
        rate = f"{1000 * len(g.hits) / max(g.lines, 1):.1f}"
        rows.append((f"{g.directory}, {g.kind}", f"{g.lines:,}", f"{len(g.hits):,}", rate, f"{g.most(limits):,}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )


def raised(limits: Limits, before: Limits) -> list[str]:
    """Returns the names of limits that are higher than before. A new directory may have any limit."""
    names = [d for d, most in limits.pages.items() if most > before.pages.get(d, most)]
    names += ["comments"] * (limits.comments_per_1000_lines > before.comments_per_1000_lines)
    return names + ["strings"] * (0 < before.strings_per_1000_lines < limits.strings_per_1000_lines)


def problems(groups: Iterable[Group], limits: Limits, changed: frozenset[str] = frozenset()) -> list[str]:
    """Returns a line per group that exceeds its limit, followed by its first hits. Changed files are listed first."""
    found = []
    for g in groups:
        if len(g.hits) > g.most(limits):
            hits = sorted(g.hits, key=lambda h: h.file not in changed)[:SHOWN]
            title = f"{g.kind} of {g.directory}"
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
    code = [file for file in files if "strings" in kinds(file)]
    reports = Reports.read()
    groups = grouped(files, [*find(files, reports), *find_in_strings(code, reports)])
    reports.write()
    print(table(groups, limits))

    fewer = {g.directory: len(g.hits) for g in groups if g.kind == "pages" and len(g.hits) < g.most(limits)}
    present = {g.directory for g in groups if g.kind == "pages"}
    if lower:
        pages = {d: fewer.get(d, most) for d, most in limits.pages.items() if d in present}
        (ROOT / LIMITS).write_text(replace(limits, pages=pages).format())
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
