"""loaderd.jax on devices of the CPU, and loaderd.grain: the same rows as the client, and exact resume."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import loaderd
from conftest import free_ports
from environments import environment
from jobs import Python, killed, run, started
from loaderd._array_format import ArrayFormat
from loaderd.torch._batch import BatchFormat, make_batch
from loaderd.torch._buffers import Buffers
from scale import everything
from synthetic import random_masks, random_rows, step_of_rows
from tokenized import SETTINGS, TOKENIZER, documents

READER = Path(__file__).with_name("array_rows.py")
STEPS = 14
Rows = dict[str, dict[str, int]]


@pytest.fixture(scope="module")
def python() -> Python:
    """An environment without torch, on four devices."""
    variables = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    return Python(str(environment("recipes") / "bin" / "python"), variables=variables)


def served(program: Path) -> loaderd.DaemonHandle:
    weighted = [{"ids": tokens, "weight": 0.5 + i % 3} for i, tokens in enumerate(documents(300))]
    settings = SETTINGS | {"shuffle.window": 8, "packing.pool": 32, "steps.backlog": 2}
    return loaderd.serve(weighted, publish={"tokenizer": TOKENIZER}, settings=settings, program=program)


@pytest.fixture
def url(loaderd: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Two row lengths, eight rows, documents with loss weights."""
    with served(loaderd) as url:
        monkeypatch.setenv("LOADERD_STREAM__DIR", str(url.folder))  # where other processes find the token
        yield url


def read(url: str) -> dict[int, loaderd.Step]:
    """Returns the steps of the numpy client, by the number of steps before the next one."""
    with loaderd.Client(url, steps=STEPS, weights=True) as client:
        return {step.index + 1: step for step in client}


def arrays(step: loaderd.Step) -> dict[str, np.ndarray]:
    weights = step.loss_weights()
    return {
        "input_ids": step.input_ids.astype(np.int32),
        "labels": step.labels("shifted"),
        "position_ids": step.position_ids(),
        "segment_ids": step.segment_ids().astype(np.int32),
        "loss_weights": np.hstack([weights[:, 1:], np.zeros((step.rows, 1), np.float32)]),
    }


def outputs(text: str) -> tuple[list[list[int]], dict[int, Rows], dict[int, int]]:
    """Returns the ranks, rows and totals that a reader printed."""
    first, *lines = [json.loads(line) for line in text.splitlines() if line.startswith(("[[", '{"step"'))]
    return first, {x["step"]: x["rows"] for x in lines}, {x["step"]: x.get("total", 0) for x in lines}


def check(steps: dict[int, loaderd.Step], *processes: dict[int, Rows]) -> None:
    """Checks that the processes have all rows of each of their steps, each once or with equal values."""
    for number in processes[0]:
        for name, array in arrays(steps[number]).items():
            found = {k: v for process in processes for k, v in process[number][name].items()}
            covered = np.zeros(array.shape, int)
            for place, checksum in found.items():
                row, start, stop = map(int, place.split(":"))
                assert zlib.crc32(array[row, start:stop].tobytes()) == checksum, (number, name, place)
                covered[row, start:stop] += 1
            assert (covered == 1).all(), (number, name)


