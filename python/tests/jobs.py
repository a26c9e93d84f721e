"""Examples run as a user runs them: alone, or under torchrun."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SECONDS = 240
LOSS = re.compile(r"^step (\d+) .*loss ([\d.]+)$", re.M)


def command(example: str, *args: object, world: int = 1) -> list[str]:
    """The command line of an example; `torchrun` when it has several ranks."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)] if world > 1 else []
    return [sys.executable, *launcher, str(EXAMPLES / example), *map(str, args)]


def environ() -> dict[str, str]:
    """A user's environment, in which the package is installed."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith("LOADERD_")}
    mine |= {"PYTHONPATH": str(ROOT / "python" / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return mine | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def run(example: str, *args: object, world: int = 1) -> str:
    """Standard output of an example that ends well."""
    line = command(example, *args, world=world)
    done = subprocess.run(line, env=environ(), capture_output=True, text=True, timeout=SECONDS)
    said = f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    assert done.returncode == 0, f"{example} exited with {done.returncode}:\n{said}"
    return done.stdout


def losses(output: str) -> dict[int, float]:
    """Loss of every step that an example printed."""
    return {int(step): float(loss) for step, loss in LOSS.findall(output)}


@contextmanager
def started(example: str, *args: object, world: int = 1) -> Iterator[subprocess.Popen[str]]:
    """An example that runs; nothing of it is left behind."""
    process = subprocess.Popen(command(example, *args, world=world), env=environ(), stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to a job and all its ranks at once, the launcher first so that it cannot tidy up."""
    for pid in family(process.pid) if process.poll() is None else []:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=SECONDS)
    if process.stdout:
        process.stdout.close()


def family(pid: int) -> list[int]:
    """A process that is still there and all its descendants."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [pid, *(p for child in text.split() for p in family(int(child)))]
