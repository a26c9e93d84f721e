"""A dataset of Grain whose elements are the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import grain
import numpy.typing as npt

from loaderd._array_format import FIELDS, ArrayFormat
from loaderd._client import Client
from loaderd._daemons import URLs
from loaderd._loader_state import LoaderState
from loaderd._skips import Skips

Batch = dict[str, npt.NDArray[Any]]


class StepIterDataset(grain.IterDataset[Batch]):
    """A dataset with one element per step of a run: a dict with a rank's rows, [rows, L] with the step's bucket L.

    The keys are those of `loaderd.jax.StepLoader`, the values numpy arrays. The elements are batches already. The state
    of an iterator, and of a pipeline of transformations that do not prefetch or regroup elements, is exact for any
    number of ranks. A thread of the iterator prefetches.

    Example:
        ```python
        dataset = StepIterDataset("grpc://127.0.0.1:8815", rank=jax.process_index(), world_size=jax.process_count())
        iterator = iter(dataset.map(transform))
        batch = next(iterator)
        manager.save(step, args=ocp.args.JsonSave(iterator.get_state()))
        ```
    """

    def __init__(
        self,
        url: URLs,
        *,
        rank: int = 0,
        world_size: int = 1,
        fields: Sequence[str] = FIELDS,
        labels: Literal["unshifted", "shifted"] = "shifted",
        columns: Sequence[str] = (),
        **client: Any,
    ) -> None:
        """Creates a dataset, whose iterators connect on first use.

        Args:
            url: The addresses of the daemons, as in `loaderd.Client`.
            rank: The data-parallel rank whose rows are read.
            world_size: The number of data-parallel ranks.
            fields: The requested keys, as in `loaderd.jax.StepLoader`.
            labels: "shifted" or "unshifted".
            columns: Names of additional columns of the documents, with a value per token.
            **client: Further arguments of `loaderd.Client`: `run`, `job`, `peer`, `token`, `tls`, `timeout`,
                `connect_timeout`, `prefetch_factor`.

        Raises:
            ValueError: If a field or the form of labels is unknown.
        """
        super().__init__()
        self._format = ArrayFormat.checked(fields, labels, columns)
        self._options = {"url": url, "rank": rank, "world_size": world_size, **self._format.client_options, **client}

    def __iter__(self) -> StepIterator:
        return StepIterator(self._options, self._format)

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Refuses the slices of worker processes.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "cannot divide the steps of a run among worker processes: omit mp_prefetch, the iterator prefetches in a "
            "thread"
        )

    def __str__(self) -> str:
        return f"StepIterDataset({self._options['url']})"


class StepIterator(grain.DatasetIterator[Batch]):
    """Iterates over the steps of a rank, with an exact state."""

    def __init__(self, options: dict[str, Any], batch_format: ArrayFormat) -> None:
        super().__init__()
        self._options, self._format = options, batch_format
        self._client = Client(**options)
        self._state = LoaderState(skips=Skips.checked(self._client.skips))

    def __next__(self) -> Batch:
        self._assert_not_closed()
        step = next(self._client)
        batch = self._format.arrays(step)
        self._state.advance(step.index, step.step_tokens)
        return batch

    def get_state(self) -> dict[str, Any]:
        """Returns the position after the last element that was returned, JSON-able and the same on every rank.

        It is the same as that of `loaderd.jax.StepLoader`.
        """
        return self._state.save(self._client.info(), None)

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues at the position of a state.

        Raises:
            RunMismatchError: If the state is of another run.
            PlanMismatchError: If the state is of another plan.
            RunReplacedError: If the run of the state was deleted and created again.
            ValueError: If this version cannot read the state.
        """
        info = self._client.info()
        self._state.load(state, info)
        self._client.close()
        place = {
            "step": self._state.step,
            "run": info.name,
            "fingerprint": info.fingerprint,
            "run_id": self._state.run_id,
            "skip": self._state.skips.ranges,
        }
        self._client = Client(**self._options | place)

    def close(self) -> None:
        """Stops prefetching and disconnects."""
        super().close()
        self._client.close()
