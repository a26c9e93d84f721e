"""The prefetcher of a loader: a thread that reads steps, builds batches and moves them to the device."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch

from loaderd._array_format import WeightWarning
from loaderd._client import Client
from loaderd._loader_state import LoaderState
from loaderd._prefetch import Prefetcher
from loaderd._step import Step
from loaderd._step_stream import StepStream
from loaderd.torch._batch import BatchFormat, make_batch
from loaderd.torch._buffers import Buffers
from loaderd.torch._counts import BatchCounter, BatchCounts
from loaderd.torch._device import Batch, Mover
from loaderd.torch._guard import ProcessGuard
from loaderd.torch._options import PrefetchOptions, RankOptions
from loaderd.torch._run_client import RunClient


@dataclass(frozen=True, slots=True)
class ReadyBatch:
    """A batch whose copy to the device has been started.

    Attributes:
        step: The index of its step.
        step_tokens: The tokens of the whole step, on all ranks.
        counts: What the batch holds.
    """

    step: int
    step_tokens: int
    counts: BatchCounts
    _batch: Batch
    _copied: torch.cuda.Event | None
    _mover: Mover

    def receive(self) -> Batch:
        """Returns the batch in the consumer's thread and CUDA stream."""
        return self._mover.receive(self._batch, self._copied)


class BatchPrefetcher:
    """Returns the batches of a rank in order, from the position of a LoaderState.

    The thread starts with the first batch. It ends at an error, and the next call starts another one at the same step.

    Attributes:
        ranks: What determines the rank whose rows the next reader requests.
    """

    def __init__(
        self,
        client: RunClient,
        ranks: RankOptions,
        options: PrefetchOptions,
        batch_format: BatchFormat,
        counter: BatchCounter,
        guard: ProcessGuard,
    ) -> None:
        self._client, self.ranks, self._options, self._format = client, ranks, options, batch_format
        self._counter, self._guard = counter, guard
        self._reader: Prefetcher[ReadyBatch] | None = None
        self._stream: StepStream | None = None  # of the current reader, or the last one

    @property
    def run_id(self) -> str | None:
        """The run's id as the last stream found it; None before."""
        return self._stream.run_id if self._stream else None

    def next(self, state: LoaderState) -> ReadyBatch:
        """Returns the batch of the step `state.next_step`, and adds the time that this took to the counts.

        Raises:
            StopIteration: At the end of the run.
            LoaderdError: If the step does not arrive.
            ValueError: If the run ends within skipped steps.
        """
        while True:
            if (landing := state.next_step) != state.step:
                self.stop()
                self._connect().pass_over(state.step, landing)
                state.step = landing
            reader, started = self._reader or self.open(state), time.monotonic()
            self._client.check()  # after the reader is set, which `interrupt` closes after the error is set
            try:
                ready = next(reader)
            except StopIteration:
                raise
            except Exception:
                self._counter.waited += time.monotonic() - started
                self.stop()  # the next call opens another reader, at the same step
                self._client.check()
                if reader.stale:  # the timeout expired while the caller was not waiting
                    continue
                raise
            waited = time.monotonic() - started
            if ready.step == state.step:
                self._counter.waited += waited
                return ready
            self.stop()  # an interrupt dropped a step between the reader and here

    def open(self, state: LoaderState) -> Prefetcher[ReadyBatch]:
        """Opens a reader at the position of a state, with what its thread needs."""
        info = self._client.info  # a state can then be taken even if the daemon is down
        client = self._connect()
        mover = Mover(self._options.device, self._options.pin_memory)
        ahead = self._options.prefetch_factor
        unused = 4 * (ahead + 2)  # a batch has three tensors of one size, and one of another bucket's
        builder = _BatchBuilder(self._format, Buffers(pinned=mover.pinned, keep=unused), mover)
        client.keep_to_id(state.identify(info, self.run_id))
        self._stream = client.stream(state.step, masks=self._format.masks)
        self._reader = Prefetcher(self._stream, ahead, builder)
        return self._reader

    def _connect(self) -> Client:
        """Returns the client, which reads as the current rank."""
        client, rank = self._client.connect(), self.ranks.find()
        client.rank, client.world_size, client.peer = rank.rank, rank.world_size, rank.peer
        self._guard.rank_info = rank
        return client

    def interrupt(self) -> None:
        """Makes a `next()` in another thread raise."""
        if reader := self._reader:
            reader.close()

    def stop(self, left: bool = False) -> None:
        """Ends the thread and drops its batches.

        Args:
            left: Whether this process no longer reads as its rank.
        """
        reader, self._reader, self._guard.rank_info = self._reader, None, None
        if reader is not None:
            if self._stream is not None and not self._guard.closed:
                self._stream.leave() if left else self._stream.suspend()
            reader.close()


@dataclass(frozen=True, slots=True)
class _BatchBuilder:
    """Builds batches in the reader's thread.

    It does not reference the loader, so that an abandoned loader is collected and its thread ends.
    """

    batch_format: BatchFormat
    buffers: Buffers
    mover: Mover
    weights: WeightWarning = field(default_factory=WeightWarning)

    def __call__(self, step: Step) -> ReadyBatch:
        if not self.batch_format.weights:
            self.weights.check(step)
        with self.mover.on_gpu():
            batch, copied = self.mover.send(make_batch(step, self.batch_format, self.buffers))
            return ReadyBatch(step.index, step.step_tokens, BatchCounts.of(step), batch, copied, self.mover)
