"""Prints the ratios of a run that are worse than those of another by a tenth or more; if any exist, exits with 1.

make bench-compare A=old.json B=new.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from measures import Measure

TENTH = 0.1
ROUNDING = 1e-9  # of divided ratios


@dataclass(frozen=True)
class Change:
    old: Measure
    new: Measure

    @property
    def loss(self) -> float:
        """The fraction of the old ratio by which the new one is worse; below 0 if it is better."""
        assert self.old.ratio is not None and self.new.ratio is not None
        grown = self.new.ratio / self.old.ratio - 1
        return grown if self.new.better == "lower" else -grown

    def __str__(self) -> str:
        return (
            f"{self.new.name}: {self.old.ratio:.3g} -> {self.new.ratio:.3g} of {self.new.baseline_name}, worse by "
            f"{100 * self.loss:.0f} %"
        )


def worse(changes: Iterable[Change]) -> list[Change]:
    """Returns the changes for the worse by a tenth or more, the worst first."""
    return sorted((c for c in changes if c.loss >= TENTH - ROUNDING), key=lambda c: -c.loss)


def changes(old: Iterable[Measure], new: Iterable[Measure]) -> Iterator[Change]:
    """Yields the measures that have a ratio in both runs."""
    before = {m.name: m for m in old if m.ratio}
    for m in new:
        if m.ratio is not None and m.name in before:
            yield Change(before[m.name], m)


def gone(old: Iterable[Measure], new: Iterable[Measure]) -> list[str]:
    """Returns the measures that had a ratio and no longer have one."""
    have = {m.name for m in new if m.ratio is not None}
    return [m.name for m in old if m.ratio and m.name not in have]


def read(path: Path) -> list[Measure]:
    return [Measure.of(fields) for fields in json.loads(path.read_text())["measures"]]


def main(old: Path, new: Path) -> int:
    before, after = read(old), read(new)
    both = list(changes(before, after))
    for name in gone(before, after):
        print(f"{name}: no longer has a ratio")
    found = worse(both)
    for change in found:
        print(change)
    print(f"{len(found)} of {len(both)} ratios are worse by a tenth or more")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
