"""Runs examples as a user runs them: alone, or under torchrun."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SECONDS = 240
BLOCK = re.compile(r"(?:<!-- from (\S+) -->\n)?```python\n(.*?)```", re.S)
"""A snippet of a page, and the file that contains it, if the page names one."""
LOSS = re.compile(r"^step (\d+) .*loss ([\d.]+)$", re.M)


@dataclass(frozen=True)
class Python:
    """An interpreter in a user's environment that has the package, and additional packages."""

    program: str = sys.executable
    folders: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, example: str | Path, *args: object, world: int = 1) -> list[str]:
        """Returns the command line of an example, or of a file; `torchrun` when it has several ranks."""
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)] if world > 1 else []
        return [self.program, *launcher, str(EXAMPLES / example), *map(str, args)]

    def environ(self) -> dict[str, str]:
        mine = {k: v for k, v in os.environ.items() if not k.startswith("LOADERD_") or k == "LOADERD_STREAM__DIR"}
        path = os.pathsep.join(str(folder) for folder in (ROOT / "python" / "src", *self.folders))
        mine |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        return mine | self.variables


THIS = Python()


def run(example: str | Path, *args: object, world: int = 1, python: Python = THIS) -> str:
    """Returns the standard output of an example that exits with 0."""
    line = python.command(example, *args, world=world)
    done = subprocess.run(line, env=python.environ(), capture_output=True, text=True, timeout=SECONDS)
    said = f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    assert done.returncode == 0, f"{example} exited with {done.returncode}:\n{said}"
    return done.stdout


def check_part(source: str, block: str) -> None:
    """Checks that the lines of a page's snippet are consecutive lines of the file that it names."""
    lines = [line.strip() for line in (ROOT / source).read_text().splitlines() if line]
    wanted = [line.strip() for line in block.splitlines() if line]
    assert any(lines[i : i + len(wanted)] == wanted for i in range(len(lines))), f"not in {source}:\n{block}"


def losses(output: str) -> dict[int, float]:
    """Returns the loss of every step that an example printed."""
    return {int(step): float(loss) for step, loss in LOSS.findall(output)}


@contextmanager
def started(
    example: str | Path, *args: object, world: int = 1, python: Python = THIS
) -> Iterator[subprocess.Popen[str]]:
    """Runs an example; kills all its processes at the end."""
    line = python.command(example, *args, world=world)
    process = subprocess.Popen(line, env=python.environ(), stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        kill(process)


def killed(example: str | Path, *args: object, until: str, python: Python = THIS) -> str:
    """Returns what an example printed until it was killed: after the first line with the prefix `until`, or at its
    end."""
    with started(example, *args, python=python) as job:
        lines = []
        for line in job.stdout or ():
            lines.append(line)
            if line.startswith(until):
                break
        kill(job)
    return "".join(lines)


def kill(process: subprocess.Popen[str]) -> None:
    """Sends SIGKILL to a job and all its ranks, the launcher first so that it cannot clean up."""
    for pid in family(process.pid) if process.poll() is None else []:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=SECONDS)
    if process.stdout:
        process.stdout.close()


def family(pid: int) -> list[int]:
    """Returns a running process and all its descendants."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [pid, *(p for child in text.split() for p in family(int(child)))]
