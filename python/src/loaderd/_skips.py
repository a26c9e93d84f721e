"""Ranges of steps that a job leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loaderd._wire import RunInfo


@dataclass(frozen=True, slots=True)
class Skips:
    """Steps that are not delivered.

    Attributes:
        ranges: [begin, end) of each range, ascending and disjoint.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def checked(cls, ranges: Iterable[Sequence[int]]) -> Skips:
        """Returns the union of ranges.

        Raises:
            ValueError: If one of them is not [begin, end) with 0 <= begin < end.
        """
        merged: list[tuple[int, int]] = []
        pairs = [tuple(r) if isinstance(r, Sequence) else r for r in ranges]
        for pair in pairs:
            number = isinstance(pair, tuple) and len(pair) == 2 and all(type(n) is int for n in pair)
            if not number or not 0 <= pair[0] < pair[1]:
                raise ValueError(f"skip of the steps {pair!r}: want ranges [begin, end) with 0 <= begin < end")
        for begin, end in sorted(pairs):
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return cls(tuple(merged))

    def add(self, begin: int, steps: int) -> Skips:
        """Returns the skips with those of `steps` more steps from `begin`.

        Raises:
            ValueError: If `steps` is not an int, or negative.
        """
        if type(steps) is not int or steps < 0:
            raise ValueError(
                f"skip of {steps!r} steps from step {begin}: want 0 or more; load an earlier state to rewind"
            )
        return Skips.checked([*self.ranges, (begin, begin + steps)]) if steps else self

    def landing(self, step: int) -> int:
        """Returns the first step from `step` that is delivered."""
        for begin, end in self.ranges:
            if begin <= step < end:
                return end
        return step

    def takeoff(self, step: int) -> int:
        """Returns the first of the skipped steps before or at a step, or the step if none is skipped there."""
        for begin, end in self.ranges:
            if begin <= step <= end:
                return begin
        return step

    def count(self, before: int) -> int:
        """Returns the number of skipped steps before a step."""
        return sum(min(end, before) - begin for begin, end in self.ranges if begin < before)

    def check_within(self, step: int, run: str) -> None:
        """Checks that a step, at which a run ends, is not within a skipped range.

        Raises:
            ValueError: If it is.
        """
        for begin, end in self.ranges:
            if begin <= step < end:
                check_range(begin, end, f"run {run}", step)

    def check_end(self, info: RunInfo) -> None:
        """Checks that the run has the skipped steps, as far as its length is known.

        Raises:
            ValueError: If a range ends beyond the end of the run.
        """
        if self.ranges and info.length is not None and info.length.exact:
            check_range(*self.ranges[-1], f"run {info.name}", info.length.steps)


NO_SKIPS = Skips()


def check_range(begin: int, end: int, whose: str, steps: int) -> None:
    """Checks that a skipped range ends within the steps of a run or client.

    Raises:
        ValueError: If it does not.
    """
    if end > steps:
        raise ValueError(
            f"cannot skip the steps {begin} to {end - 1} of {whose}: it ends at step {steps}; skip fewer steps"
        )
