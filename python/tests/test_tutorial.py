"""docs/start/tutorial.md: its commands run unchanged, in one shell, from an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300

# The page uses the default addresses. A separate network namespace prevents conflicts of the test with other processes.
ALONE = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def commands():
    """Returns what a reader types: all blocks of the page that are marked as shell. Installation commands are marked
    as text."""
    return re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / "start" / "tutorial.md").read_text(), re.M | re.S)


@pytest.mark.everything
def test_the_tutorial(loaderd, tmp_path):
    programs, folder = tmp_path / "bin", tmp_path / "empty"
    programs.mkdir()
    folder.mkdir()
    (programs / "loaderd").symlink_to(loaderd.resolve())
    # A symbolic link would leave the environment of this interpreter.
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python3").chmod(0o755)
    script = "".join(f"echo '=== {n}'\n{block}" for n, block in enumerate(commands()))
    alone = ALONE if subprocess.run([*ALONE, "true"], capture_output=True).returncode == 0 else []
    environ = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT / "python" / "src"),
    }
    environ |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    job, said = [*alone, "bash", "-eu", "-c", script], tmp_path / "said"
    with (
        said.open("w") as out,
        subprocess.Popen(job, cwd=folder, env=environ, stdout=out, stderr=out, start_new_session=True) as shell,
    ):
        try:
            shell.wait(timeout=SECONDS)
        finally:
            # The whole session, including a daemon left by a failure.
            subprocess.run(["kill", "-9", "--", f"-{shell.pid}"], capture_output=True)
    assert shell.returncode == 0, said.read_text() + (folder / "daemon.log").read_text()
    parts = re.split(r"^=== \d+\n", said.read_text(), flags=re.M)[1:]
    assert len(parts) == len(commands()) == 10
    losses = [float(x) for x in re.findall(r"^step \d+ loss ([\d.]+)$", (folder / "calm.log").read_text(), re.M)]
    assert len(losses) == 40 and losses[0] > 5 and losses[-1] < 3  # as stated on the page
    assert parts[-2].endswith("the same losses\n")
    assert (folder / "second.log").read_text().startswith("resumed at step 10\n")
