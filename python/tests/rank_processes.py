"""Ranks of a training job as processes: their programs, and how a test starts them.

They are forked from one process that has imported torch, because the import takes seconds.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from loaderd import LoaderdError
from loaderd._wire import DEFAULT_JOB
from loaderd.torch import StepLoader
from waiting import wait_for

TIMEOUT = 90  # seconds for a job


def row_digests(batch: dict[str, Any]) -> list[int]:
    """Returns a checksum of all data of each row of a batch."""
    tables = [batch[k].cpu().numpy() for k in ("input_ids", "labels", "position_ids", "segment_ids")]
    return [zlib.crc32(b"".join(t[i].tobytes() for t in tables)) for i in range(len(tables[0]))]


def read_alone(url: str) -> list[dict[str, Any]]:
    """Returns every step of a run as a world of one reads it without faults."""
    with StepLoader(url, rank=0, world_size=1) as loader:
        return [{"step": i, "bucket": b["input_ids"].shape[1], "rows": row_digests(b)} for i, b in enumerate(loader)]


def lock_step(rank: int, world: int, folder: Path, url: str, changes: dict[str, Any]) -> None:
    """Trains until the data ends: all ranks compare every step before they continue, and rank 0 writes down their
    batches.

    `changes`: `every` (steps between checkpoints), `stop` (step at which the job exits), `kill` ([step, rank]: that
    rank gets SIGKILL there), `freeze` (the same by SIGSTOP), `pause` ([step, ranks, seconds]: these ranks compute
    there for that time), `hang` (a failed collective does not end the process: it hangs, as NCCL does without a
    watchdog), `seconds` (the duration of a step), `job` (of the loader), `ask` (step at which rank 0 waits until
    `folder`/answer exists, after it created `folder`/question), `skip` ([step, steps]: all ranks skip steps there;
    `skip_elsewhere`: how many the ranks other than 0 skip).
    """
    join(rank, world, folder)
    log = (folder / "log").open("a", buffering=1)
    step_ends = threading.Event()
    with record_messages(folder, rank), StepLoader(url, timeout=60, job=changes.get("job", DEFAULT_JOB)) as loader:
        assert (loader.rank, loader.world_size) == (rank, world)
        (folder / f"connected-{rank}").touch()
        state = {"loader": loader, "trained": torch.zeros(1, dtype=torch.int64)}
        if newest := newest_checkpoint(folder):
            dcp.load(state, checkpoint_id=newest)
            assert loader.step == int(newest.name) == int(state["trained"]) + loader.skipped_steps
        for batch in loader:
            step = loader.step - 1
            mine = {
                "step": step,
                "bucket": batch["input_ids"].shape[1],
                "shape": list(batch["labels"].shape),
                "rows": row_digests(batch),
                "loss": batch["num_loss_tokens"],
                "loss_global": batch["num_loss_tokens_global"],
            }
            everyone: list[Any] = [None] * world
            try:
                dist.all_gather_object(everyone, mine)
            except RuntimeError:
                if changes.get("hang"):
                    threading.Event().wait()
                raise
            for key in ("step", "bucket", "shape", "loss_global"):
                assert len({str(e[key]) for e in everyone}) == 1, (key, everyone)
            assert mine["loss_global"] == sum(e["loss"] for e in everyone)
            if rank == 0:
                rows = [d for e in everyone for d in e["rows"]]
                log.write(json.dumps({"step": step, "bucket": mine["bucket"], "rows": rows, "world": world}) + "\n")
            step_ends.wait(changes.get("seconds", 0))
            suffer(step, rank, folder, changes)
            if changes.get("ask") == step and rank == 0:
                (folder / "question").touch()
                wait_for((folder / "answer").exists)
            state["trained"] += 1
            at, steps = changes.get("skip", [None, 0])
            if step + 1 == at:
                loader.skip(steps if rank == 0 else changes.get("skip_elsewhere", steps))
            assert int(state["trained"]) == loader.step - loader.skipped_steps
            if (step + 1) % changes.get("every", 1 << 30) == 0:
                save(state, loader, folder)
            if changes.get("stop") == step + 1:
                save(state, loader, folder)
                break
    leave()


def own_pace(rank: int, world: int, folder: Path, url: str, changes: dict[str, Any]) -> None:
    """Trains without waiting for the other ranks, except at their start.

    `changes`: `kill`, `freeze`, `pause` and `job` as for lock_step; `seconds` (the duration of a step, until
    `folder`/hurry exists), `slow` ([rank, seconds]: the duration for that rank), `absent` (a rank that creates no
    loader), `twin` ([rank, other]: the rank reads as the other one), `commit` (steps after which it commits).
    """
    if changes.get("absent") == rank:
        threading.Event().wait()
    twin, other = changes.get("twin", [rank, rank])
    slow, seconds = changes.get("slow", [rank, changes["seconds"]])
    step_ends = threading.Event()
    place = other if rank == twin else rank
    job = changes.get("job", DEFAULT_JOB)
    with record_messages(folder, rank), StepLoader(url, rank=place, world_size=world, job=job, timeout=60) as loader:
        (folder / f"connected-{rank}").touch()
        others = set(range(world)) - {changes.get("absent")}
        wait_for(lambda: all((folder / f"connected-{n}").exists() for n in others))
        for _ in loader:
            (folder / f"stepped-{rank}").touch()
            if not (folder / "hurry").exists():
                step_ends.wait(seconds if rank == slow else changes["seconds"])
            if loader.step == changes.get("commit"):
                loader.commit(loader.step)
            suffer(loader.step - 1, rank, folder, changes)


def suffer(step: int, rank: int, folder: Path, changes: dict[str, Any]) -> None:
    """Injects the faults that `changes` has for a rank at a step. `folder`/fault exists once one begins."""
    for name, fault in (("kill", signal.SIGKILL), ("freeze", signal.SIGSTOP)):
        if changes.get(name) == [step, rank]:
            (folder / "fault").touch()
            os.kill(os.getpid(), fault)
    at, ranks, seconds = changes.get("pause", [None, [], 0])
    if step == at and rank in ranks:
        (folder / "fault").touch()
        threading.Event().wait(seconds)


@contextmanager
def record_messages(folder: Path, rank: int) -> Iterator[None]:
    """Writes what the client logs and raises to the files that `warnings_of` and `error_of` read."""
    handler = logging.FileHandler(folder / f"warnings-{rank}")
    handler.setFormatter(logging.Formatter("%(created).1f %(message)s"))
    logging.getLogger("loaderd").addHandler(handler)
    try:
        yield
    except (LoaderdError, ValueError) as error:
        (folder / f"error-{rank}").write_text(f"{type(error).__name__}: {error}")
        raise


def warnings_of(folder: Path, rank: int) -> str:
    """Returns what the client of a rank has logged so far: a line per warning, which begins with its time by
    time.time()."""
    file = folder / f"warnings-{rank}"
    return file.read_text() if file.exists() else ""


def error_of(folder: Path, rank: int) -> str:
    """Returns the typed error that ended the loader of a rank; empty before."""
    file = folder / f"error-{rank}"
    return file.read_text() if file.exists() else ""


def save(state: dict[str, Any], loader: StepLoader, folder: Path) -> None:
    """Saves a checkpoint, durable before any rank continues; then commits its steps."""
    states: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(states, loader.state_dict())
    assert all(s == states[0] for s in states), states
    dcp.save(state, checkpoint_id=folder / "checkpoints" / str(loader.step))
    dist.barrier()
    if dist.get_rank() == 0:
        loader.commit()


def newest_checkpoint(folder: Path) -> Path | None:
    """Returns the last complete checkpoint: its metadata is written last."""
    found = [p.parent for p in (folder / "checkpoints").glob("*/.metadata")]
    return max(found, key=lambda p: int(p.name), default=None)


def mesh_peers(rank: int, world: int, folder: Path, url: str, steps: int) -> None:
    """Reads data-parallel by tensor-parallel: tensor-parallel peers read the same rows, data-parallel ranks divide a
    step's rows. The daemon distinguishes peers: each has its own row in the status.
    """
    join(rank, world, folder)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    with StepLoader(url, mesh=mesh) as loader:
        assert (loader.rank, loader.world_size) == (rank // 2, 2)
        with (folder / f"rank-{rank}").open("w") as log:
            for _ in range(steps):
                batch = next(loader)
                everyone: list[Any] = [None] * 2
                dist.all_gather_object(everyone, row_digests(batch), group=mesh.get_group("tp"))
                assert everyone[0] == everyone[1]
                log.write(json.dumps(row_digests(batch)) + "\n")
        if rank == 0:
            want = [(n // 2, n, 1, steps - 1) for n in range(world)]
            rows = lambda: loader.status().figures["ranks"]  # noqa: E731
            wait_for(lambda: [(r["rank"], r.get("peer", 0), r["streams"], r["consumed"]) for r in rows()] == want)
        dist.barrier()
    leave()


class Tiny(nn.Module):
    """The smallest model with attention. It takes the arguments of the pages' models."""

    def __init__(self, vocabulary: int, longest: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.positions = nn.Embedding(vocabulary, 8), nn.Embedding(longest, 8)

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = (self.tokens(input_ids) + self.positions(position_ids))[:, None]
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)[:, 0] @ self.tokens.weight.T


