"""The examples of docs/how-to/trainers for JAX, torchtitan and Megatron-Core, each with that library; those for other
trainers are in test_integrations.py."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import tomllib

import loaderd
from conftest import free_ports
from environments import environment
from jobs import BLOCK, EXAMPLES, ROOT, Python, check_part, killed, losses, run, started
from scale import everything
from tokenized import SETTINGS, TOKENIZER, documents

HERE = Path(__file__).resolve().parent
CLOSE = {"rel": 2e-5}  # the order of additions differs with the number of processes
STEADY = {**SETTINGS, "shuffle.window": 8, "packing.pool": 32, "steps.backlog": 2}


@pytest.fixture(scope="module")
def libraries() -> Path:
    """A separate environment, without torch."""
    return environment("recipes")


@pytest.fixture(scope="module")
def jax(libraries: Path) -> Python:
    """Only the libraries, on four devices."""
    return Python(
        str(libraries / "bin" / "python"),
        (EXAMPLES,),
        {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"},
    )


@pytest.fixture(scope="module")
def torches(libraries: Path) -> Python:
    """The libraries after the test environment, as one process of torch.distributed."""
    folders = [Path(path) for path in sys.path if path.endswith("site-packages")]
    alone = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_ports(1)[0]),
    }
    return Python(
        folders=(EXAMPLES, HERE, *folders, *libraries.glob("lib/python*/site-packages")),
        variables={**alone, "NO_COLOR": "1"},
    )


def served(program: Path, **settings: object) -> loaderd.DaemonHandle:
    """Returns a sealed run whose documents use few ids, so that a model learns quickly."""
    tokens = [t // 50 + 1 for t in documents(200)]
    return loaderd.serve(tokens, publish={"tokenizer": TOKENIZER}, settings=STEADY | settings, program=program)


@pytest.fixture
def url(loaderd: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Two row lengths, eight rows."""
    with served(loaderd) as url:
        monkeypatch.setenv("LOADERD_STREAM__DIR", str(url.folder))  # where other processes find the token
        yield url


