"""Misuse of loaderd.jax and loaderd.grain, each an error that names the cause: python array_errors.py URL."""

import gc
import sys
import threading

import grain
import jax
import numpy as np
from absl import flags
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import loaderd
from loaderd._skips import Skips
from loaderd.grain import StepIterDataset
from loaderd.jax import StepLoader


def raises(kind: type[Exception], text: str, call) -> None:
    try:
        call()
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}: {text}")


def main(url: str) -> None:
    data = NamedSharding(Mesh(jax.devices(), "data"), PartitionSpec("data"))
    three = NamedSharding(Mesh(jax.devices()[:3], "data"), PartitionSpec("data"))
    raises(
        loaderd.WorldMismatchError, "8 rows of a step of bucket 64 among 3 shards", lambda: next(StepLoader(url, three))
    )
    cube = NamedSharding(data.mesh, PartitionSpec("data", None, None))
    raises(ValueError, "want a PartitionSpec for [rows, L]", lambda: StepLoader(url, cube))
    raises(ValueError, "unknown fields ['cu_seqlens']", lambda: StepLoader(url, data, fields=["cu_seqlens"]))
    raises(ValueError, "labels 'both'", lambda: StepIterDataset(url, labels="both"))
    raises(ValueError, "prefetch_factor 0", lambda: StepLoader(url, data, prefetch_factor=0))

    with StepLoader(url, data) as loader:
        raises(ValueError, "no state was taken", loader.commit)
        first = loader.state_dict()
        batch = next(loader)
        assert loader.step == 1 and loader.state_dict()["step"] == 1 and loader.state_dict()["run_id"]
        raises(
            loaderd.RunMismatchError,
            "belongs to the run other",
            lambda: loader.load_state_dict(first | {"run": "other"}),
        )
        other = first | {"fingerprint": "sha256:0"}
        raises(loaderd.PlanMismatchError, "belongs to another plan", lambda: loader.load_state_dict(other))
        raises(ValueError, "not a state of a loader", lambda: loader.load_state_dict({"step": 3}))
        assert next(loader)["input_ids"].sharding == data and loader.step == 2  # an error changes nothing
        loader.load_state_dict(first)
        assert all(np.array_equal(batch[name], array) for name, array in next(loader).items())
        one = loader.state_dict()
        third = next(loader), next(loader)
        loader.load_state_dict(one | {"skip": [[1, 2]]})  # of a loader of PyTorch
        assert loader.step == 2 and np.array_equal(next(loader)["input_ids"], third[1]["input_ids"])
        state = loader.state_dict()
        assert (state["step"], state["skip"]) == (3, [[1, 2]])
        assert state["tokens"] == sum((x["segment_ids"] > 0).sum() for x in (batch, third[1]))
        assert loader.commit() == 3
        loader._state.skips = Skips(((4, 1000),))  # of a state that was loaded before the run's length was known
        for _ in range(2):
            raises(ValueError, "skip the steps 4 to 999 of run default: it ends at step ", lambda: list(loader))
    raises(loaderd.ClosedClientError, "closed", lambda: next(loader))

    abandoned = StepLoader(url, data)
    next(abandoned)
    assert any(thread.name == "loaderd-prefetch" for thread in threading.enumerate())
    del abandoned
    gc.collect()
    assert not any(thread.name == "loaderd-prefetch" for thread in threading.enumerate())

    dataset = StepIterDataset(url)
    flags.FLAGS.mark_as_parsed()  # which Grain reads
    workers = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    raises(ValueError, "omit mp_prefetch", lambda: next(iter(workers)))
    iterator = iter(dataset)
    state = iterator.get_state()
    element = next(iterator)
    raises(loaderd.RunMismatchError, "belongs to the run other", lambda: iterator.set_state(state | {"run": "other"}))
    assert iterator.get_state()["step"] == 1
    iterator.set_state(state)
    assert np.array_equal(next(iterator)["labels"], element["labels"])
    iterator.set_state(state | {"skip": [[0, 2]]})
    assert np.array_equal(next(iterator)["input_ids"], third[1]["input_ids"])
    assert (iterator.get_state()["step"], iterator.get_state()["skip"]) == (3, [[0, 2]])
    iterator.close()
    raises(ValueError, "closed", lambda: next(iterator))


if __name__ == "__main__":
    main(sys.argv[1])
