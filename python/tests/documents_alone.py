"""Checks that documents packed by a recipe train as if each were alone: python documents_alone.py
jax|mlx|torchtitan|megatron URL. Exits with 0 or an AssertionError."""

import itertools
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import loaderd


def pieces(step: loaderd.Step) -> list[np.ndarray]:
    """Returns the tokens of every segment that has a label."""
    rows = zip(step.input_ids, step.cu_seqlens, strict=True)
    found = [ids[a:b] for ids, ends in rows for a, b in itertools.pairwise(ends) if b - a > 1]
    assert len(found) > step.rows  # else no row has several segments to isolate
    return found


def fullest(url: str) -> tuple[loaderd.Step, loaderd.RunInfo]:
    """Returns the step with the most documents."""
    with loaderd.Client(url) as client:
        return max(client, key=lambda step: step.step_segments), client.info()


def with_jax(url: str) -> None:
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import jax_mesh
    from loaderd.jax import StepLoader

    assert "torch" not in sys.modules and jax.device_count() == 4
    step, info = fullest(url)
    # Larger weights make attention matter.
    weights = jax.tree.map(lambda x: 4 * x, jax_mesh.init(info.vocab_size, max(info.buckets)))
    with StepLoader(url, NamedSharding(Mesh(jax.devices(), "data"), PartitionSpec("data"))) as loader:
        batch = next(batch for batch in loader if loader.step == step.index + 1)
    assert {x.shape for x in batch.values()} == {(8, step.bucket)}
    assert all(
        len(x.addressable_shards) == 4 and x.addressable_shards[0].data.shape == (2, step.bucket)
        for x in batch.values()
    )
    total, labels = 0.0, 0
    for ids in pieces(step):
        alone = {
            "input_ids": ids,
            "labels": np.append(ids[1:], -100),
            "position_ids": np.arange(len(ids)),
            "segment_ids": np.ones(len(ids)),
        }
        total += float(jax_mesh.loss_of(weights, {k: v[None].astype(np.int32) for k, v in alone.items()})) * (
            len(ids) - 1
        )
        labels += len(ids) - 1
    assert labels == step.step_tokens - step.step_segments
    np.testing.assert_allclose(float(jax.jit(jax_mesh.loss_of)(weights, batch)), total / labels, rtol=1e-5)


def with_mlx(url: str) -> None:
    """Runs the snippet of the page for one step, with an attention layer as model."""
    import mlx.core as mx
    from mlx import nn
    from mlx.nn.losses import cross_entropy

    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "trainers" / "mlx.md").read_text()
    [snippet] = re.findall("```python\n(import loaderd.*?)```", page, re.S)
    step, info = fullest(url)
    embedding, three = nn.Embedding(info.vocab_size, 16), nn.Linear(16, 48)
    embedding.weight *= 4  # larger weights make attention matter

    def model(ids: mx.array, mask: mx.array) -> mx.array:
        q, k, v = (x[:, None] for x in mx.split(three(embedding(ids)), 3, axis=-1))
        return embedding.as_linear(mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0, mask=mask)[:, 0])

    names = {
        "place": {"step": step.index, "steps": 1, "run_id": info.run_id, "fingerprint": info.fingerprint},
        "model": model,
    }
    exec(compile(snippet.replace("grpc://127.0.0.1:8815", url), "mlx.md", "exec"), names)
    total, labels = 0.0, 0
    for ids in pieces(step):
        one, n = mx.array(ids)[None], len(ids) - 1
        total += cross_entropy(model(one[:, :-1], mx.tri(n, dtype=mx.bool_)[None, None]), one[:, 1:]).sum().item()
        labels += n
    np.testing.assert_allclose(names["loss"].item(), total / labels, rtol=1e-5)