class Gradients:
    """Replaces an optimizer: records the gradients of each step, and changes no weight."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.kept = model, []

    def step(self) -> None:
        found = [p.grad for p in self.model.parameters()]
        self.kept.append(torch.cat([(g.full_tensor() if hasattr(g, "full_tensor") else g).flatten() for g in found]))

    def zero_grad(self) -> None:
        for p in self.model.parameters():
            p.grad = None


def snippet_gradients(rank: int, world: int, folder: Path, url: str, given: tuple[str, str, int]) -> None:
    """Runs the loop of a page on every rank; rank 0 saves the gradients of each step. `given`: snippet, the model's
    "wrapper" (none, ddp or fsdp), ids."""
    snippet, wrapper, vocabulary = given
    os.chdir(folder)
    model: nn.Module = Tiny(vocabulary, 128).double()
    if wrapper != "none":
        join(rank, world, folder)
    if wrapper == "ddp":
        model = DistributedDataParallel(model)
    elif wrapper == "fsdp":
        from torch.distributed.fsdp import fully_shard  # the oldest supported torch has it elsewhere

        model = fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = Gradients(model)
    names = {"model": model, "optimizer": optimizer}
    exec(compile(snippet.replace("grpc://127.0.0.1:8815", url), "snippet", "exec"), names)
    if rank == 0:
        torch.save(torch.stack(optimizer.kept), folder / f"{wrapper}-{world}.pt")
    if wrapper != "none":
        leave()


def join(rank: int, world: int, folder: Path) -> None:
    """Makes this process a rank of a gloo group."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{folder}/store-{os.environ['STORE']}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)


