"""Reads a run with loaderd.jax or loaderd.grain, with checkpoints of Orbax: python array_rows.py jax|grain URL ...

Prints the ranks that the process reads as, then for every step the checksum of each row, or part of a row, of its
devices.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
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
    flags.add_argument("reader", choices=["jax", "grain"])
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
        jax.distributed.initialize(args.coordinator, args.processes, args.process)
    {"jax": read_jax, "grain": read_grain}[args.reader](args)


if __name__ == "__main__":
    main()