def with_torchtitan(url: str) -> None:
    """Checks that torchtitan's mask from the positions equals that of the segments; also its interface to save and
    restore."""
    import torch
    from torch.nn.attention.flex_attention import and_masks, create_mask
    from torchtitan.models.common.attention import get_causal_mask_mod, get_document_mask_mod

    from loaderd.torch.masks import dense_mask
    from torchtitan_llama3 import Rows

    with loaderd.Client(url) as client:
        steps = list(client)
    assert any((step.segment_ids() == 0).any() for step in steps)  # the last ones have padding
    given = {
        "dp_world_size": 1,
        "dp_rank": 0,
        "seq_len": 64,
        "local_batch_size": 4,
        "tokenizer": None,
        "snapshot_every_n_steps": None,
    }
    for step, (inputs, labels) in zip(steps, Rows.Config(url=url).build(**given), strict=True):
        rule = and_masks(get_document_mask_mod(inputs["positions"]), get_causal_mask_mod())
        segments = torch.tensor(step.segment_ids().astype(np.int32))
        assert torch.equal(create_mask(rule, 4, None, 64, 64, device="cpu"), dense_mask(segments))
        assert (
            inputs["input"].tolist() == step.input_ids.tolist() and labels.tolist() == step.labels("shifted").tolist()
        )
    loader = Rows.Config(url=url).build(**given)
    batches = iter(loader)
    next(batches)
    state, (following, _) = loader.state_dict(), next(batches)
    loader.loader.close()  # one reader per rank
    again = Rows.Config(url=url).build(**given)
    again.load_state_dict(state)
    assert torch.equal(next(iter(again))[0]["input"], following["input"])


def with_megatron(url: str) -> None:
    import torch
    import torch.distributed as dist
    from megatron.core import parallel_state
    from megatron.core.utils import get_batch_on_this_cp_rank, get_thd_batch_on_this_cp_rank

    from megatron_data import Rows
    from megatron_loop import small

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    step, info = fullest(url)
    batch = next(itertools.islice(Rows(url), step.index, None))
    assert set(batch) == {"tokens", "labels", "loss_mask", "position_ids", "attention_mask"}
    model = small(info.vocab_size, max(info.buckets))
    packed = (
        model(batch["tokens"], batch["position_ids"], batch["attention_mask"], labels=batch["labels"])
        * batch["loss_mask"]
    )
    total = torch.zeros(())
    for ids in pieces(step):
        one, n = torch.tensor(ids).long()[None], len(ids)
        later = torch.ones(1, 1, n - 1, n - 1, dtype=torch.bool).triu(1)
        total += model(one[:, :-1], torch.arange(n - 1)[None], later, labels=one[:, 1:]).sum()
    torch.testing.assert_close(packed.sum(), total)

    # Context parallelism: each of two ranks takes its quarters of the same rows.
    halves = [
        get_batch_on_this_cp_rank(dict(batch), SimpleNamespace(size=lambda: 2, rank=lambda r=r: r)) for r in range(2)
    ]
    for name, whole in batch.items():
        dim = 2 if name == "attention_mask" else 1
        (a, d), (b, c) = (half[name].chunk(2, dim) for half in halves)
        assert torch.equal(torch.cat([a, b, c, d], dim), whole), name

    # The format thd: the same tokens in one row, with the borders of documents.
    laid = next(itertools.islice(Rows(url, packed=True), step.index, None))
    rows = {name: laid[name] for name in ("tokens", "labels", "loss_mask", "position_ids")}
    assert all(torch.equal(rows[name], batch[name].view(1, -1)) for name in rows)
    ends = laid["cu_seqlens"]
    assert ends.shape[0] == 1 and ends.dtype == laid["max_seqlen"].dtype == torch.int32  # as Megatron broadcasts them
    _, told = get_thd_batch_on_this_cp_rank(rows, ends[0], ends[0], laid["max_seqlen"], cp_size=1, cp_rank=0)
    assert told.qkv_format == "thd" and told.cu_seqlens_q.tolist() == step.boundaries().tolist()
    assert told.max_seqlen_q == max(np.diff(step.boundaries()))


{"jax": with_jax, "mlx": with_mlx, "torchtitan": with_torchtitan, "megatron": with_megatron}[sys.argv[1]](sys.argv[2])
