"""A run of the table as text for a terminal and as the page docs/results/bench.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from measures import Measure

HEAD = ("measure", "value", "baseline", "ratio", "spread", "better")
Run = dict[str, Any]
"""The output of run.py: machine, date, revision, runs, seconds, moment, left_out, measures."""


def text(run: Run) -> str:
    lines = [HEAD, *(cells(m) for m in lines_of(run))]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip() for line in lines]
    return "\n".join([*body, *notes(lines_of(run))])


def page(run: Run) -> str:
    lines = [HEAD, ("---", "---:", "---", "---:", "---:", "---"), *(cells(m) for m in lines_of(run))]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    remarks = notes(lines_of(run))
    if run["moment"]:
        remarks.append("This was a moment of each program, to see that it runs: the figures mean nothing.")
    if run["left_out"]:
        remarks.append("Not in this run: " + ", ".join(run["left_out"]) + ".")
    return (
        "\n\n".join([INTRODUCTION.format(**run), table, *(["\n".join(f"- {n}" for n in remarks)] if remarks else [])])
        + "\n"
    )


INTRODUCTION = """# Benchmarks

`make bench` writes this page. It measures the speed and size goals of loaderd, in about ten minutes a run on two quiet
cores. Each line has its baseline from the same run. *Ratio* is the value divided by the baseline. Each line is that of
the run with the median ratio. *Spread* is from the lowest ratio to the highest. Compare ratios, because absolute
figures depend on the machine.

    make bench BENCH=bin/mine RUNS=3                                     # measure again
    make bench-compare A=docs/results/bench.json B=bin/mine.json         # list the ratios that are worse by a tenth or more

| lines | what is measured | baseline |
| --- | --- | --- |
| encoding | 60 MB of mixed text in one process per library, first pass cold, median of the later passes warm | the fastest other library |
| WordPiece, Unigram, SentencePiece | up to 8 MB of Python's library, 8,000 tokens trained on other text | the library that trained them |
| random bytes | 4 MB as one document, new encoder | the fastest other library |
| loading | a tokenizer on one core, medians of alternating processes | Hugging Face `tokenizers`, same vocabulary |
| Flight | pyarrow reads prebuilt steps | as many bytes over a raw socket |
| wait for a step | eight ranks in lock step that compute for 10 ms, 2,000 steps | the same ranks with a raw socket |
| publish | 300 MB of Go's library into an embedded server in a separate process, medians of five rounds | the same documents, prepared in memory |
| chats | JSON lines of chats as messages, per second of processor time, medians of three | `apply_chat_template` with tokens and mask; jinja2 and the tokenizer alone |
| text to pyarrow | 40,000 documents from JetStream, cold daemon, medians of three | tokenizing the same text alone, loading included |
| StepLoader | int64 tensors of documents that an earlier run has read, with steps planned while they are read, or before; *from messages*: without token store | memory-mapped `DataLoader`, two workers |
| memory, start | demo, end to end, daemon without documents | a Python process that imports pyarrow or torch |
| splice | documents per second of processor time | `bucket` in the same process |
| cores | processor time per MB with up to 16 workers on two cores | one worker |

The [lab notebook](../../bench/notes/README.md) has further measurements, other machines and rejected alternatives.
Other results: [papers](papers.md), [other packers](peers.md), [mixtures](mixtures.md), [floods](security.md).

## Figures

{machine}. {date}, revision {revision}, runs: {runs}, {seconds:.0f} s. The bars are the ratios, inverted where lower is better.

![Encoding: each tokenizer against the fastest other library](img/bench-encoding.svg)

![Serving: Flight and waits against a raw socket, StepLoader against a memory-mapped DataLoader](img/bench-serving.svg)

![Start and memory, against the imports of Python and Hugging Face tokenizers](img/bench-start.svg)"""  # noqa: E501 - lines of a page


def lines_of(run: Run) -> list[Measure]:
    return [Measure.of(m) for m in run["measures"]]


def cells(m: Measure) -> Sequence[str]:
    baseline = f"{figure(m.baseline)} {m.baseline_name}" if m.baseline is not None else m.baseline_name or "-"
    value = f"{figure(m.value)} {m.unit}" if m.value is not None else "-"
    spread = f"{figure(m.spread[0])} to {figure(m.spread[1])}" if m.spread else "-"
    return m.name, value.strip(), baseline, figure(m.ratio), spread, m.better


def notes(all_of_them: Iterable[Measure]) -> list[str]:
    return [f"{m.name}: {m.note}" for m in all_of_them if m.note]


def figure(x: float | None) -> str:
    """Returns a number with three significant digits."""
    if x is None:
        return "-"
    if abs(x) >= 100:
        return f"{x:,.0f}"
    return f"{x:.3g}"
