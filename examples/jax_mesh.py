"""A tiny GPT in JAX, data-parallel over a mesh of devices, without torch.

Each process reads its rows. A killed training resumes from its checkpoint with the same losses, on any number of
processes.

    XLA_FLAGS=--xla_force_host_platform_device_count=4 python examples/jax_mesh.py --checkpoint run.npz
    python examples/jax_mesh.py --coordinator host0:1234 --processes 2 --process 0   # and --process 1 on the other host
"""

import argparse
import json
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from loaderd.jax import StepLoader

WIDTH, HEADS, RATE = 32, 2, 0.05


def init(vocabulary: int, longest: int) -> dict[str, jax.Array]:
    shapes = {
        "token": (vocabulary, WIDTH),
        "position": (longest, WIDTH),
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
    }
    shapes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return {
        name: jax.random.normal(key, shape) / np.sqrt(WIDTH)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def document_mask(segments: jax.Array) -> jax.Array:
    """Returns bool [rows, 1, L, L]: a token sees earlier tokens of its own segment.

    Padding (0) sees padding, so no row of the softmax is empty.
    """
    same = segments[:, :, None] == segments[:, None, :]
    return (same & jnp.tri(segments.shape[1], dtype=bool))[:, None]


def loss_of(weights: dict[str, jax.Array], batch: dict[str, jax.Array]) -> jax.Array:
    """Returns the mean over all labels of the step, of every process: the arrays are global, and so are these sums."""
    x = weights["token"][batch["input_ids"]] + weights["position"][batch["position_ids"]]
    rows, length, _ = x.shape
    q, k, v = jnp.split((x @ weights["qkv"]).reshape(rows, length, HEADS, -1), 3, axis=-1)
    seen = jax.nn.dot_product_attention(q, k, v, mask=document_mask(batch["segment_ids"]))
    x = x + seen.reshape(rows, length, WIDTH) @ weights["out"]
    x = x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]
    logs = jax.nn.log_softmax(x @ weights["token"].T)
    counted = batch["labels"] >= 0  # -100 has no loss
    each = jnp.take_along_axis(logs, jnp.maximum(batch["labels"], 0)[..., None], axis=-1)[..., 0]
    return -jnp.where(counted, each, 0).sum() / jnp.maximum(counted.sum(), 1)


@jax.jit  # compiled once per row length of the run
def train(weights, momentum, batch):
    loss, slope = jax.value_and_grad(loss_of)(weights, batch)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, slope)
    return jax.tree.map(lambda w, m: w - RATE * m, weights, momentum), momentum, loss


def whole(path: str) -> dict[str, np.ndarray]:
    """Returns the saved arrays, or an empty dict."""
    return dict(np.load(path)) if os.path.exists(path) else {}


def save(path: str, **arrays: Any) -> None:
    """Saves so that a crash leaves the old file or the new one."""
    with open(f"{path}.new", "wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--url", default="grpc://127.0.0.1:8815")
    flags.add_argument("--checkpoint", default="run.npz", help="a file that all processes can read")
    flags.add_argument("--steps", type=int, default=1000)
    flags.add_argument("--save-every", type=int, default=100)
    flags.add_argument("--coordinator", help="host:port of process 0, if there are several processes")
    flags.add_argument("--processes", type=int)
    flags.add_argument("--process", type=int)
    args = flags.parse_args()

    if args.coordinator:
        jax.distributed.initialize(args.coordinator, args.processes, args.process)
    mesh = Mesh(jax.devices(), "data")
    rows, copied = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())

    saved = whole(args.checkpoint)
    with StepLoader(args.url, rows) as loader:
        if saved:
            loader.load_state_dict(json.loads(str(saved["loader"])))
        fresh = init(loader.info.vocab_size, max(loader.info.buckets))
        weights = jax.device_put({n: saved.get(f"weights/{n}", np.asarray(x)) for n, x in fresh.items()}, copied)
        momentum = jax.device_put(
            {n: saved.get(f"momentum/{n}", np.zeros(x.shape, x.dtype)) for n, x in fresh.items()}, copied
        )
        for batch in loader:
            weights, momentum, loss = train(weights, momentum, batch)
            if jax.process_index() == 0:
                count, length = batch["input_ids"].shape
                print(f"step {loader.step} rows {count} x {length} loss {float(loss):.7f}", flush=True)
                if loader.step % args.save_every == 0:
                    trees = {"weights": weights, "momentum": momentum}
                    arrays = {f"{kind}/{n}": np.asarray(x) for kind, tree in trees.items() for n, x in tree.items()}
                    save(args.checkpoint, loader=json.dumps(loader.state_dict()), **arrays)
                    loader.commit()
            if loader.step >= args.steps:
                break


if __name__ == "__main__":
    main()
