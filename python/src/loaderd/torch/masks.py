"""Attention within documents: masks and kernel arguments from the batches of a StepLoader.

A packed row holds several consecutive segments, then padding. A token may attend only to tokens of the same segment.
Padding is a separate segment (number 0), so every token attends at least to itself: no softmax is empty, and no NaN
results.

| attention | memory | from |
| --- | --- | --- |
| `scaled_dot_product_attention(attn_mask=...)` | rows * L * L bytes | `dense_mask` |
| FlexAttention | rows * (L / 128)^2 numbers | `block_mask` |
| varlen kernels (flash-attn, torch, transformers) | a number per segment | `varlen` |

Positions restart in every segment (`position_ids`). A model needs both mask and positions to process each document as
if it were alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def dense_mask(segment_ids: Tensor, *, causal: bool = True) -> Tensor:
    """Returns a mask for `scaled_dot_product_attention(attn_mask=...)`.

    That function does not permit `is_causal` in addition. The mask has one byte per pair of tokens: 4 MiB for a row of
    2,048, 256 MiB for one of 16,384.

    Args:
        segment_ids: The segments of a batch, [rows, L].
        causal: Whether a token sees only itself and earlier tokens.

    Returns:
        bool [rows, 1, L, L]: True where the query (dim 2) may see the key (dim 3).
    """
    same = segment_ids[:, None, :, None] == segment_ids[:, None, None, :]
    return same.tril() if causal else same


def document_mask_mod(segment_ids: Tensor, *, causal: bool = True) -> MaskMod:
    """Returns the same rule as a `mask_mod(b, h, q, kv)` of FlexAttention.

    Combine it with others: `and_masks(document_mask_mod(segment_ids), window)`.

    Args:
        segment_ids: The segments of a batch, [rows, L].
        causal: Whether a token sees only itself and earlier tokens.
    """

    def document(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return segment_ids[b, q] == segment_ids[b, kv]

    def causal_document(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (segment_ids[b, q] == segment_ids[b, kv]) & (q >= kv)

    return causal_document if causal else document


def block_mask(segment_ids: Tensor, *, causal: bool = True, block_size: int = 128) -> BlockMask:
    """Returns the same rule as a `BlockMask` for `flex_attention(block_mask=...)`.

    It equals `create_block_mask(document_mask_mod(segment_ids), rows, None, L, L)`, but is computed from the borders of
    the segments: without the [rows, L, L] tensor of `create_block_mask`, without compilation, without synchronization
    with the device. Segments must be contiguous, as those of a loader are.

    Args:
        segment_ids: The segments of a batch, [rows, L].
        causal: Whether a token sees only itself and earlier tokens.
        block_size: The size of a block in tokens.

    Raises:
        ImportError: If torch has no FlexAttention (before 2.5).
    """
    try:
        from torch.nn.attention.flex_attention import BlockMask
    except ImportError as error:
        raise ImportError(
            f"block_mask: torch {torch.__version__} has no FlexAttention: install torch 2.5 or later, "
            "or use dense_mask or varlen"
        ) from error
    length = segment_ids.shape[1]
    some, every = _blocks(segment_ids, causal, block_size)
    blocks = (*_ordered(some & ~every), *_ordered(every))
    rule = document_mask_mod(segment_ids, causal=causal)
    if length % block_size == 0:  # torch 2.5 accepts only this, and no seq_lengths
        return BlockMask.from_kv_blocks(*blocks, BLOCK_SIZE=block_size, mask_mod=rule)
    return BlockMask.from_kv_blocks(*blocks, BLOCK_SIZE=block_size, mask_mod=rule, seq_lengths=(length, length))


def _blocks(segment_ids: Tensor, causal: bool, size: int) -> tuple[Tensor, Tensor]:
    """Returns whether some, and whether every, query of block i may see keys of block j: two bool [rows, 1, n, n].

    Segments are contiguous. When they are numbered in order of appearance, a block has every number from its first
    token's to its last token's.
    """
    length = segment_ids.shape[1]
    edges = segment_ids[:, 1:] != segment_ids[:, :-1]
    number = torch.nn.functional.pad(edges.to(torch.int32).cumsum(1), (1, 0))
    begin = torch.arange(0, length, size, device=segment_ids.device)
    end = (begin + size - 1).clamp(max=length - 1)
    first, last = number[:, begin], number[:, end]
    query_first, query_last = first[:, None, :, None], last[:, None, :, None]
    key_first, key_last = first[:, None, None, :], last[:, None, None, :]
    some = (query_first <= key_last) & (key_first <= query_last)
    whole = begin + size <= length
    one = torch.minimum(query_first, key_first) == torch.maximum(query_last, key_last)
    every = one & whole[:, None] & whole[None, :]
    if causal:
        some = some.tril()
        every = every.tril(0 if size == 1 else -1)
    return some, every


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Returns bool [rows, 1, n, n] in the form of a BlockMask.

    Returns:
        The number of blocks of every query block, and indices with these blocks first.
    """
    order = blocks.to(torch.int32).argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32), order.to(torch.int32)


