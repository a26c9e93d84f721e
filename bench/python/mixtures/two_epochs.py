"""Two epochs of one source of n documents, in each library's shuffled order: the orders of both as arrays of document
numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

import mixers

Orders = tuple[np.ndarray, np.ndarray]


def halves(samples: list[int] | np.ndarray) -> Orders:
    both = np.asarray(samples, dtype=np.int64)
    return both[: len(both) // 2], both[len(both) // 2 :]


def hf_buffer(n: int) -> Orders:
    from datasets import Dataset

    dataset = Dataset.from_dict({"index": np.arange(n)}).to_iterable_dataset().shuffle(seed=1, buffer_size=10_000)
    out = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        out += [x["index"] for x in dataset]
    return halves(out)


def hf_global(n: int) -> Orders:
    from datasets import Dataset

    dataset = Dataset.from_dict({"index": np.arange(n)})
    first, second = (np.array(dataset.shuffle(seed=epoch)["index"]) for epoch in range(2))
    return first, second


def grain(n: int) -> Orders:
    import grain

    dataset = grain.MapDataset.range(n).shuffle(seed=1).repeat(2)
    return halves([dataset[k] for k in range(2 * n)])


def torchdata(n: int) -> Orders:
    import torch
    import torchdata.nodes as tn
    from torch.utils.data import RandomSampler

    torch.manual_seed(1)
    node = tn.MapStyleWrapper(mixers.Pairs(0, n), sampler=RandomSampler(range(n)))
    loader = tn.Loader(node)
    return halves([k for _ in range(2) for _, k in loader])


def mosaic(n: int) -> Orders:
    from streaming.base.batching import generate_work
    from streaming.base.world import World

    dataset = mixers.Mosaic([n], [1.0]).dataset
    out = []
    for epoch in range(2):
        ids = generate_work(dataset.batching_method, dataset, World.detect(), epoch, 0).reshape(-1)
        out.append(ids[ids >= 0])
    return out[0], out[1]


def megatron(n: int) -> Orders:
    """Calls the functions of GPTDataset for two epochs: documents, then samples, here one per document."""
    from megatron.core.datasets.gpt_dataset import _build_document_index, _build_shuffle_index

    rng = np.random.RandomState(1)
    documents = _build_document_index(np.arange(n, dtype=np.int32), 2, rng, False)
    return halves(documents[_build_shuffle_index(len(documents), len(documents), rng)])


def levanter(n: int) -> Orders:
    """A shuffled source in a MixtureDataset, which restarts it when it is exhausted."""
    import jax
    from levanter.data import ListAsyncDataset
    from levanter.data.mixture import MixtureDataset

    source = ListAsyncDataset(mixers.Pairs(0, n), is_complete=True).shuffle(jax.random.PRNGKey(1))
    mixture = MixtureDataset({"0": source}, {"0": 1.0}, block_size=2048, key=1, randomize_blocks=False)

    async def get() -> list[int]:
        return [k for i in range(0, 2 * n, 2048) for _, k in await mixture.get_batch(list(range(i, i + 2048)))]

    return halves(asyncio.run(get()))


EPOCHS: dict[str, dict[str, Callable[[int], Orders]]] = {
    "MosaicML Streaming": {"`shuffle=True`, `naive`": mosaic},
    "HF interleave_datasets": {
        "`IterableDataset.shuffle`, buffer of 10,000": hf_buffer,
        "`Dataset.shuffle`, a seed an epoch": hf_global,
    },
    "Grain MapDataset.mix": {"`MapDataset.shuffle().repeat()`": grain},
    "torchdata MultiNodeWeightedSampler": {"`RandomSampler`": torchdata},
    "Megatron BlendedDataset": {"`GPTDataset`'s indices": megatron},
    "Levanter MixtureDataset": {"`shuffle(key)`": levanter},
}