def together(python: Python, *args: object, devices: int = 2, status: tuple[int, int] = (0, 0)) -> list[str]:
    """Returns the outputs of two processes, which exit with the status."""
    variables = {**python.variables, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    args = (*args, "--coordinator", f"127.0.0.1:{free_ports(1)[0]}", "--processes", 2, "--process")
    with ExitStack() as stack:
        jobs = [
            stack.enter_context(started(READER, *args, i, python=replace(python, variables=variables))) for i in (0, 1)
        ]
        texts = [job.communicate(timeout=120)[0] for job in jobs]
        assert tuple(job.returncode for job in jobs) == status
    return texts


@everything
def test_jax_resume_on_other_processes(url, python, tmp_path):
    """Killed, resumed, then resumed on two processes: the rows of the client, and the sums of an undisturbed job."""
    steps = read(url)
    args = ("jax", url, "--checkpoint", tmp_path / "run", "--steps")
    _, before, totals = outputs(killed(READER, *args, 10, until='{"step": 6', python=python))
    ranks, after, more = outputs(run(READER, *args, 10, python=python))
    assert ranks == [[0, 1, 0]] and list(before) == [1, 2, 3, 4, 5, 6] and list(after) == [5, 6, 7, 8, 9, 10]
    texts = together(python, *args, STEPS)
    (first, left, last), (second, right, same) = map(outputs, texts)
    assert [first, second] == [[[0, 2, 0]], [[1, 2, 0]]] and list(left) == list(right) == list(range(9, STEPS + 1))
    check(steps, before)
    check(steps, after)
    check(steps, left, right)
    _, _, whole = outputs(run(READER, *args, STEPS, "--checkpoint", tmp_path / "whole", python=python))
    assert last == same and totals.items() | more.items() | last.items() == whole.items()
    with loaderd.Client(url) as client:
        assert client.info().committed == 12


@everything
def test_jax_resize(url, python, tmp_path):
    """Two processes, one, and two again without a restart. Then one is killed: each step has the rows of the client."""
    args = ("elastic", url, "--checkpoint", tmp_path, "--steps", 0)
    texts = together(python, *args, status=(0, -signal.SIGKILL))
    (first, left, _), (second, right, _) = map(outputs, texts)
    assert [first, second] == [[[0, 2, 0]], [[1, 2, 0]]]
    assert list(left) == list(range(1, 14)) and list(right) == [1, 2, 3, 8, 9, 10]
    assert "of 4 have not agreed on the world size 4 from step 6" in texts[0] and "has no rows" in texts[1]
    assert '"ranks": [[0, 4, 0], [2, 4, 0]]' in texts[0] and '"ranks": [[1, 4, 0], [3, 4, 0]]' in texts[1]
    steps, both = read(url), [1, 2, 3, 8, 9]
    check(steps, {n: left[n] for n in both}, right)
    check(steps, {n: rows for n, rows in left.items() if n not in both})
    with loaderd.Client(url) as client:
        assert client.info().world_sizes["trainer"] == (1, 9)


@everything
@pytest.mark.parametrize(
    ("mesh", "devices", "spec", "ranks"),
    [
        ({"data": 4}, [0, 2, 1, 3], ["data"], [[[0, 4, 0], [2, 4, 0]], [[1, 4, 0], [3, 4, 0]]]),
        ({"model": 2, "data": 2}, [0, 1, 2, 3], ["data"], [[[0, 1, 0]], [[0, 1, 1]]]),
        ({"data": 2, "tensor": 2}, [0, 1, 2, 3], ["data", "tensor"], [[[0, 2, 0]], [[1, 2, 0]]]),
        ({"data": 2, "fsdp": 2}, [0, 1, 2, 3], [["data", "fsdp"]], [[[0, 2, 0]], [[1, 2, 0]]]),
    ],
    ids=["interleaved", "replicated", "tokens", "two axes"],
)
def test_jax_meshes(url, python, tmp_path, mesh, devices, spec, ranks):
    """Two processes read only the rows of their devices."""
    given = {"--mesh": mesh, "--devices": devices, "--spec": spec}
    flags = [x for name, value in given.items() for x in (name, json.dumps(value))]
    texts = together(python, "jax", url, "--checkpoint", tmp_path / "run", "--steps", 5, *flags)
    (first, left, _), (second, right, _) = map(outputs, texts)
    assert [first, second] == ranks and list(left) == [1, 2, 3, 4, 5]
    check(read(url), left, right)


@everything
def test_grain_resume_on_other_ranks(url, python, tmp_path):
    steps = read(url)
    args = ("grain", url, "--checkpoint", tmp_path / "state", "--steps")
    _, before, _ = outputs(killed(READER, *args, 10, until='{"step": 6', python=python))
    _, after, _ = outputs(run(READER, *args, 10, python=python))
    assert list(before) == [1, 2, 3, 4, 5, 6] and list(after) == [5, 6, 7, 8, 9, 10]
    with ExitStack() as stack:
        jobs = [
            stack.enter_context(started(READER, *args, STEPS, "--save-every", 100, *rank, python=python))
            for rank in (("--processes", 2, "--process", 0), ("--processes", 2, "--process", 1))
        ]
        (_, left, _), (_, right, _) = (outputs(job.communicate(timeout=120)[0]) for job in jobs)
    assert list(left) == list(right) == list(range(9, STEPS + 1))
    check(steps, before)
    check(steps, after)
    check(steps, left, right)


@everything
def test_jax_and_grain_errors(url, python):
    """Meshes that do not fit, states of another run, worker processes of Grain; the next call continues."""
    run(Path(__file__).with_name("array_errors.py"), url, python=python)


@pytest.mark.parametrize("form", ["unshifted", "shifted"])
def test_ArrayFormat_EqualsTensors(form):
    rng = np.random.default_rng(1)
    for parts in (1, 2, 3):
        rows = random_rows(rng, 8, 64)
        step = step_of_rows(rows, 64, dtype=np.uint16, parts=parts, masks=random_masks(rng, rows))
        tensors = make_batch(step, BatchFormat(dtype=torch.int32, labels=form), Buffers())
        batch = ArrayFormat.checked(("input_ids", "labels", "position_ids", "segment_ids"), form, ()).arrays(step)
        for name, array in batch.items():
            assert array.dtype == np.int32 and np.array_equal(array, tensors[name].numpy())


def test_Import_NeedsNoTorch():
    """Of the modules that loaderd.jax and loaderd.grain share with loaderd.torch."""
    program = "import sys; sys.modules['torch'] = None; import loaderd._array_format, loaderd._loader_state"
    subprocess.run([sys.executable, "-c", program], env=Python().environ(), check=True)


@pytest.mark.parametrize(("module", "library"), [("jax", "JAX"), ("grain", "Grain")])
def test_Import_NamesTheMissingLibrary(module, library):
    program = f"import sys; sys.modules[{module!r}] = None; import loaderd.{module}"
    done = subprocess.run([sys.executable, "-c", program], env=Python().environ(), capture_output=True, text=True)
    assert done.returncode == 1 and f"loaderd.{module} requires {library}" in done.stderr
    assert f"pip install {module}" in done.stderr