def varlen(
    batch: Mapping[str, Any],
    *,
    names: Literal["flash_attn", "torch", "transformers"] = "flash_attn",
    causal: bool = True,
    max_seqlen: int | None = None,
) -> dict[str, Any]:
    """Returns keyword arguments of a varlen kernel for the segments of a batch, in its concatenated rows.

    Padding is covered by additional segments, so the whole output is finite.

    Args:
        batch: A batch with `cu_seqlens` and `max_seqlen`.
        names: "flash_attn" for `flash_attn_varlen_func` and "torch" for `torch.nn.attention.varlen.varlen_attn`, which
            take q, k, v of [rows * L, heads, size]. "transformers" is for the call of a model with
            `attn_implementation="flash_attention_2"`, which takes `input_ids` and `position_ids` unchanged and
            determines itself whether it is causal.
        causal: Whether a token sees only itself and earlier tokens.
        max_seqlen: An upper bound in tokens in place of the batch's longest segment. The row length L is such a bound,
            and prevents `torch.compile` from recompiling for every new value.

    Raises:
        KeyError: If the loader's `fields` omit `cu_seqlens` or `max_seqlen`.
        ValueError: If `names` is another value.
    """
    ends = batch["cu_seqlens"]
    longest = int(batch["max_seqlen"]) if max_seqlen is None else max_seqlen
    if names == "flash_attn":
        arguments = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": longest, "max_seqlen_k": longest}
        return {**arguments, "causal": causal}
    if names == "transformers":
        return {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": longest, "max_length_k": longest}
    if names == "torch":
        from torch.nn.attention.varlen import varlen_attn

        arguments = {"cu_seq_q": ends, "cu_seq_k": ends, "max_q": longest, "max_k": longest}
        if "window_size" in inspect.signature(varlen_attn).parameters:
            return {**arguments, "window_size": (-1, 0 if causal else -1)}
        return {**arguments, "is_causal": causal}
    raise ValueError(f'names {names!r}: want "flash_attn", "torch" or "transformers"')


_LEAK = 1e-3
"""Relative change of a segment's outputs, from which on the influence of another segment is not rounding."""


@torch.no_grad()
def check_isolation(forward: Callable[[dict[str, Any]], Tensor], batch: Mapping[str, Any]) -> None:
    """Checks that a model attends within segments.

    It replaces the tokens of every other segment of each row, and compares the outputs of the segments between. It
    detects a missing mask or one of the wrong form, an attention that ignores its mask arguments, and layers that carry
    a state from token to token. The call costs two forward passes without gradients. Dropout must be off
    (`model.eval()`).

    Args:
        forward: Returns the logits [rows, L, ...] of a batch with the keys of this one, as the training loop computes
            them.
        batch: A batch with `input_ids` and `position_ids`.

    Raises:
        ValueError: If outputs depend on another segment, if they do not depend on `input_ids` at all, or if no row of
            the batch has two segments.
        KeyError: If the loader's `fields` omit `input_ids` or `position_ids`.
    """
    ids, positions = batch["input_ids"], batch["position_ids"]
    changed = (positions == 0).cumsum(1) % 2 == 1
    if changed.all():
        raise ValueError(
            "check_isolation: no row of the batch has two segments: use another batch of a run with attention: document"
        )
    others = torch.where(changed, ids.min() + ids.max() - ids, ids)
    moved = (forward({**batch, "input_ids": others}).float() - forward({**batch}).float()).abs().flatten(2).amax(-1)
    leak, own = moved[~changed].max().item(), moved[changed].mean().item()
    if own == 0:
        raise ValueError(
            "check_isolation: the output does not depend on input_ids: make forward compute it from the batch that it "
            "receives"
        )
    if not leak <= _LEAK * own:
        raise ValueError(
            f"check_isolation: the output of a token depends on another segment of its row: it changes by {leak:.3g}, "
            f"that of a changed segment by {own:.3g}. "
            "Pass a mask of the batch's segments. A model of transformers that receives only position_ids requires "
            "use_cache=False, and dropout must be off"
        )
