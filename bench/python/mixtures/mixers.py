"""The mixing of sources in each library: each configured in its own terms, with one small common interface.

A sample is (source, index). The caller defines what a sample is (a document, or a row of tokens of one source that was
cut in advance). These libraries mix samples.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

FOLDER: str | None = None  # for files of libraries that read files
Samples = np.ndarray  # int64 [n, 2]: source and index


class Mix:
    """One pass over a mixture of sources with these numbers of samples.

    `take(n)` returns the next samples, `state()` the position as the library saves it.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float],
        seed: int = 1,
        state: Any = None,
        history: Sequence[tuple[int, Sequence[float]]] = (),
    ) -> None:
        """`state` is one that a mix of the same sources has saved, under the same weights or others.

        `history` has the previous weights, and the sample at which each took effect, for libraries that accept them.
        """
        raise NotImplementedError

    def take(self, n: int) -> Samples:
        return np.array([next(self.samples) for _ in range(n)], dtype=np.int64).reshape(-1, 2)

    def order(self, n: int) -> Samples:
        """Returns the first samples, by a faster method if the library has one."""
        return self.take(n)

    samples: Iterator[tuple[int, int]]
    drawn = True  # the next source is random
    shuffled = False  # its order is random: a missing sample may still follow

    def state(self) -> Any:
        raise NotImplementedError


class HuggingFace(Mix):
    """interleave_datasets of iterable datasets with probabilities: a random draw per sample."""

    def __init__(self, sizes, weights, seed=1, state=None, history=()):
        from datasets import Dataset, interleave_datasets

        parts = [
            Dataset.from_dict({"source": np.full(n, i), "index": np.arange(n)}).to_iterable_dataset()
            for i, n in enumerate(sizes)
        ]
        total = sum(weights)
        self.dataset = interleave_datasets(
            parts, probabilities=[w / total for w in weights], seed=seed, stopping_strategy="all_exhausted"
        )
        if state is not None:
            self.dataset.load_state_dict(state)
        self.samples = ((x["source"], x["index"]) for x in self.dataset)

    def state(self):
        return self.dataset.state_dict()


class GrainMap(Mix):
    """MapDataset.mix: sample k is a function of k and the weights. The state is k."""

    drawn = False

    def __init__(self, sizes, weights, seed=1, state=None, history=()):
        import grain

        self.dataset = grain.MapDataset.mix([_grain_source(i, n) for i, n in enumerate(sizes)], weights=list(weights))
        self.at = state or 0
        self.samples = self._samples()

    def _samples(self):
        while True:
            self.at += 1
            yield self.dataset[self.at - 1]

    def state(self):
        return self.at


class GrainIter(Mix):
    """IterDataset.mix: the same order over iterators, whose states are saved with it."""

    drawn = False

    def __init__(self, sizes, weights, seed=1, state=None, history=()):
        import grain

        # Threads are slower for samples that cost nothing.
        options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        self.samples = iter(
            grain.IterDataset.mix(
                [_grain_source(i, n).to_iter_dataset(options) for i, n in enumerate(sizes)], weights=list(weights)
            )
        )
        if state is not None:
            self.samples.set_state(state)

    def state(self):
        return self.samples.get_state()


def _grain_source(i: int, n: int):
    import grain

    return grain.MapDataset.range(n).map(lambda k: (i, k)).repeat()


class Pairs:
    """The samples of a source, by index."""

    def __init__(self, source: int, n: int) -> None:
        self.source, self.n = source, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, k: int) -> tuple[int, int]:
        return self.source, k


class TorchData(Mix):
    """MultiNodeWeightedSampler of torchdata.nodes: a random draw per sample."""

    def __init__(self, sizes, weights, seed=1, state=None, history=()):
        import torchdata.nodes as tn

        parts = {str(i): tn.MapStyleWrapper(Pairs(i, n), sampler=range(n)) for i, n in enumerate(sizes)}
        sampler = tn.MultiNodeWeightedSampler(
            parts, {str(i): float(w) for i, w in enumerate(weights)}, stop_criteria="CYCLE_FOREVER", seed=seed
        )
        self.loader = tn.Loader(sampler)
        if state is not None:
            self.loader.load_state_dict(state)
        self.samples = iter(self.loader)

    def state(self):
        return self.loader.state_dict()


