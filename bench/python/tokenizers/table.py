"""The tables of the comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Result = dict[str, Any]


def markdown(results: list[Result]) -> str:
    cores = sorted({r["cores"] for r in results})
    blocks = [table(HEAD, (row(r) for r in results if r["cores"] == n)) for n in cores]
    refused = sorted({f"- {r['library']}, {r['vocabulary']}: {r['refused']}" for r in results if "refused" in r})
    versions = ", ".join(sorted({r["package"] for r in results}))
    if refused:
        blocks.append("Not measured:\n\n" + "\n".join(refused))
    return "\n\n".join([*blocks, f"Versions: {versions}."])


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    line = ("---", "---", *["---:"] * (len(head) - 2))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, line, *rows))


HEAD = (
    "vocabulary",
    "library",
    "cores",
    "MB/s warm",
    "cold",
    "of CPU time warm",
    "cold",
    "tokens/s warm",
    "documents wrong",
    "memory added",
)


def row(r: Result) -> tuple[str, ...]:
    start = (r["vocabulary"], r["library"], str(r["cores"]))
    if "refused" in r:
        return (*start, *["-"] * (len(HEAD) - 3))
    tokens = r["warm_wall"] * r["tokens"] / r["bytes"]
    speeds = (speed(r[f"{when}_{clock}"]) for clock in ("wall", "cpu") for when in ("warm", "cold"))
    return (*start, *speeds, f"{tokens:.1f}M", wrong(r), f"{r['memory_bytes'] / 1e6:,.0f} MB")


def wrong(r: Result) -> str:
    if r["library"] == "tokenizers":
        return "reference"
    return f"{r['wrong']:,} of {r['documents']:,}" if r.get("wrong") is not None else "-"


def speed(mb: float) -> str:
    return f"{mb:.1f}" if mb < 9.95 else f"{mb:.0f}"


def hostile(results: list[Result]) -> str:
    """Returns one row per text and vocabulary, one column per library: MB/s of the first round and of later ones."""
    libraries = list(dict.fromkeys(r["library"] for r in results))
    rows = []
    for key in dict.fromkeys((r["vocabulary"], r["text"]) for r in results):
        cells = {r["library"]: cell(r) for r in results if (r["vocabulary"], r["text"]) == key}
        rows.append((*key, *(cells[library] for library in libraries)))
    return table(("vocabulary", "text", *libraries), rows)


def cell(r: Result) -> str:
    if "refused" in r:
        return "-" if "not done" not in r["refused"] else r["refused"]
    mark = " (wrong ids)" if r.get("wrong") else ""
    return f"{speed(r['cold_wall'])} / {speed(r['warm_wall'])}{mark}"
