"""Selects the extent of the tests: everything with LOADERD_TEST=all in the environment, else a set that runs in
minutes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

ALL = os.environ.get("LOADERD_TEST") == "all"

everything = pytest.mark.everything
"""Marks tests that run only with LOADERD_TEST=all."""


def quick(values: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """Returns parameters of a test: all values, where those that are not chosen are marked."""
    found = list(values)
    assert set(chosen) <= set(found), chosen
    return [v if v in chosen else pytest.param(v, marks=everything) for v in found]


def thinned(values: Sequence[T], n: int) -> Sequence[T]:
    """Returns all values, or every n-th."""
    return values if ALL else values[::n]


def share(count: int, n: int) -> int:
    """Returns a number of generated items: all of it, or an n-th."""
    return count if ALL else count // n
