"""Reads a run with loaderd.jax or loaderd.grain: python array_rows.py jax|elastic|grain URL ...

Prints the ranks that the process reads as, then for every step the checksum of each row, or part of a row, of its
devices.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

FIELDS = ("input_ids", "labels", "position_ids", "segment_ids", "loss_weights")


def shards(array: Any, first: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Returns first row, first token and values of every shard of this process."""
    if isinstance(array, np.ndarray):
        yield first, 0, array
        return
    for shard in array.addressable_shards:
        rows, tokens = (part.start or 0 for part in shard.index)
        yield rows, tokens, np.asarray(shard.data)


def checksums(batch: dict[str, Any], rank: int) -> dict[str, dict[str, int]]:
    return {
        name: {
            f"{first + i}:{token}:{token + len(row)}": zlib.crc32(row.tobytes())
            for first, token, values in shards(array, rank * len(array))
            for i, row in enumerate(values)
        }
        for name, array in batch.items()
    }


def write(value: Any) -> None:
    """Prints a value as a line. Gloo prints as well, without ends of lines."""
    print(f"\n{json.dumps(value)}", flush=True)


def read_jax(args: argparse.Namespace) -> None:
    from loaderd.jax import StepLoader

    devices = np.array(jax.devices())[args.devices].reshape(list(args.mesh.values()))
    mesh = Mesh(devices, tuple(args.mesh))
    sharding = NamedSharding(mesh, PartitionSpec(*args.spec))
    manager = ocp.CheckpointManager(args.checkpoint.absolute())
    total = jax.device_put(np.zeros((), np.int32), NamedSharding(mesh, PartitionSpec()))
    add = jax.jit(lambda total, batch: total + batch["input_ids"].sum() + jnp.maximum(batch["labels"], 0).sum())
    with StepLoader(args.url, sharding, fields=FIELDS) as loader:
        write([[c.rank, c.world_size, c.peer] for c in loader._clients])
        if (latest := manager.latest_step()) is not None:
            items = {"loader": ocp.args.JsonRestore(), "model": ocp.args.StandardRestore({"total": total})}
            restored = manager.restore(latest, args=ocp.args.Composite(**items))
            loader.load_state_dict(restored["loader"])
            total = restored["model"]["total"]
        for batch in loader:
            total = add(total, batch)
            write({"step": loader.step, "total": int(total), "rows": checksums(batch, 0)})
            if loader.step % args.save_every == 0:
                items = {
                    "loader": ocp.args.JsonSave(loader.state_dict()),
                    "model": ocp.args.StandardSave({"total": total}),
                }
                manager.save(loader.step, args=ocp.args.Composite(**items))
                manager.wait_until_finished()
                if jax.process_index() == 0:
                    loader.commit()
            if loader.step == args.steps:
                break
    manager.close()


def read_elastic(args: argparse.Namespace) -> None:
    """Reads steps on the devices of two processes, on those of process 0, and on all of them again, in another order.

    Then process 1 kills itself, and process 0 continues on the devices that are left.
    """
    from loaderd import RankMissingError
    from loaderd.jax import StepLoader

    def on(devices: Iterable[jax.Device]) -> NamedSharding:
        return NamedSharding(Mesh(np.array([*devices]), ("data",)), PartitionSpec("data"))

    def read(loader: StepLoader, steps: int) -> None:
        for _ in range(steps):
            batch = next(loader)
            write({"step": loader.step, "rows": checksums(batch, 0)})

    def shared(value: Any) -> Any:
        """Returns the value of process 0."""
        padded = np.frombuffer(json.dumps(value).encode().ljust(1000), np.uint8)
        return json.loads(bytes(multihost_utils.broadcast_one_to_all(padded)))

    both, mixed = on(jax.devices()), on(jax.devices()[i] for i in (0, 2, 1, 3))
    loader = StepLoader(args.url, both, fields=FIELDS)
    write([[c.rank, c.world_size, c.peer] for c in loader._clients])
    read(loader, 3)
    if jax.process_index() == 0:
        loader.resize(on(jax.local_devices()))
        read(loader, 3)
        try:
            loader.resize(mixed, timeout=0)
        except RankMissingError as error:
            write({"error": str(error)})
        read(loader, 1)
        state = shared(loader.state_dict())
    else:
        try:
            loader.resize(on(d for d in jax.devices() if d.process_index == 0))
        except ValueError as error:
            write({"error": str(error)})
        loader.close()
        state = shared(None)
        loader = StepLoader(args.url, both, fields=FIELDS)
        loader.load_state_dict(state)
    loader.resize(mixed)
    write({"ranks": [[c.rank, c.world_size, c.peer] for c in loader._clients]})
    read(loader, 3)
    if jax.process_index() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with multihost_utils.live_devices(jax.devices()) as live:
        loader.resize(on(live), step=loader.step - 1)
        read(loader, 4)
    loader.close()
    os._exit(0)  # the shutdown of jax.distributed waits for the lost process


def read_grain(args: argparse.Namespace) -> None:
    from loaderd.grain import StepIterDataset

    dataset = StepIterDataset(args.url, rank=args.process, world_size=args.processes, fields=FIELDS)
    write([[args.process, args.processes, 0]])
    iterator = iter(dataset.map(lambda batch: batch | {"doubled": 2 * batch["input_ids"]}))
    checkpointer = ocp.Checkpointer(ocp.JsonCheckpointHandler())
    if args.checkpoint.exists():
        iterator.set_state(checkpointer.restore(args.checkpoint.absolute(), args=ocp.args.JsonRestore()))
    step = iterator.get_state()["step"]
    for batch in iterator:
        step += 1
        assert np.array_equal(batch.pop("doubled"), 2 * batch["input_ids"])
        write({"step": step, "rows": checksums(batch, args.process)})
        if step % args.save_every == 0 and args.process == 0:
            state = ocp.args.JsonSave(iterator.get_state())
            checkpointer.save(args.checkpoint.absolute(), args=state, force=True)
        if step == args.steps:
            break
    iterator.close()


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("reader", choices=["jax", "elastic", "grain"])
    flags.add_argument("url")
    flags.add_argument("--checkpoint", type=Path, required=True)
    flags.add_argument("--steps", type=int, required=True)
    flags.add_argument("--save-every", type=int, default=4)
    flags.add_argument("--mesh", type=json.loads, default={"data": 4})
    flags.add_argument("--devices", type=json.loads, default=[0, 1, 2, 3])
    flags.add_argument("--spec", type=json.loads, default=["data"])
    flags.add_argument("--coordinator")
    flags.add_argument("--processes", type=int, default=1)
    flags.add_argument("--process", type=int, default=0)
    args = flags.parse_args()
    if args.coordinator:
        jax.config.update("jax_enable_recoverability", args.reader == "elastic")
        jax.distributed.initialize(
            args.coordinator,
            args.processes,
            args.process,
            heartbeat_timeout_seconds=10 if args.reader == "elastic" else 100,
        )
    {"jax": read_jax, "elastic": read_elastic, "grain": read_grain}[args.reader](args)


if __name__ == "__main__":
    main()
