"""Runs torchtitan.train with its arguments on CPUs, which torchtitan itself does not support."""

import runpy
import types
from collections import defaultdict
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_mask
from torch.nn.functional import scaled_dot_product_attention
from torchtitan.tools import utils


class Device:
    """The functions of torch.cuda that torchtitan calls."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def current_device(self) -> int:
        return 0

    def get_device_name(self, device: object) -> str:
        return "CPU"

    def get_device_properties(self, device: object) -> types.SimpleNamespace:
        return types.SimpleNamespace(total_memory=1)

    def memory_stats(self, device: object) -> dict[str, int]:
        return defaultdict(int)

    def reset_peak_memory_stats(self) -> None: ...

    def empty_cache(self) -> None: ...


def dense(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    block_mask: Any,
    scale: float | None = None,
    enable_gqa: bool = False,
    **_: Any,
) -> Any:
    """flex_attention, which has no backward pass on CPUs, by the rule of torchtitan's block mask from the positions."""
    mask = create_mask(block_mask.mask_mod, q.shape[0], None, q.shape[2], k.shape[2], device="cpu")
    return scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale, enable_gqa=enable_gqa
    ), types.SimpleNamespace(lse=None)


utils.device_type, utils.device_module = "cpu", Device()
# Modules take the names above from there as they are imported.
from torchtitan.models.common.attention import FlexAttention  # noqa: E402

FlexAttention._compiled_flex_attn = staticmethod(dense)
runpy.run_module("torchtitan.train", run_name="__main__")
