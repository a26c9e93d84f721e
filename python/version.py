#!/usr/bin/env python3
"""Prints the version of all components of loaderd, from the tag of the source.

    v1.2.3                      1.2.3
    5 commits behind v1.2.3     1.2.4.dev5+g1a2b3c4
    no tag, 512 commits         0.0.0.dev512+g1a2b3c4
    a source distribution       the version that it was built with
    a source without history    0.0.0

LOADERD_VERSION in the environment has precedence over all of these.
"""

import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def git(*arguments: str) -> str | None:
    try:
        return subprocess.run(["git", *arguments], cwd=HERE, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def version() -> str:
    if given := os.environ.get("LOADERD_VERSION"):
        return given
    if (made := HERE / "PKG-INFO").exists():
        [said] = re.findall(r"^Version: (.+)$", made.read_text(), re.MULTILINE)
        return str(said)
    if not (revision := git("rev-parse", "--short=9", "HEAD")):
        return "0.0.0"
    described = git("describe", "--tags", "--long", "--match", "v[0-9]*")
    if described is None:
        return f"0.0.0.dev{git('rev-list', '--count', 'HEAD')}+g{revision}"
    tag, commits, _ = described.removeprefix("v").rsplit("-", 2)
    if commits == "0":
        return tag
    numbers = re.match(r"\d+(\.\d+)*", tag)
    if numbers is None:
        raise SystemExit(f"version.py: tag v{tag} is no version: want v1.2.3")
    *first, last = numbers[0].split(".")
    # 1.2.0rc1 is followed by 1.2.0.
    following = numbers[0] if tag != numbers[0] else ".".join([*first, str(int(last) + 1)])
    return f"{following}.dev{commits}+g{revision}"


if __name__ == "__main__":
    print(version())
