"""One line of the table: the measurement, and its baseline from the same run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
        return cls(name=fields["measure"], **rest)