def leave() -> None:
    """Destroys the group once every rank is done with it: a rank that leaves early can make the other ranks hang
    (torch 2.3)."""
    dist.barrier()
    dist.destroy_process_group()


class Job:
    """Processes that run `program(rank, world, folder, url, argument)` each."""

    count = 0

    def __init__(self, program: Callable[..., None], world: int, folder: Path, url: str, argument: Any) -> None:
        Job.count += 1
        self.folder = folder
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["pytest", __name__])
        self.processes: list[BaseProcess] = [
            context.Process(
                target=_run, args=(str(Job.count), program, rank, world, folder, url, argument), daemon=True
            )
            for rank in range(world)
        ]
        # Without a path the server preloads no module, without an error.
        with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
            for p in self.processes:
                p.start()

    def join(self) -> list[int | None]:
        """Waits for all; returns their exit statuses, where negative ones are signals."""
        for p in self.processes:
            p.join(TIMEOUT)
            if p.exitcode is None:
                self._kill()
                raise AssertionError(f"rank {self.processes.index(p)} has not ended in {TIMEOUT} s (stack on stderr)")
        return [p.exitcode for p in self.processes]

    def stop(self) -> None:
        """Kills all processes by SIGKILL."""
        for p in self.processes:
            p.kill()
            p.join()

    def _kill(self) -> None:
        for p in self.processes:
            if p.is_alive() and p.pid is not None:
                os.kill(p.pid, signal.SIGUSR1)  # prints the stack where it hangs
                p.join(1)
                p.kill()


def _run(store: str, program: Callable[..., None], *arguments: Any) -> None:
    faulthandler.register(signal.SIGUSR1)
    os.environ["STORE"] = store
    program(*arguments)
