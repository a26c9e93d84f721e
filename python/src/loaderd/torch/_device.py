"""Copies batches to a device while the trainer computes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

Batch = dict[str, Any]


class Mover:
    """Moves batches to a device.

    `send` runs in the prefetching thread, `receive` in the consuming one, which also creates the Mover. Copies to CUDA
    run on a separate stream, from pinned memory, and only the GPU waits for them. Without a device batches stay in host
    memory.
    """

    def __init__(self, device: torch.device | None, pin_memory: bool | None) -> None:
        """Determines the memory and the device.

        Args:
            device: Where tensors are placed; None leaves them in host memory.
            pin_memory: Whether host memory is pinned; None pins it if CUDA is available and `device` permits it.

        Raises:
            ValueError: If pinned memory is requested without CUDA.
        """
        there = torch.cuda.is_available()
        self.pinned = pin_memory if pin_memory is not None else there and (device is None or device.type == "cuda")
        if self.pinned and not there:
            raise ValueError("pin_memory=True requires CUDA, which is not available")
        if device == torch.device("cuda"):
            device = torch.device("cuda", torch.cuda.current_device())
        self.device = device
        # Each thread has its own current CUDA device, the first one by default.
        self._gpu: torch.device | int | None = None
        if device is not None and device.type == "cuda":
            self._gpu = device
        elif self.pinned:
            self._gpu = torch.cuda.current_device()
        self._stream: torch.cuda.Stream | None = None

    def on_gpu(self) -> AbstractContextManager[Any]:
        """Makes the trainer's CUDA device the current one of this thread, so that no other device is initialized."""
        return nullcontext() if self._gpu is None else torch.cuda.device(self._gpu)

    def send(self, batch: Batch) -> tuple[Batch, torch.cuda.Event | None]:
        """Starts the copy of a batch to the device; returns the batch and the end of the copy."""
        if self.device is None:
            return batch, None
        if self.device.type != "cuda":
            return to_device(batch, self.device), None
        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._stream):
            moved = to_device(batch, self.device, non_blocking=True)
            return moved, self._stream.record_event()

    def receive(self, moved: Batch, copied: torch.cuda.Event | None) -> Batch:
        """Returns a sent batch for use in the current CUDA stream."""
        if copied is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(copied)
            for value in moved.values():
                if isinstance(value, torch.Tensor):
                    value.record_stream(current)  # allocated for the copy stream, used on this one
        return moved


def to_device(batch: Batch, device: torch.device | None, *, non_blocking: bool = False) -> Batch:
    """Returns the batch with its tensors on a device; None leaves them where they are."""
    if device is None:
        return batch
    return {k: v.to(device, non_blocking=non_blocking) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
