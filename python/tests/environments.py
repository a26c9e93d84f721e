"""Virtual environments of the dependency groups of pyproject.toml. The Makefile makes them."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def environment(group: str) -> Path:
    """Returns the folder of a group's environment, and creates it if absent. Raises RuntimeError with the reason of
    a failure."""
    variables = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "VIRTUAL_ENV")}
    command = ["make", "--silent", "--no-print-directory", "environment", f"GROUP={group}"]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"make environment GROUP={group}: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def site_packages(group: str) -> Path:
    """Returns the folder of a group's packages."""
    [folder] = environment(group).glob("lib/python*/site-packages")
    return folder