@pytest.fixture
def even(loaderd: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One row length, as torchtitan and Megatron require it, four rows."""
    with served(loaderd, **{"packing.buckets": 64, "steps.rows": 4}) as url:
        monkeypatch.setenv("LOADERD_STREAM__DIR", str(url.folder))
        yield url


def committed(url: str) -> int:
    with loaderd.Client(url) as client:
        return client.info().committed


@everything
def test_jax_over_a_mesh(url, jax, tmp_path):
    """Killed and resumed: the same losses to the last digit; then on two processes of two devices each."""
    run(HERE / "documents_alone.py", "jax", url, python=jax)
    args = ("--url", url, "--checkpoint", tmp_path / "run.npz", "--save-every", 4)
    before = losses(killed("jax_mesh.py", *args, "--steps", 12, until="step 6", python=jax))
    after = losses(run("jax_mesh.py", *args, "--steps", 12, python=jax))
    assert list(before) == [1, 2, 3, 4, 5, 6] and list(after) == list(range(min(after), 13)) and min(after) in (5, 9)
    assert committed(url) == 12
    whole = losses(run("jax_mesh.py", "--url", url, "--checkpoint", tmp_path / "whole.npz", "--steps", 14, python=jax))
    assert before.items() | after.items() <= whole.items() and whole[14] < whole[1] - 0.2

    two = replace(jax, variables={**jax.variables, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
    together = (*args, "--steps", 14, "--coordinator", f"127.0.0.1:{free_ports(1)[0]}", "--processes", 2, "--process")
    with started("jax_mesh.py", *together, 1, python=two) as other:
        output = run("jax_mesh.py", *together, 0, python=two)
        assert other.wait(timeout=60) == 0
    assert "rows 8 x" in output and losses(output) == pytest.approx({k: whole[k] for k in (13, 14)}, **CLOSE)


@everything
def test_mlx(url, jax):
    run(HERE / "documents_alone.py", "mlx", url, python=jax)


@everything
def test_torchtitan(even, torches, tmp_path):
    """Its smallest Llama 3 in its own trainer, killed and resumed from its own checkpoints."""
    run(HERE / "documents_alone.py", "torchtitan", even, python=torches)
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "tokenizer.json").write_text(
        '{"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}'
    )
    args = (
        "--module",
        "torchtitan_llama3",
        "--config",
        "debugmodel",
        "--dataloader.url",
        even,
        "--hf_assets_path",
        assets,
        "--training.steps",
        9,
        "--training.seq_len",
        64,
        "--training.disable_cuda_graphs",
        "--checkpoint.interval",
        4,
        "--debug.seed",
        0,
        "--metrics.disable_color_printing",
    )
    train = HERE / "torchtitan_on_cpu.py"

    def told(output: str) -> dict[int, float]:
        return {int(step): float(loss) for step, loss in re.findall(r"step: +(\d+) +loss: +([\d.]+)", output)}

    again = (*args, "--training.local_batch_size", 4, "--dump_folder", tmp_path / "run")
    before = told(output_of(train, *again, python=torches, until=r"step: +6 "))
    saved = committed(even)
    after = told(output_of(train, *again, python=torches))
    assert list(before) == [1, 2, 3, 4, 5, 6] and list(after) == list(range(min(after), 10))
    assert saved in (4, 8) and min(after) in (5, 9) and committed(even) == 9
    whole = told(
        output_of(train, *args, "--training.local_batch_size", 4, "--dump_folder", tmp_path / "whole", python=torches)
    )
    assert before.items() | after.items() <= whole.items() and whole[9] < whole[1] - 1

    wrong = subprocess.run(
        torches.command(train, *again, "--training.local_batch_size", 8),
        env=torches.environ(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (
        wrong.returncode != 0
        and "the run has batches of [(4, 64)] for each of 1 ranks, torchtitan expects (8, 64)" in wrong.stderr
    )


def output_of(program: Path, *args: object, python: Python, until: str | None = None) -> str:
    """Returns what a program writes to both outputs, up to its end, or until it is killed after a line."""
    lines = []
    with subprocess.Popen(
        python.command(program, *args),
        env=python.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            if until and re.search(until, line):
                process.kill()
                break
    text = "".join(lines)
    assert until or process.returncode == 0, text[-6000:]
    return text


@everything
def test_megatron(even, torches, tmp_path):
    """A GPT of Megatron-Core: documents isolated by mask and by cu_seqlens; two ranks, then one from their
    checkpoint."""
    run(HERE / "documents_alone.py", "megatron", even, python=torches)
    loop, args = HERE / "megatron_loop.py", ("--url", even, "--save-every", 4, "--steps")
    whole = losses(run(loop, *args, 10, "--save", tmp_path / "whole", python=torches))
    assert list(whole) == list(range(1, 11)) and whole[10] < whole[1] - 0.2
    several = Python(folders=torches.folders)
    first = losses(run(loop, *args, 6, "--save", tmp_path / "run", world=2, python=several))
    assert first == pytest.approx({k: whole[k] for k in range(1, 7)}, **CLOSE)
    second = losses(run(loop, *args, 10, "--save", tmp_path / "run", python=torches))
    assert second == pytest.approx({k: whole[k] for k in range(5, 11)}, **CLOSE)


def test_the_pages_name_what_is_there() -> None:
    """docs/how-to/trainers: versions are those that are tested, files are examples, snippets parts of them."""
    pages = {path.name: path.read_text() for path in (ROOT / "docs" / "how-to" / "trainers").glob("*.md")}
    groups = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["dependency-groups"]
    pinned = dict(requirement.partition(";")[0].split("==") for requirement in groups["recipes"] + groups["test"])
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in pages["index.md"].splitlines()
        if line.startswith("| [")
    ]
    assert len(rows) >= 7
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", pages["index.md"])) == set(pages) - {"index.md"}
    for _, versions, *_ in rows:
        for name, version in re.findall(r"`([\w.-]+)==([^`]+)`", versions):
            assert pinned[name] == version, name
    page = "".join(pages.values())
    assert {EXAMPLES / name for name in re.findall(r"examples/(\w+\.py)", page)} <= set(EXAMPLES.iterdir())
    assert [check_part(source, block) for source, block in BLOCK.findall(page) if source] == [None] * 9
