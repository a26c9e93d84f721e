"""A run of the table as text for a terminal and as the page docs/results/bench.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from measures import Measure

HEAD = ("measure", "value", "baseline", "ratio", "better")
Run = dict[str, Any]
"""The output of run.py: machine, date, revision, seconds, moment, left_out, measures."""


def text(run: Run) -> str:
    lines = [HEAD, *(cells(m) for m in lines_of(run))]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    return "\n".join([*body, *notes(lines_of(run))])


def page(run: Run) -> str:
    lines = [HEAD, ("---", "---:", "---", "---:", "---"), *(cells(m) for m in lines_of(run))]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    said = notes(lines_of(run))
    if run["moment"]:
        said.append("This was a moment of each program, to see that it runs: the figures mean nothing.")
    if run["left_out"]:
        said.append("Not in this run: " + ", ".join(run["left_out"]) + ".")
    return "\n\n".join([INTRODUCTION.format(**run), table, *(["\n".join(f"- {n}" for n in said)] if said else [])]) + "\n"


INTRODUCTION = """# The last run of `make bench`

Every line has its baseline from the same run: compare ratios, not figures. A ratio is the value by the baseline; *better* says which way is better.
`make bench BENCH=bin/mine` measures again, in some minutes, and `make bench-compare A=docs/results/bench.json B=bin/mine.json` tells
which ratios became worse by a tenth or more. What each line measures, and longer runs, stand in [benchmarks.md](benchmarks.md#one-table-make-bench).
This page is written by the run.

{machine}. {date}, revision {revision}, {seconds:.0f} s."""


def lines_of(run: Run) -> list[Measure]:
    return [Measure.of(m) for m in run["measures"]]


def cells(m: Measure) -> Sequence[str]:
    beside = f"{figure(m.baseline)} {m.baseline_name}" if m.baseline is not None else m.baseline_name or "-"
    value = f"{figure(m.value)} {m.unit}" if m.value is not None else "-"
    return m.name, value.strip(), beside, figure(m.ratio), m.better


def notes(all_of_them: Iterable[Measure]) -> list[str]:
    return [f"{m.name}: {m.note}" for m in all_of_them if m.note]


def figure(x: float | None) -> str:
    """Returns a number with three significant digits."""
    if x is None:
        return "-"
    if abs(x) >= 100:
        return f"{x:,.0f}"
    return f"{x:.3g}"
