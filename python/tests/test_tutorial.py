"""docs/start/tutorial.md and quickstart.md: their commands run unchanged, in one shell, from an empty folder."""

import os
import re
import subprocess
import sys

import pytest

from jobs import EXAMPLES, ROOT, losses

SECONDS = 300

# The pages use the default addresses. A separate network namespace prevents conflicts of a test with other processes.
ALONE = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def commands(page):
    """Returns what a reader types: all blocks of a page of docs/start that are marked as shell. Installation commands
    are marked as text."""
    return re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / "start" / page).read_text(), re.M | re.S)


def run_page(page, program, tmp_path):
    """Runs the commands of a page in the folder `empty`, and returns what each block prints."""
    programs, folder = tmp_path / "bin", tmp_path / "empty"
    programs.mkdir()
    folder.mkdir(exist_ok=True)
    (programs / "loaderd").symlink_to(program.resolve())
    # Symbolic links would leave the environment of this interpreter.
    for name, command in {"python3": "", "torchrun": " -m torch.distributed.run"}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{command} "$@"\n')
        (programs / name).chmod(0o755)
    blocks = commands(page)
    script = "".join(f"echo '=== {n}'\n{block}" for n, block in enumerate(blocks))
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
            # The whole session, including a daemon left by a failure or by the page.
            subprocess.run(["kill", "-9", "--", f"-{shell.pid}"], capture_output=True)
    assert shell.returncode == 0, said.read_text() + (folder / "daemon.log").read_text()
    parts = re.split(r"^=== \d+\n", said.read_text(), flags=re.M)[1:]
    assert len(parts) == len(blocks)
    return parts


@pytest.mark.everything
def test_the_tutorial(loaderd, tmp_path):
    parts, folder = run_page("tutorial.md", loaderd, tmp_path), tmp_path / "empty"
    assert len(parts) == 10
    calm = [float(x) for x in re.findall(r"^step \d+ loss ([\d.]+)$", (folder / "calm.log").read_text(), re.M)]
    assert len(calm) == 40 and calm[0] > 5 and calm[-1] < 3  # as stated on the page
    assert parts[-2].endswith("the same losses\n")
    assert (folder / "second.log").read_text().startswith("resumed at step 10\n")


@pytest.mark.everything
def test_the_quickstart(loaderd, tmp_path):
    """Killed with one rank, resumed on two, with the same losses up to rounding."""
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "examples").symlink_to(EXAMPLES)  # the page runs in a checkout
    assert len(run_page("quickstart.md", loaderd, tmp_path)) == 3
    first, second = ((folder / name).read_text() for name in ("first.log", "second.log"))
    assert second.startswith("resumed at step 10\n")
    before, after = losses(first), losses(second)
    assert list(after) == list(range(11, 21))
    assert {n: after[n] for n in range(11, 16)} == pytest.approx({n: before[n] for n in range(11, 16)}, rel=1e-4)
