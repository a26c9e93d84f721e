"""Masks: a packed batch with a mask equals every document alone, in outputs, loss and gradients."""

import itertools
import random
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loaderd import Client, publish
from loaderd.torch import StepLoader
from loaderd.torch._batch import FIELDS, BatchFormat, make_batch
from loaderd.torch._buffers import Buffers
from loaderd.torch.masks import block_mask, dense_mask, document_mask_mod, varlen
from synthetic import random_masks, random_rows, random_weights, step_of_rows
from tokenized import TOKENIZER

try:
    from torch.nn.attention import flex_attention as flex
except ImportError:  # before torch 2.5
    flex = None

VOCABULARY, WIDTH, HEADS, LENGTH = 61, 32, 2, 48


class Model(nn.Module):
    """A decoder with learned positions; `attend(q, k, v)` takes and returns [rows, heads, L, size]."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        shapes = {
            "qkv": (WIDTH, 3 * WIDTH),
            "out": (WIDTH, WIDTH),
            "up": (WIDTH, 2 * WIDTH),
            "down": (2 * WIDTH, WIDTH),
        }
        self.blocks = nn.ModuleList(nn.ModuleDict({k: nn.Linear(*v) for k, v in shapes.items()}) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids: Tensor, position_ids: Tensor, attend) -> Tensor:
        x = self.tokens(input_ids) + self.positions(position_ids)
        for block in self.blocks:
            qkv = block["qkv"](F.layer_norm(x, (WIDTH,))).chunk(3, -1)
            q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in qkv)
            x = x + block["out"](attend(q, k, v).transpose(1, 2).flatten(2))
            x = x + block["down"](F.gelu(block["up"](F.layer_norm(x, (WIDTH,)))))
        return self.head(x)


def alone(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attend_dense(batch):
    mask = dense_mask(batch["segment_ids"])
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attend_varlen(batch):
    """Computes what the varlen kernels, which need a GPU, compute: segment by segment over the flattened tokens."""
    kernel = varlen(batch)
    assert kernel["causal"] and kernel["cu_seqlens_k"] is kernel["cu_seqlens_q"]
    assert kernel["max_seqlen_q"] == kernel["max_seqlen_k"] == int(kernel["cu_seqlens_q"].diff().max())

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows, heads, length, size = q.shape
        flat = [t.transpose(1, 2).reshape(rows * length, heads, size).transpose(0, 1) for t in (q, k, v)]
        bounds = itertools.pairwise(kernel["cu_seqlens_q"].tolist())
        parts = [alone(*(t[:, begin:end] for t in flat)) for begin, end in bounds if end > begin]
        return torch.cat(parts, 1).transpose(0, 1).reshape(rows, length, heads, size).transpose(1, 2)

    return attend


def attend_flex(batch):
    mask = block_mask(batch["segment_ids"], block_size=16)
    return lambda q, k, v: flex.flex_attention(q, k, v, block_mask=mask)


def pack(layout: list[list[int]], seed: int = 0, tail: int = 0) -> dict[str, object]:
    """Returns a batch as the loader yields it: rows of segments of these lengths, then padding. Built token by
    token."""
    draw = random.Random(seed)
    batch: dict[str, list] = {name: [] for name in ("input_ids", "labels", "shifted", "position_ids", "segment_ids")}
    ends = [0]
    for segments in layout:
        row: dict[str, list[int]] = {name: [] for name in batch}
        for number, n in enumerate([*segments, LENGTH - sum(segments)], 1):
            padding = number > len(segments)
            ids = [draw.randrange(1, VOCABULARY) for _ in range(n)]
            row["input_ids"] += [0] * n if padding else ids
            row["labels"] += [-100] * n if padding else [-100, *ids[1:]]
            row["shifted"] += [-100] * n if padding else [*ids[1:], -100]
            row["position_ids"] += range(n)
            row["segment_ids"] += [0 if padding else number] * n
            if n:
                ends.append(ends[-1] + n)
        for name, values in row.items():
            assert len(values) == LENGTH
            batch[name].append(values)
    out: dict[str, object] = {name: torch.tensor(values) for name, values in batch.items()}
    out["cu_seqlens"] = torch.tensor(ends + ends[-1:] * tail, dtype=torch.int32)
    out["max_seqlen"] = max(b - a for a, b in itertools.pairwise(ends))
    return out


LAYOUT = [[20, 28], [48], [], [1, 1, 1, 17, 9], [47], [1] * 48, [5, 40]]


def documents(batch) -> list[tuple[int, int, int]]:
    """Returns row, begin and end of every document in a batch."""
    found = []
    for r, row in enumerate(batch["segment_ids"].tolist()):
        at = 0
        for number, group in itertools.groupby(row):
            n = len(list(group))
            if number:
                found.append((r, at, at + n))
            at += n
    return found


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    return Model().double()


def gradients(model: Model, loss: Tensor) -> list[Tensor]:
    model.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in model.parameters()]


BACKWARD = [attend_dense, attend_varlen, *([attend_flex] if hasattr(flex, "_validate_device") else [])]


@pytest.fixture
def backward_on_cpu(monkeypatch):
    """Enables FlexAttention's gradients on a CPU. Torch refuses them because its compiled kernels have none; without
    compilation they exist."""
    if attend_flex in BACKWARD:
        monkeypatch.setattr(flex, "_validate_device", lambda *_: None)


@pytest.mark.parametrize("tail", [0, 5], ids=["", "fixed capacity"])
@pytest.mark.parametrize("attention", BACKWARD)
@pytest.mark.usefixtures("backward_on_cpu")
def test_packed_equals_each_document_alone(model, attention, tail):
    batch = pack(LAYOUT, tail=tail)
    logits = model(batch["input_ids"], batch["position_ids"], attention(batch))
    assert logits.isfinite().all()  # padding too
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten(), reduction="sum")
    shifted = F.cross_entropy(logits.flatten(0, 1), batch["shifted"].flatten(), reduction="sum")
    packed = gradients(model, loss)
    expected = torch.zeros((), dtype=torch.float64)
    for r, begin, end in documents(batch):
        ids = batch["input_ids"][r : r + 1, begin:end]
        out = model(ids, torch.arange(end - begin)[None], alone)
        torch.testing.assert_close(logits[r : r + 1, begin:end], out, rtol=1e-10, atol=1e-12)
        expected = expected + F.cross_entropy(out[0, :-1], ids[0, 1:], reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(shifted, expected, rtol=1e-12, atol=0)
    for got, want in zip(packed, gradients(model, expected), strict=True):
        assert got.isfinite().all()
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("labels", ["unshifted", "shifted"])
@pytest.mark.parametrize("attention", BACKWARD)
@pytest.mark.usefixtures("backward_on_cpu")
def test_masked_and_weighted_equals_each_document_alone(model, attention, labels):
    """Gradients of a packed step are those of every document alone, with the loss of its loss tokens, times its
    weight."""
    rng = np.random.default_rng(3)
    rows = random_rows(rng, 7, LENGTH, vocabulary=VOCABULARY)
    masks, weights = random_masks(rng, rows), random_weights(rng, rows)
    step = step_of_rows(rows, LENGTH, masks=masks, weights=weights, parts=2)
    batch = make_batch(step, BatchFormat.checked([*FIELDS, "loss_weights"], torch.int64, labels, None), Buffers())
    assert batch["num_loss_tokens"] == batch["num_loss_tokens_global"] > 50
    alone_too = zip(itertools.chain(*rows), itertools.chain(*masks), itertools.chain(*weights), strict=True)
    check_gradients(model, attention, labels, batch, alone_too)


def check_gradients(model, attention, labels, batch, documents):
    """Checks that loss and gradients of a batch are the sums of those of documents, each alone: (ids, which of them
    have a loss, weight)."""
    logits = model(batch["input_ids"], batch["position_ids"], attention(batch))
    targets, factors = batch["labels"], batch["loss_weights"].double()
    if labels == "unshifted":
        logits, targets, factors = logits[:, :-1], targets[:, 1:], factors[:, 1:]
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    assert int((losses != 0).sum()) == batch["num_loss_tokens"]
    packed = (losses * factors.flatten()).sum()
    got = gradients(model, packed)
    expected = torch.zeros((), dtype=torch.float64)
    for ids, mask, weight in documents:
        one = torch.tensor([ids])
        out = model(one, torch.arange(len(ids))[None], alone)
        each = F.cross_entropy(out[0, :-1], one[0, 1:], reduction="none")
        expected = expected + weight * each[torch.tensor(mask[1:], dtype=torch.bool)].sum()
    torch.testing.assert_close(packed, expected, rtol=1e-12, atol=0)
    for have, want in zip(got, gradients(model, expected), strict=True):
        torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("labels", ["unshifted", "shifted"])
@pytest.mark.parametrize("attention", BACKWARD)
@pytest.mark.usefixtures("backward_on_cpu")
def test_a_step_of_a_daemon_equals_each_document_alone(model, attention, labels, daemon):
    """The same for published, packed and read documents that no row splits, so that each is one segment."""
    rng, end = np.random.default_rng(5), VOCABULARY - 1
    d = daemon(
        {
            "tokenizer.name": "none",
            "tokenizer.fingerprint": TOKENIZER,
            "tokenizer.vocab_size": VOCABULARY,
            "tokenizer.end": end,
            "tokenizer.pad": 0,
            "packing.method": "bfd",
            "packing.buckets": LENGTH,
            "packing.pool": 64,
            "steps.rows": 4,
            "log.level": "warn",
        }
    )
    sent = {}
    for n in range(30):
        ids = [n + 1, *rng.integers(1, end, int(rng.integers(1, 30))).tolist()]  # the first one identifies the document
        sent[n + 1] = {
            "ids": ids,
            "loss": (rng.random(len(ids)) < 0.6).tolist(),
            "weight": float(rng.choice([0.25, 1, 2])),
        }
    publish(sent.values(), d.nats_url, source="web", tokenizer=TOKENIZER)
    with Client(d.flight_url) as client:
        client.seal()
    with StepLoader(d.flight_url, labels=labels, fields=[*FIELDS, "loss_weights"]) as loader:
        batch = next(loader)
    there = []
    for row, begin, finish in documents(batch):
        ids = batch["input_ids"][row, begin:finish].tolist()
        given = sent[ids[0]]
        assert ids == [*given["ids"], end]
        there.append((ids, [*given["loss"], given["loss"][-1]], given["weight"]))
    assert len(there) > 4
    check_gradients(model, attention, labels, batch, there)


FORWARD = [attend_dense, attend_varlen, *([attend_flex] if flex else [])]


@pytest.mark.parametrize("attention", FORWARD)
def test_every_attention_gives_the_same(model, attention):
    """Compares outputs of all attention implementations that the installed torch has."""
    batch = pack(LAYOUT, seed=1)
    with torch.no_grad():
        dense = model(batch["input_ids"], batch["position_ids"], attend_dense(batch))
        other = model(batch["input_ids"], batch["position_ids"], attention(batch))
        torch.testing.assert_close(other, dense, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("attention", FORWARD)
def test_no_document_sees_another(model, attention):
    """A changed text of one document changes every output of that document, and not a bit of any other's."""
    batch = pack([[20, 28], [], [1, 1, 1, 17, 9]])
    with torch.no_grad():
        before = model(batch["input_ids"], batch["position_ids"], attention(batch))
        for r, begin, end in documents(batch):
            changed = batch["input_ids"].clone()
            changed[r, begin:end] = VOCABULARY - changed[r, begin:end]
            moved = (model(changed, batch["position_ids"], attention(batch)) != before).any(-1)
            assert moved[r, begin:end].all()
            moved[r, begin:end] = False
            assert not moved.any()


