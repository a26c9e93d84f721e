"""The resources of every entry of the table: built programs, environments of Python, a folder, and the extent of the
work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PYTHON = Path(__file__).resolve().parents[3] / "python"
ROOT = PYTHON.parent
sys.path.append(str(PYTHON / "tests"))

from environments import environment  # noqa: E402


class MissingInputError(Exception):
    """A peer or a published file that is not part of the project cannot be downloaded."""


@dataclass(frozen=True)
class Bench:
    folder: Path  # deleted at the end
    moment: bool  # the minimum of work that shows that the programs run
    kept: Path = ROOT / "bin"  # built programs, and data that is created once

    def program(self, name: str) -> Path:
        return self.kept / name

    def script(self, path: str) -> Path:
        return ROOT / "bench" / "python" / path

    def say(self, command: Sequence[object], cores: int | None = None, **more: Any) -> str:
        """Returns the standard output of a command, bound to the first cores."""
        words = list(map(str, command))
        if cores is not None:
            words = ["taskset", "--cpu-list", ",".join(map(str, first_cores(cores))), *words]
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, **more)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise RuntimeError(
                f"{Path(words[0]).name if cores is None else Path(words[3]).name} exited with {done.returncode}: "
                f"{last[:300]}"
            )
        return done.stdout

    def ask(self, command: Sequence[object], cores: int | None = None) -> Any:
        """Returns the JSON output of a command."""
        return json.loads(self.say(command, cores))


def first_cores(n: int) -> list[int]:
    return sorted(os.sched_getaffinity(0))[:n]


def python(group: str = "test") -> Path:
    """Returns the interpreter of the environment of a dependency group of python/pyproject.toml."""
    try:
        return environment(group) / "bin" / "python"
    except RuntimeError as error:
        raise MissingInputError(str(error)) from error
