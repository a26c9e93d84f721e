"""How much of the tests runs: everything with LOADERD_TEST=all in the environment, else what fits into minutes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

ALL = os.environ.get("LOADERD_TEST") == "all"

everything = pytest.mark.everything
"""Marks what runs with LOADERD_TEST=all alone."""


def quick(values: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """Parameters of a test: all of the values, of which those that are not chosen are marked."""
    found = list(values)
    assert set(chosen) <= set(found), chosen
    return [v if v in chosen else pytest.param(v, marks=everything) for v in found]


def thinned(values: Sequence[T], n: int) -> Sequence[T]:
    """All of the values, or every n-th."""
    return values if ALL else values[::n]


def share(count: int, n: int) -> int:
    """A number of things to be made up: all of it, or an n-th."""
    return count if ALL else count // n
