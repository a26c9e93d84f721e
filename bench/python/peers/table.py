"""The tables of the comparison: figures of every packer, and each packer with the most similar setting of loaderd."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Result = dict[str, Any]


def tables(results: list[Result]) -> dict[str, str]:
    """Returns the tables by their names on the page."""
    ours = [r for r in results if r["package"] == "loaderd"]
    theirs = [r for r in results if r["package"] != "loaderd"]
    named = {"figures": table(FIGURES, (figures(r) for r in results))}
    if ours and theirs:
        named["nearest"] = table(NEAREST, (compared(r, nearest(ours, r)) for r in theirs))
    return named


def markdown(results: list[Result]) -> str:
    """Returns the tables and the versions of the packers."""
    versions = sorted({r["package"] for r in results if r["package"] != "loaderd"})
    return "\n\n".join([*tables(results).values(), *([f"Versions: {', '.join(versions)}."] if versions else [])])


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows))


FIGURES = (
    "packer",
    "documents/s with tokens",
    "documents/s, lengths alone",
    "padding",
    "documents cut",
    "cut though they fit a row",
    "tokens dropped",
    "tokens repeated",
    "memory added",
    "memory of the process",
    "largest age",
    "online",
)


def figures(r: Result) -> tuple[str, ...]:
    return (
        r["name"],
        speed(r["moved"]),
        speed(r["alone"]) if "alone" in r else "-",
        padding(r),
        share(r["cut"], r["documents"]),
        share(r["cut_short"], r["documents"]),
        share(r["dropped"], r["tokens"]),
        share(r["repeated"], r["tokens"]),
        size(r["memory"]),
        size(r["process"]),
        age(r),
        r["online"],
    )


NEAREST = (
    "packer",
    "nearest setting of loaderd",
    "padding: packer, loaderd",
    "largest age: packer, loaderd",
    "documents/s with tokens",
    "loaderd is behind in",
)


def compared(r: Result, ours: Result) -> tuple[str, ...]:
    times = ours["moved"] / r["moved"]
    return (
        r["name"],
        ours["name"].removeprefix("loaderd "),
        f"{padding(r)}, {padding(ours)}",
        f"{age(r)}, {age(ours)}",
        f"{times:.1f} times" if times < 9.95 else f"{times:.0f} times",
        ", ".join(behind(ours, r)) or "nothing",
    )


def nearest(ours: list[Result], r: Result) -> Result:
    """Returns the setting that is worse than r in the fewest columns; of those the one that cuts the fewest documents,
    and then pads least.
    """
    return min(ours, key=lambda o: (len(behind(o, r)), o["cut"] / o["documents"], o["padding"] / o["slots"]))


def behind(a: Result, b: Result) -> list[str]:
    """Returns the columns in which a is worse than b.

    The number of documents longer than a row does not depend on the packer.
    """
    worse = {
        "documents/s with tokens": a["moved"] < b["moved"],
        "documents/s, lengths alone": "alone" in a and "alone" in b and a["alone"] < b["alone"],
        "padding": a["padding"] / a["slots"] > b["padding"] / b["slots"],
        "cut though they fit a row": a["cut_short"] / a["documents"] > b["cut_short"] / b["documents"],
        "dropped": a["dropped"] / a["tokens"] > b["dropped"] / b["tokens"],
        "repeated": a["repeated"] / a["tokens"] > b["repeated"] / b["tokens"],
        "memory": a["memory"] > b["memory"],
        "age": a["oldest"] > b["oldest"] and not offline(b),
    }
    return [column for column, is_worse in worse.items() if is_worse]


def padding(r: Result) -> str:
    return share(r["padding"], r["slots"])


def age(r: Result) -> str:
    return "all" if offline(r) else f"{r['oldest']:,}"


def offline(r: Result) -> bool:
    """Reports whether nothing was emitted before the last document was added."""
    return r["oldest"] == r["documents"] - 1


def speed(per_second: float) -> str:
    if per_second >= 1e6:
        return f"{per_second / 1e6:.2f}M"
    return f"{per_second / 1e3:.0f}k" if per_second >= 1e4 else f"{per_second / 1e3:.1f}k"


def size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count < 1e7 else f"{count / 1e6:,.0f} MB"


def share(part: int, of: int) -> str:
    """Returns a percentage of two significant digits; 0 only for exactly 0."""
    percent = 100 * part / of
    return "0" if part == 0 else f"{percent:.1f} %" if percent >= 9.95 else f"{percent:.2g} %"
