"""loaderd for PyTorch: `StepLoader` yields the batches of a run as dicts of tensors; `loaderd.torch.masks` makes masks
of them.
"""

from loaderd.torch.loader import StepLoader

__all__ = ["StepLoader"]
