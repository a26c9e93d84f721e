"""The loader in training loops of other libraries.

The same small model sees the same steps everywhere, so every loop has the same losses, also after a resume.
"""

import copy
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.nn import functional as F
from transformers import modeling_flash_attention_utils

import loaderd
from jobs import losses, run
from loaderd.torch import StepLoader
from loaderd.torch.masks import check_isolation, dense_mask, varlen
from scale import everything
from tokenized import SETTINGS, documents, publish_tokens

CLOSE = {"rel": 2e-5}  # the order of additions differs with the number of ranks


@pytest.fixture(scope="module")
def url(module_daemon):
    """A sealed run of more than ten steps of two row lengths."""
    d = module_daemon({**SETTINGS, "shuffle.window": 8, "packing.pool": 32, "steps.backlog": 2})
    publish_tokens(d.nats_url, documents(150))
    with loaderd.Client(d.flight_url) as client:
        client.seal()
    return d.flight_url


@pytest.fixture(scope="module")
def batch(url):
    """A batch with several documents in most of its rows."""
    with StepLoader(url) as loader:
        return next(batch for batch in loader if (batch["segment_ids"] > 1).any(1).sum() > 4)


SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
CONFIGS = {
    "llama": transformers.LlamaConfig(**SHAPE),
    "mistral": transformers.MistralConfig(**SHAPE, sliding_window=16),
    "qwen3": transformers.Qwen3Config(**SHAPE, head_dim=16),
    "gpt2": transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=2, n_positions=128, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    ),
}


def causal(name: str, implementation: str) -> Any:
    """Returns a small model with random weights and its default configuration, including a cache."""
    torch.manual_seed(0)
    config = copy.deepcopy(CONFIGS[name])
    config.vocab_size = SETTINGS["tokenizer.vocab_size"]
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation).double()


def committed(url: str) -> int:
    with loaderd.Client(url) as client:
        return client.info().committed


@pytest.fixture(scope="module")
def expected(url, tmp_path_factory):
    """Losses of examples/plain_loop.py: two ranks until step 6, one rank from the checkpoint of step 4 until step 8."""
    folder = tmp_path_factory.mktemp("plain")
    args = ("--url", url, "--checkpoints", folder, "--save-every", 4, "--steps")
    first = losses(run("plain_loop.py", *args, 6, world=2))
    assert committed(url) >= 4
    second = losses(run("plain_loop.py", *args, 8))
    assert list(first) == [1, 2, 3, 4, 5, 6] and list(second) == [5, 6, 7, 8]
    assert {k: first[k] for k in (5, 6)} == pytest.approx({k: second[k] for k in (5, 6)}, **CLOSE)
    return first | second


@everything
def test_lightning(url, expected, tmp_path):
    args = ("--url", url, "--folder", tmp_path, "--save-every", 4, "--steps")
    first = losses(run("lightning_trainer.py", *args, 6, "--devices", 2))
    assert first == pytest.approx({k: expected[k] for k in range(1, 7)}, **CLOSE)
    second = losses(run("lightning_trainer.py", *args, 12))
    assert list(second) == list(range(5, 13))
    assert {k: second[k] for k in range(5, 9)} == pytest.approx({k: expected[k] for k in range(5, 9)}, **CLOSE)
    assert committed(url) >= 12


@everything
def test_accelerate(url, expected, tmp_path):
    args = ("--url", url, "--folder", tmp_path / "checkpoint", "--save-every", 4, "--steps")
    first = losses(run("accelerate_loop.py", *args, 6))
    assert first == pytest.approx({k: expected[k] for k in range(1, 7)}, **CLOSE)
    second = losses(run("accelerate_loop.py", *args, 8, world=2))
    assert second == pytest.approx({k: expected[k] for k in range(5, 9)}, **CLOSE)


@everything
def test_hugging_face_trainer(url, tmp_path):
    """One rank to the end of the run, two ranks from its last complete checkpoint, of step 4: the same losses."""
    args = ("--url", url, "--folder", tmp_path, "--save-every", 4, "--steps")
    with loaderd.Client(url) as client:
        end = sum(1 for _ in client)
    output = run("huggingface_trainer.py", *args, 1000)
    assert output.count("'loss'") == end  # the Trainer ends with the run

    def history(step: int) -> list[float]:
        state = json.loads((tmp_path / f"checkpoint-{step}" / "trainer_state.json").read_text())
        assert state["stateful_callbacks"]["LoaderState"]["attributes"]["loader"]["step"] == step
        return [entry["loss"] for entry in state["log_history"] if "loss" in entry]

    last = end // 4 * 4
    whole = history(last)
    assert len(whole) == last >= 16 and committed(url) >= last
    for checkpoint in tmp_path.glob("checkpoint-*"):
        if checkpoint.name == "checkpoint-8":
            tear(checkpoint)
        elif checkpoint.name != "checkpoint-4":
            checkpoint.rename(tmp_path / f"of-one-rank-{checkpoint.name}")
    run("huggingface_trainer.py", *args, 8, world=2)
    assert history(8) == pytest.approx(whole[:8], **CLOSE)


def tear(checkpoint: Path) -> None:
    """Truncates a checkpoint as a crash of the machine during a write does: every file exists, but some are
    incomplete."""
    (checkpoint / "whole").unlink(missing_ok=True)
    model = checkpoint / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1000])


