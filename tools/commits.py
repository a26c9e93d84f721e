"""Checks the subjects of commits: `package: imperative subject`, at most 72 characters.

    python3 tools/commits.py [BASE]

The commits are those after BASE. Without BASE they are those that no main branch contains. On a main branch, and in a
clone without one, only the last commit is checked. Merges are not checked.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAIN = ("origin/main", "main")
MOST = 72

PACKAGE = r"[a-z0-9.][\w./-]*"
SUBJECT = re.compile(rf"{PACKAGE}(?:, {PACKAGE})*: (?P<verb>\w+)(?:[ -].*)?(?<![.])")
REVERT = re.compile(r'Revert ".*"')
# Verbs of other moods: "adds", "added", "adding".
OTHER_MOOD = re.compile(r"\w{2,}(?:(?<!s)s|(?<!e)ed|ing)")
IMPERATIVE = {"alias", "bias", "bring", "canvas", "embed", "focus", "ping", "shed", "shred", "string"}


def git(*arguments: str) -> str | None:
    """Returns the output of a git command, or None if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def main_branches() -> list[str]:
    return [branch for branch in MAIN if git("rev-parse", "--verify", "--quiet", branch)]


def merge_base() -> str | None:
    """Returns the commit that a change starts from: the parent of the last commit if that is on a main branch."""
    head = git("rev-parse", "HEAD")
    for branch in main_branches():
        commit = git("merge-base", "HEAD", branch)
        if commit and commit != head:
            return commit
    return git("rev-parse", "--verify", "--quiet", "HEAD~1")


def subjects(base: str = "") -> list[tuple[str, str]]:
    """Returns abbreviated hashes and subjects of the commits to check. Raises SystemExit if base is no commit."""
    log = ("log", "--no-merges", "--format=%h %s")
    listed = git(*log, "HEAD", "--not", *([base] if base else main_branches()))
    if listed is None:
        raise SystemExit(f"tools/commits.py: git cannot list the commits after {base or 'the main branch'}")
    if not base and (not listed or not main_branches()):
        listed = git(*log, "--first-parent", "-1", "HEAD")
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in (listed or "").splitlines()]


def problem(subject: str) -> str:
    """Returns what is wrong with a subject, or an empty string."""
    if len(subject) > MOST:
        return f"has {len(subject)} characters, at most {MOST} are allowed"
    if REVERT.fullmatch(subject):
        return ""
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return "is not of the form 'package: imperative subject', without a period at the end"
    verb = match["verb"]
    if verb not in IMPERATIVE and OTHER_MOOD.fullmatch(verb):
        return f"starts with '{verb}', which is not an imperative"
    return ""


def main(base: str = "") -> None:
    wrong = [f"{commit} '{subject}' {why}" for commit, subject in subjects(base) if (why := problem(subject))]
    if wrong:
        sys.exit("tools/commits.py: " + "\n".join(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
