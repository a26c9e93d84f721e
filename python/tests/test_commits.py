"""tools/commits.py: the subjects of commits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import commits


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("loader: commit the plan", ""),
        ("python/src/loaderd, tools: process embedded rows", ""),
        ('Revert "loader: commit the plan"', ""),
        ("The plan is committed", "not of the form"),
        ("loader: commit the plan.", "not of the form"),
        ("loader: commits the plan", "not an imperative"),
        ("loader: committed the plan", "not an imperative"),
        ("loader: committing the plan", "not an imperative"),
        (f"loader: {'x' * 65}", "has 73 characters"),
    ],
)
def test_subjects_of_commits(subject: str, problem: str) -> None:
    found = commits.problem(subject)
    assert problem in found
    assert bool(problem) == bool(found)
