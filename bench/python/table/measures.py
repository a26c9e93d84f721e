"""One line of the table: the measurement, and its baseline from the same run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Measure:
    """A figure. Its name identifies it in comparisons of two runs."""

    name: str
    value: float | None = None
    unit: str = ""
    baseline: float | None = None  # of the same unit
    baseline_name: str = ""
    better: Literal["higher", "lower"] = "higher"
    note: str = ""  # why the value or the baseline is missing, or another remark
    spread: tuple[float, float] | None = None  # the lowest and the highest ratio of several runs

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of the baseline, None without one of them."""
        if self.value is None or not self.baseline:
            return None
        return self.value / self.baseline

    def json(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["measure"] = fields.pop("name")
        return fields | {"ratio": self.ratio}

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Measure:
        """Returns the measure that json wrote; the ratio follows from the other fields."""
        rest = {k: v for k, v in fields.items() if k not in ("measure", "ratio")}
        if rest.get("spread"):
            rest["spread"] = tuple(rest["spread"])
        return cls(name=fields["measure"], **rest)


def combine(runs: Iterable[Sequence[Measure]]) -> list[Measure]:
    """Returns for every measure that of the run with the median ratio, and the spread of the ratios.

    A measure without a ratio is that of the last run. Of an even number of ratios the lower median counts.
    """
    by_name = dict[str, list[Measure]]()
    for run in runs:
        for m in run:
            by_name.setdefault(m.name, []).append(m)
    return [median(same) for same in by_name.values()]


def median(same: Sequence[Measure]) -> Measure:
    """Returns the measure with the median ratio, with the spread of all ratios if there are several."""
    by_ratio = sorted((m.ratio, i) for i, m in enumerate(same) if m.ratio is not None)
    if len(by_ratio) < 2:
        return same[by_ratio[0][1] if by_ratio else -1]
    middle = by_ratio[(len(by_ratio) - 1) // 2][1]
    return replace(same[middle], spread=(by_ratio[0][0], by_ratio[-1][0]))
