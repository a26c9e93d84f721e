"""Batches of tensors for PyTorch.

`StepLoader` yields the batches of a run as dicts of tensors; `loaderd.torch.masks` creates masks from them.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "loaderd.torch requires PyTorch: pip install torch, or, on a machine without a GPU, the build of 200 MB: "
        "pip install torch --index-url https://download.pytorch.org/whl/cpu. "
        "loaderd.Client does not require it: it returns numpy arrays",
        name="torch",
    ) from None

from loaderd.torch._loader import StepLoader

__all__ = ["StepLoader"]
