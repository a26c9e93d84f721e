"""Writes the tables of docs/results/culprits.md: what is shown in the three minutes after the fault of each scene.
`make bench-culprits` runs it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from culprit_scenes import FAULTS, PAUSES, TAKEOVER, Look, Scene, Stage, page_status, staged
from rank_processes import error_of, warnings_of

MOMENTS = (5, 15, 60, 180)
LONGEST = 100  # characters of a warning in the table
TOGETHER = 8  # scenarios that run in parallel
FIGURES = re.compile(r"\d[\d,.]*\w?( (tokens/s|s|min|h)\b)?")


@dataclass(frozen=True)
class Moment:
    """What a user sees at a moment: `status` by `loaderd status`, `page` on the live page, and the newest line in
    the logs of the ranks."""

    seconds: int
    exit_status: int
    status: str
    page: str
    logged: str

    @property
    def shown(self) -> str:
        same = self.page == "" or FIGURES.sub("N", self.status) == FIGURES.sub("N", self.page)
        return self.status if same else f"{self.status} (page: {self.page})"


@dataclass(frozen=True)
class Record:
    scene: Scene
    moments: list[Moment]
    named: float | None  # seconds after the fault, as the other times
    red: float | None
    logged: float | None
    reason: str  # in the log
    errors: list[str]
    wrong: list[str]
    outcome: str


def record(binary: Path, scene: Scene) -> Record:
    print(f"{scene.name} begins", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder, staged(binary, Path(folder), long=True) as stage:
        scene.play(stage)
        moments = []
        for seconds in MOMENTS:
            threading.Event().wait(max(0.0, stage.fault + seconds - time.time()))
            moments.append(moment(stage, seconds))
        lines = [line for text in stage.messages(warnings_of).values() for line in text.splitlines()]
        named = [line for line in lines if scene.culprit and re.search(scene.mention, line)]
        return Record(
            scene,
            moments,
            first(stage, stage.matching(scene.mention)) if scene.culprit else None,
            first(stage, stage.matching(scene.mention, "failing")) if scene.culprit else None,
            min((float(line.split()[0]) - stage.fault for line in named), default=None),
            reason_of(min(named)) if named else "",
            sorted({text.split(":")[0] for text in stage.messages(error_of).values()}),
            sorted({FIGURES.sub("N", text) for text in scene.wrong(stage)}),
            scene.outcome(stage),
        )


def first(stage: Stage, looks: Iterable[Look]) -> float | None:
    return next((look.at - stage.fault for look in looks), None)


def reason_of(line: str) -> str:
    found = re.search(r"\(([A-Z_]+)\)$", line)
    return found[1] if found else ""


def moment(stage: Stage, seconds: int) -> Moment:
    d = next(d for d in stage.daemons if d.process is not None and d.process.poll() is None)
    command = [d.binary, "status", "--daemon", d.flight_url]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    page = page_status(d)
    lines = [line for text in stage.messages(warnings_of).values() for line in text.splitlines()]
    newest = max(lines, key=lambda line: float(line.split()[0]), default="")
    status, shown, logged = done.stdout.partition("\n")[0], page.sentence if page else "", newest.partition(" ")[2]
    return Moment(seconds, done.returncode, status, shown, logged)


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"


def cell(text: str) -> str:
    return text.replace("|", "\\|") or "-"


def log_cell(m: Moment) -> str:
    """Returns the newest warning, shortened if it has the sentence of the status."""
    if not m.logged:
        return "-"
    sentence, reason = m.logged.partition(";")[0], reason_of(m.logged)
    if len(sentence) > LONGEST:
        sentence = sentence[:LONGEST].rpartition(" ")[0] + " ..."
    same = FIGURES.sub("N", m.status) in FIGURES.sub("N", m.logged)
    return f"the same, {reason}" if same else cell(f"{sentence} ({reason})" if reason else sentence)


def summary(records: list[Record]) -> list[str]:
    lines = [
        "| scene | what happens | named | red | logged | raised | wrong |",
        "| --- | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for r in records:
        if r.scene.culprit:
            logged = f"{seconds(r.logged)}, {r.reason}" if r.logged is not None else "-"
            times = [seconds(r.named), seconds(r.red), logged]
        else:
            times = ["-", "never" if not r.wrong else "yes", "-"]
        happens = "; ".join(x for x in (r.scene.happens, r.outcome) if x)
        row = [r.scene.name, happens, *times, ", ".join(r.errors) or "-", "; ".join(r.wrong) or "none"]
        lines.append(f"| {' | '.join(map(cell, row))} |")
    return lines


def sentences(records: list[Record]) -> list[str]:
    lines = [
        "| scene | after | exit status | `loaderd status` and page | newest warning of a rank |",
        "| --- | ---: | ---: | --- | --- |",
    ]
    for r in records:
        for m in r.moments:
            name = r.scene.name if m is r.moments[0] else ""
            row = [name, f"{m.seconds} s", str(m.exit_status), cell(m.shown), log_cell(m)]
            lines.append(f"| {' | '.join(row)} |")
    return lines


def replaced(page: str, name: str, lines: list[str]) -> str:
    """Returns the page with a new table under a name."""
    block = re.compile(rf"(<!-- table {name} -->\n).*?(\n<!-- end of table -->)", re.S)
    found, n = block.subn(lambda m: m[1] + "\n".join(lines) + m[2], page)
    assert n == 1, name
    return found


def main(page: Path, only: list[str]) -> int:
    binary = Path(os.environ["LOADERD_BIN"])
    scenes = [s for s in FAULTS + PAUSES if not only or s.name in only]
    scenes.sort(key=lambda s: s is TAKEOVER)  # not in parallel with the other cluster
    done: dict[str, Record] = {}
    for n in range(0, len(scenes), TOGETHER):
        with ThreadPoolExecutor(TOGETHER) as pool:
            for r in pool.map(lambda s: record(binary, s), scenes[n : n + TOGETHER]):
                done[r.scene.name] = r
    records = [done[s.name] for s in FAULTS + PAUSES if s.name in done]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    about = f"{os.cpu_count()} cores, {platform.machine()}. {day}."
    made = {"named": [*summary(records), "", about], "sentences": sentences(records)}
    if only:
        print("\n\n".join("\n".join(lines) for lines in made.values()))
        return 0
    text = page.read_text()
    for name, lines in made.items():
        text = replaced(text, name, lines)
    page.write_text(text)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    only = "prints the tables of this scene, and writes no page"
    parser.add_argument("--only", action="append", default=[], help=only)
    given = parser.parse_args()
    sys.exit(main(given.page, given.only))
