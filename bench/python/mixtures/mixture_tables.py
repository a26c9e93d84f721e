"""The tables of the comparison."""

from __future__ import annotations

import math
from typing import Any

Result = dict[str, Any]

KINDS = {
    "taken": "documents, as planned",
    "steps": "documents, in the steps",
    "documents": "documents",
    "divided": "documents, weights divided by mean lengths",
    "rows": "rows of one source, cut in advance",
}


def tables(results: list[Result], settings: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of the libraries that ran, by their names on the page."""
    there = [r for r in results if "error" not in r]
    return {
        "shares": shares(there, settings),
        "changes": changes(there),
        "epochs": epochs(there),
        "speeds": speeds(there),
    }


def markdown(results: list[Result], settings: dict[str, Any]) -> str:
    """Returns the tables, the errors of libraries that did not run, and the versions of the others."""
    failed = [f"{r['name']} did not run: {r['error']}" for r in results if "error" in r]
    versions = sorted({r["version"] for r in results if "error" not in r and r["version"] != "loaderd"})
    return "\n\n".join([*tables(results, settings).values(), *failed, f"Versions: {', '.join(versions)}."])


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---", *["---:"] * (len(head) - 1)], *rows))


def shares(results: list[Result], settings: dict[str, Any]) -> str:
    at = [f"{n // 1_000_000}M" if n >= 1_000_000 else f"{n // 1000}k" for n in settings["at"]]
    head = ["library, sample", *(f"{w}, {n}" for w in ("equal weights", "unequal weights") for n in at)]
    return table(
        head,
        [
            [f"{r['name']}: {KINDS[kind]}", *map(percent, values)]
            for r in results
            for kind, values in r["shares"].items()
        ],
    )


def changes(results: list[Result]) -> str:
    head = ["library", "resumed unchanged", "repeated samples", "lost samples", "deviation from the new shares"]
    rows = [
        [
            r["name"],
            "the same samples" if c["same"] else "other samples",
            number(c["repeated"]),
            "unknown" if c["lost"] is None else number(c["lost"]),
            percent(c["off"]),
        ]
        for r in results
        for c in [r["change"]]
    ]
    return table(head, rows)


def epochs(results: list[Result]) -> str:
    head = [
        "library",
        "neighbours in the corpus that stay adjacent",
        "positions with the same document in both epochs",
        "documents repeated in the first epoch",
    ]
    return table(
        head, [[f"{r['name']}: {how}", *map(percent, values)] for r in results for how, values in r["epochs"].items()]
    )


def speeds(results: list[Result]) -> str:
    base = next((r["speed"] for r in results if r["name"] == "loaderd"), math.nan)
    return table(
        ["library", "samples/s", "ratio to loaderd"],
        [[r["name"], number(round(r["speed"], -3)), f"{r['speed'] / base:.2f}"] for r in results],
    )


def percent(x: float) -> str:
    if math.isnan(x):
        return "-"
    return f"{100 * x:.2f} %" if x < 0.0995 else f"{100 * x:.0f} %"


def number(x: float) -> str:
    return f"{x:,.0f}"