def random_layout(draw: random.Random, rows: int, length: int) -> Tensor:
    out = torch.zeros(rows, length, dtype=torch.int32)
    for row in out:
        at = number = 0
        until = draw.choice([length, draw.randrange(length + 1)])
        while at < until:
            number += 1
            n = min(until - at, 1 + int(draw.expovariate(1 / draw.choice([1, 5, length / 2]))))
            row[at : at + n] = number
            at += n
    return out


def test_block_mask_is_the_one_that_torch_builds():
    if flex is None:
        with pytest.raises(ImportError, match=r"2.5"):
            block_mask(torch.ones(1, 8, dtype=torch.int32))
        return
    draw = random.Random(1)
    for _ in range(60):
        rows, length, size = draw.randrange(1, 4), draw.choice([1, 7, 32, 48, 65, 128]), draw.choice([1, 8, 16, 128])
        causal = draw.random() < 0.7
        ids = random_layout(draw, rows, length)
        mod = document_mask_mod(ids, causal=causal)
        ours = block_mask(ids, causal=causal, block_size=size)
        theirs = flex.create_block_mask(mod, rows, None, length, length, device="cpu", BLOCK_SIZE=size)
        assert ours.shape == theirs.shape and ours.BLOCK_SIZE == theirs.BLOCK_SIZE
        for name in itertools.product(("", "full_"), ("kv_", "q_"), ("num_blocks", "indices")):
            assert torch.equal(getattr(ours, "".join(name)), getattr(theirs, "".join(name))), name
        dense = dense_mask(ids, causal=causal)
        assert dense.shape == (rows, 1, length, length) and dense.dtype == torch.bool
        assert torch.equal(flex.create_mask(ours.mask_mod, rows, 1, length, length, device="cpu"), dense)