def test_data_loaders(url, tmp_path):
    """torch's DataLoader and torchdata's StatefulDataLoader, which restores at the very next step."""
    lines = [line.split() for line in run("dataloader.py", "--url", url, "--state", tmp_path / "state.pt").splitlines()]
    by_name = {name: [line[1:] for line in group] for name, group in itertools.groupby(lines, key=lambda line: line[0])}
    with StepLoader(url) as loader:
        ids = [batch["input_ids"] for _, batch in zip(range(6), loader, strict=False)]
    direct = [f"step {i} rows {tuple(x.shape)} sum {x.sum()}".split() for i, x in enumerate(ids)]
    assert by_name == {"DataLoader": direct, "StatefulDataLoader": direct, "restored": direct[5:]}


def gradients(model: Any, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def alone(model: Any, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the sum of the losses of every document alone, and its gradients."""
    total = torch.zeros((), dtype=torch.float64)
    for begin, end in itertools.pairwise(batch["cu_seqlens"].tolist()):
        row, at = divmod(begin, batch["input_ids"].shape[1])
        if batch["segment_ids"][row, at]:
            ids = batch["input_ids"][row : row + 1, at : at + end - begin]
            total = total + F.cross_entropy(model(ids, use_cache=False).logits[0, :-1], ids[0, 1:], reduction="sum")
    return total, gradients(model, total)


def check_alone(model: Any, batch: dict[str, Any], arguments: Mapping[str, Any]) -> None:
    """Checks that loss and gradients of a batch are those of its documents, each alone."""
    want, expected = alone(model, batch)
    logits = model(batch["input_ids"], position_ids=batch["position_ids"], **arguments).logits
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten(), reduction="sum")
    torch.testing.assert_close(loss, want, rtol=1e-6, atol=0)
    # Eager computes its softmax in float32.
    torch.testing.assert_close(gradients(model, loss), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", CONFIGS)
def test_HuggingFaceModels_PositionsWithoutCacheEqualDocumentsAlone(batch, name, implementation):
    model = causal(name, implementation)
    check_alone(model, batch, {"use_cache": False})
    check_isolation(lambda b: model(b["input_ids"], position_ids=b["position_ids"], use_cache=False).logits, batch)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "mistral"])
def test_HuggingFaceModels_DenseMaskEqualsDocumentsAlone(batch, name):
    """Also with the default cache. A window (mistral) is part of the mask, which a dense one replaces."""
    check_alone(causal(name, "sdpa"), batch, {"attention_mask": dense_mask(batch["segment_ids"])})


MISTAKES = {
    "a cache": ("sdpa", lambda batch: {}),
    "a cache, eager": ("eager", lambda batch: {}),
    "a mask of ones": (
        "sdpa",
        lambda batch: {"use_cache": False, "attention_mask": torch.ones_like(batch["input_ids"])},
    ),
    "a boolean mask, eager": ("eager", lambda batch: {"attention_mask": dense_mask(batch["segment_ids"])}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_CheckIsolation_RefusesDocumentsThatSeeAnother(batch, mistake):
    implementation, arguments = MISTAKES[mistake]
    model = causal("llama", implementation)
    with pytest.raises(ValueError, match=r"depends on another segment of its row.*use_cache=False"):
        check_isolation(lambda b: model(b["input_ids"], position_ids=b["position_ids"], **arguments(b)).logits, batch)
    with pytest.raises(AssertionError, match=r"Tensor-likes are not|Scalars are not"):
        check_alone(model, batch, arguments(batch))


def test_CheckIsolation_RefusesWhatCannotBeCompared(batch):
    one = {
        "input_ids": batch["input_ids"],
        "position_ids": torch.arange(batch["input_ids"].shape[1]).expand_as(batch["input_ids"]),
    }
    with pytest.raises(ValueError, match="no row of the batch has two segments"):
        check_isolation(lambda b: b["input_ids"], one)
    with pytest.raises(ValueError, match="does not depend on input_ids"):
        check_isolation(lambda _: torch.ones(*batch["input_ids"].shape, 3), batch)


def test_hugging_face_models_take_the_arguments_of_varlen_kernels(batch, monkeypatch):
    """Runs the path of flash_attention_2 through transformers; the kernel, which needs a GPU, is replaced by its
    definition."""
    calls = []

    def flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False
    ):
        assert causal and max_seqlen_q == max_seqlen_k == batch["max_seqlen"] and cu_seqlens_k is cu_seqlens_q
        calls.append(len(cu_seqlens_q))
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        parts = [
            F.scaled_dot_product_attention(q[:, a:b], k[:, a:b], v[:, a:b], is_causal=True, scale=softmax_scale)
            for a, b in itertools.pairwise(cu_seqlens_q.tolist())
        ]
        return torch.cat(parts, 1).transpose(0, 1)

    kernels = (None, flash_attn_varlen_func, None, None, None)
    monkeypatch.setattr(modeling_flash_attention_utils, "_loaded_implementation", None)
    monkeypatch.setattr(modeling_flash_attention_utils, "_lazy_imports", lambda *_, **__: kernels)
    model = causal("llama", "sdpa")
    want = alone(model, batch)
    model.config._attn_implementation = "flash_attention_2"
    got = model(batch["input_ids"], position_ids=batch["position_ids"], **varlen(batch, names="transformers")).logits
    loss = F.cross_entropy(got[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten(), reduction="sum")
    torch.testing.assert_close((loss, gradients(model, loss)), want, rtol=1e-8, atol=1e-10)
    assert len(calls) == 2  # layers
