"""The tensors of a batch."""

import dataclasses

import numpy as np
import pytest
import torch

from loaderd.torch._batch import FIELDS, BatchFormat, make_batch
from loaderd.torch._buffers import Buffers
from synthetic import assert_same, obvious_batch, random_masks, random_rows, random_weights, step_of_rows


def form(**changes):
    return BatchFormat.checked(
        **{"fields": None, "dtype": torch.int64, "labels": "unshifted", "capacity": None, **changes}
    )


@pytest.mark.parametrize("seed", range(120))
def test_equals_the_obvious(seed):
    """Random layouts: rows of only padding, several parts, both widths, both attentions, both forms of labels, both
    types.
    """
    rng = np.random.default_rng(seed)
    bucket, count = int(rng.choice([1, 2, 3, 16, 64, 200])), int(rng.integers(1, 12))
    ids = [np.uint16, np.int32][seed % 2]
    dtype = [torch.int64, torch.int32][seed // 2 % 2]
    shifted = bool(seed // 4 % 2)
    vocabulary = 65_536 if ids is np.uint16 else 200_000
    rows = random_rows(rng, count, bucket, vocabulary=vocabulary, row_attention=bool(seed // 8 % 2))
    masks = random_masks(rng, rows) if seed % 3 else None
    weights = random_weights(rng, rows) if seed % 5 < 2 else None
    step = step_of_rows(
        rows, bucket, dtype=ids, parts=int(rng.integers(1, count + 1)), pad=7, ranks=4, masks=masks, weights=weights
    )
    fields = None if weights is None else [*FIELDS, "loss_weights"]
    got = make_batch(step, form(dtype=dtype, labels="shifted" if shifted else "unshifted", fields=fields), Buffers())
    assert_same(
        got, obvious_batch(rows, bucket, dtype=dtype, shifted=shifted, pad=7, ranks=4, masks=masks, weights=weights)
    )
    if masks is not None:
        flags = [[loss for segment in row for loss in segment] for row in masks]
        assert step.loss_mask().tolist() == [row + [False] * (bucket - len(row)) for row in flags]
    cu = got["cu_seqlens"]
    assert cu[0] == 0 and cu[-1] == count * bucket and bool((cu.diff() > 0).all())  # every token, no segment empty
    assert got["max_seqlen"] == int(cu.diff().max())
    # The fields equal the step's own arrays.
    assert np.array_equal(got["segment_ids"].numpy(), step.segment_ids())
    assert np.array_equal(got["position_ids"].numpy(), step.position_ids())
    assert np.array_equal(got["labels"].numpy(), step.labels("shifted" if shifted else "unshifted"))
    assert np.array_equal(cu.numpy(), step.boundaries())


def test_one_row_by_hand():
    step = step_of_rows([[[11, 12, 13], [21]], [[31, 32]]], 6, pad=9)
    batch = make_batch(step, form(), Buffers())
    assert batch["input_ids"].tolist() == [[11, 12, 13, 21, 9, 9], [31, 32, 9, 9, 9, 9]]
    assert batch["labels"].tolist() == [[-100, 12, 13, -100, -100, -100], [-100, 32, -100, -100, -100, -100]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 0, 1], [0, 1, 0, 1, 2, 3]]
    assert batch["segment_ids"].tolist() == [[1, 1, 1, 2, 0, 0], [1, 1, 0, 0, 0, 0]]
    assert batch["cu_seqlens"].tolist() == [0, 3, 4, 6, 8, 12]
    assert (batch["max_seqlen"], batch["num_loss_tokens"], batch["num_loss_tokens_global"]) == (4, 3, 3)
    shifted = make_batch(step, form(labels="shifted"), Buffers())
    assert shifted["labels"].tolist() == [[12, 13, -100, -100, -100, -100], [32, -100, -100, -100, -100, -100]]
    assert shifted["num_loss_tokens"] == 3


def test_unshifted_labels_shifted_by_a_model_are_the_shifted_ones():
    """A model that shifts drops the first label and the last logit of each row; the rest is the shifted form."""
    rng = np.random.default_rng(5)
    step = step_of_rows(random_rows(rng, 9, 50), 50)
    unshifted, shifted = (make_batch(step, form(labels=x), Buffers())["labels"] for x in ("unshifted", "shifted"))
    assert torch.equal(unshifted[:, 1:], shifted[:, :-1])
    assert bool((shifted[:, -1] == -100).all()) and bool((unshifted[:, 0] == -100).all())


def test_fields():
    rng = np.random.default_rng(3)
    rows = random_rows(rng, 4, 32)
    step = step_of_rows(rows, 32)
    whole = obvious_batch(rows, 32, dtype=torch.int64, shifted=False)
    for chosen in (["input_ids"], ["cu_seqlens", "input_ids"], ["labels", "num_loss_tokens"], list(FIELDS), []):
        got = make_batch(step, form(fields=chosen), Buffers())
        assert_same(got, {k: whole[k] for k in FIELDS if k in chosen})


def test_only_the_fields_asked_for_take_memory():
    step = step_of_rows(random_rows(np.random.default_rng(3), 4, 32), 32)
    buffers = Buffers()
    batch = make_batch(step, form(fields=["input_ids", "segment_ids"]), buffers)
    assert buffers.allocated == sum(t.nbytes for t in batch.values()) == 4 * 32 * (8 + 4)


def test_capacity():
    rng = np.random.default_rng(4)
    rows = random_rows(rng, 8, 64)
    step = step_of_rows(rows, 64, index=17)
    cu = make_batch(step, form(), Buffers())["cu_seqlens"]
    for capacity in (len(cu), len(cu) + 1, 500):
        got = make_batch(step, form(capacity=capacity), Buffers())["cu_seqlens"]
        assert got.dtype == torch.int32 and len(got) == capacity
        assert torch.equal(got[: len(cu)], cu) and bool((got[len(cu) :] == 8 * 64).all())
    with pytest.raises(ValueError, match=rf"step 17 has {len(cu)} cu_seqlens.*cu_seqlens_capacity is {len(cu) - 1}"):
        make_batch(step, form(capacity=len(cu) - 1), Buffers())


@pytest.mark.parametrize(("segments", "length"), [(1, 64), (63, 64), (64, 128), (127, 128), (128, 256), (1000, 1024)])
def test_automatic_capacity_is_a_power_of_two(segments, length):
    step = step_of_rows([[[1]] * segments], segments)
    assert len(make_batch(step, form(capacity="auto"), Buffers())["cu_seqlens"]) == length


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"fields": ["input_ids", "attention_mask"]}, r"unknown fields \['attention_mask'\].*'input_ids', 'labels'"),
        ({"dtype": torch.float32}, "torch.float32.*torch.int64"),
        ({"labels": "causal"}, "'causal'.*unshifted.*shifted"),
        ({"capacity": 1}, "1.*2 or more"),
        ({"capacity": "large"}, "'large'"),
    ],
)
def test_wrong_forms(wrong, says):
    with pytest.raises(ValueError, match=says):
        form(**wrong)


def test_more_tokens_than_cu_seqlens_count():
    step = dataclasses.replace(step_of_rows([[[1]]], 1), rows=1 << 16, bucket=1 << 15)
    with pytest.raises(ValueError, match="int32"):
        make_batch(step, form(), Buffers())