def test_dense_mask_is_the_definition():
    ids = random_layout(random.Random(2), 3, 20)
    for causal in (True, False):
        mask = dense_mask(ids, causal=causal)
        for r, q, kv in itertools.product(range(3), range(20), range(20)):
            assert mask[r, 0, q, kv] == (ids[r, q] == ids[r, kv] and (q >= kv or not causal))


def test_varlen_names_what_each_kernel_takes():
    batch = pack([[10, 30], []], tail=3)
    assert batch["cu_seqlens"].tolist() == [0, 10, 40, 48, 96, 96, 96, 96]
    assert set(varlen(batch)) == {"cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "causal"}
    assert varlen(batch)["max_seqlen_q"] == 48 and varlen(batch, max_seqlen=64)["max_seqlen_k"] == 64
    names = set(varlen(batch, names="transformers"))
    assert names == {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"}
    with pytest.raises(ValueError, match="flash_attn"):
        varlen(batch, names="flash")
    with pytest.raises(KeyError, match="cu_seqlens"):
        varlen({"max_seqlen": 1})


def test_varlen_fits_torch_kernels_of_every_age(monkeypatch):
    """Torch 2.10 has the argument is_causal, later versions use a window."""
    module = type(sys)("torch.nn.attention.varlen")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    batch = pack([[10, 30]])
    module.varlen_attn = lambda q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False: None
    assert varlen(batch, names="torch")["is_causal"] is True
    module.varlen_attn = lambda q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, window_size=(-1, -1): None
    assert varlen(batch, names="torch")["window_size"] == (-1, 0)
    assert varlen(batch, names="torch", causal=False)["window_size"] == (-1, -1)
    module.varlen_attn(*"qkv", **varlen(batch, names="torch"))


def test_block_mask_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.nn.attention.flex_attention", None)
    with pytest.raises(ImportError, match=r"torch 2\.\d+.* has no FlexAttention.*2\.5"):
        block_mask(torch.ones(1, 8, dtype=torch.int32))