class Mosaic(Mix):
    """StreamingDataset with a proportion per stream, shuffled globally ("naive").

    Without a shuffle it reads one stream after the other. The other shuffle methods keep to few files at a time, so
    that some streams are read early.
    """

    shuffled = True

    def __init__(self, sizes, weights, seed=1, state=None, history=()):
        import streaming

        folder = self._written(tuple(sizes))
        total = sum(weights)
        streams = [streaming.Stream(local=f"{folder}/{i}", proportion=w / total) for i, w in enumerate(weights)]
        streaming.base.util.clean_stale_shared_memory()
        self.dataset = streaming.StreamingDataset(
            streams=streams,
            shuffle=True,
            batch_size=1,
            shuffle_algo="naive",
            shuffle_block_size=1 << 18,
            num_canonical_nodes=1,
            shuffle_seed=seed,
            epoch_size=sum(sizes),
        )
        self.firsts = np.cumsum([0, *sizes])
        self.done = 0
        if state is not None:
            self.dataset.load_state_dict(state)
            self.done = state["sample_in_epoch"]
        self.samples = self._samples()

    written: ClassVar[dict[tuple[int, ...], str]] = {}

    @classmethod
    def _written(cls, sizes: tuple[int, ...]) -> str:
        """Returns a folder with a dataset per source, as a new copy: two open datasets may not share one."""
        import streaming

        if sizes not in cls.written:
            cls.written[sizes] = tempfile.mkdtemp(dir=FOLDER)
            for i, n in enumerate(sizes):
                with streaming.MDSWriter(
                    out=f"{cls.written[sizes]}/{i}", columns={"source": "int", "index": "int"}
                ) as out:
                    for k in range(n):
                        out.write({"source": i, "index": k})
        return shutil.copytree(cls.written[sizes], f"{tempfile.mkdtemp(dir=FOLDER)}/copy")

    def _samples(self):
        for x in self.dataset:
            self.done += 1
            yield x["source"], x["index"]

    def order(self, n: int) -> Samples:
        """Returns the library's order of the epoch's first samples, without reading them."""
        from streaming.base.batching import generate_work
        from streaming.base.world import World

        ids = generate_work(self.dataset.batching_method, self.dataset, World.detect(), 0, 0).reshape(-1)
        ids = ids[ids >= 0][:n]
        source = np.searchsorted(self.firsts, ids, side="right") - 1
        return np.stack([source, ids - self.firsts[source]], axis=1)

    def state(self):
        return self.dataset.state_dict(self.done, True)


class Megatron(Mix):
    """BlendedDataset: an index of all samples, computed before the training by the error of each source so far.

    The state is the position in it.
    """

    drawn = False
    LENGTH = 2_000_000

    def __init__(self, sizes, weights, seed=1, state=None, history=()):
        from megatron.core.datasets.blended_dataset import BlendedDataset

        config = SimpleNamespace(defer_npy_index_mmap=False, path_to_cache=None, fast_cache_load=False)
        self.dataset = BlendedDataset(
            [_Part(i) for i in range(len(sizes))], [float(w) for w in weights], self.LENGTH, config
        )
        self.at = state or 0
        self.samples = self._samples()

    def _samples(self):
        while True:
            self.at += 1
            x = self.dataset[self.at - 1]
            yield int(x["dataset_id"]), int(x["index"])

    def state(self):
        return self.at


class _Part:
    """The members of a dataset that BlendedDataset needs: it is as long as necessary, as a GPTDataset of several epochs
    is.
    """

    index_split = SimpleNamespace(name="train")

    def __init__(self, i: int) -> None:
        self.unique_identifiers = {"source": i}

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, k: int) -> dict[str, int]:
        return {"index": k}


class Levanter(Mix):
    """MixtureDataset: blocks of samples, each with the same number of every source.

    Weights change by stages, which begin with a block.
    """

    drawn = False
    BLOCK = 2048

    def __init__(self, sizes, weights, seed=1, state=None, history=()):
        from levanter.data import ListAsyncDataset
        from levanter.data.mixture import MixtureDataset

        parts = {str(i): ListAsyncDataset(Pairs(i, n), is_complete=True) for i, n in enumerate(sizes)}
        self.at = state or 0
        stages = [*history, (-(-self.at // self.BLOCK) * self.BLOCK if history else 0, weights)]
        named = [(begin, {str(i): w for i, w in enumerate(ws)}) for begin, ws in stages]
        self.dataset = MixtureDataset(parts, named, block_size=self.BLOCK, key=seed)

    def take(self, n: int) -> Samples:
        async def get():
            out = []
            for k in range(self.at, self.at + n, 1024):
                out += await self.dataset.get_batch(list(range(k, min(k + 1024, self.at + n))))
            return out

        got = asyncio.run(get())
        self.at += n
        return np.array(got, dtype=np.int64).reshape(-1, 2)

    def state(self):
        return self.at


class LevanterInLargeBlocks(Levanter):
    """The largest permitted blocks, for weights so unequal that smaller ones omit sources, as its warning states."""

    BLOCK = 2**16 - 1


FOR_UNLIKE_WEIGHTS: dict[type[Mix], type[Mix]] = {Levanter: LevanterInLargeBlocks}

MIXERS: dict[str, tuple[type[Mix], str, str]] = {  # name: how, package, required module
    "MosaicML Streaming": (Mosaic, "mosaicml-streaming", "streaming"),
    "HF interleave_datasets": (HuggingFace, "datasets", "datasets"),
    "Grain MapDataset.mix": (GrainMap, "grain", "grain"),
    "Grain IterDataset.mix": (GrainIter, "grain", "grain"),
    "torchdata MultiNodeWeightedSampler": (TorchData, "torchdata", "torchdata.nodes"),
    "Megatron BlendedDataset": (Megatron, "megatron-core", "megatron.core.datasets.blended_dataset"),
    "Levanter MixtureDataset": (Levanter, "levanter", "levanter.data.mixture"),
}
