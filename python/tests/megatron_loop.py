"""A small GPT of Megatron-Core on CPUs, with the data of examples/megatron_data.py: data-parallel, saved in
Megatron's layout, resumed."""

import argparse
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.rerun_state_machine import RerunDataIterator
from megatron.core.transformer import TransformerConfig

import loaderd
from megatron_data import Rows, provider

torch.cuda.current_device = lambda: "cpu"  # the device on which attention allocates its scores
tensor_parallel.get_cuda_rng_tracker = lambda: SimpleNamespace(fork=nullcontext)  # no dropout is used


def small(vocabulary: int, longest: int) -> GPTModel:
    torch.manual_seed(0)
    shape = {"num_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "attention_dropout": 0, "hidden_dropout": 0}
    return GPTModel(
        TransformerConfig(**shape, use_cpu_initialization=True), get_gpt_layer_local_spec(), vocabulary, longest
    )


def provided(url: str, save: Path, iteration: int) -> Rows:
    """Returns what the provider passes to pretrain() after it has loaded the model of an iteration; its module is
    not on PyPI."""
    args = SimpleNamespace(iteration=iteration, dataloader_save=str(save))
    sys.modules["megatron.training"] = SimpleNamespace(get_args=lambda: args)
    os.environ["LOADERD_URL"] = url
    rows, validation, test = provider([0, 0, 0])
    assert validation is None and test is None and provider.is_distributed
    return rows


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("--url", required=True)
    flags.add_argument("--save", type=Path, required=True)
    flags.add_argument("--steps", type=int, required=True)
    flags.add_argument("--save-every", type=int, required=True)
    args = flags.parse_args()

    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel()
    with loaderd.Client(args.url) as client:
        info = client.info()
    model = small(info.vocab_size, max(info.buckets))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saved = 0
    if whole := sorted(args.save.glob("iter_*/whole")):
        saved = int(whole[-1].parent.name[5:])
        state = torch.load(whole[-1].parent / "model.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    rows = provided(args.url, args.save, saved)
    iterator = RerunDataIterator(rows)  # as Megatron wraps it
    for iteration in range(saved + 1, args.steps + 1):
        batch = next(iterator)
        losses = model(batch["tokens"], batch["position_ids"], batch["attention_mask"], labels=batch["labels"])
        sums = torch.stack([(losses * batch["loss_mask"]).sum(), batch["loss_mask"].sum()])
        dist.all_reduce(total := sums.detach().clone())
        (sums[0] / total[1]).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {iteration} loss {(total[0] / total[1]).item():.7f}", flush=True)
            if iteration % args.save_every == 0:
                save(args.save / f"iter_{iteration:07d}", rows, model, optimizer)


def save(folder: Path, rows: Rows, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    (folder / "mp_rank_00").mkdir(parents=True, exist_ok=True)
    torch.save({"dataloader_state_dict": rows.save_state()}, folder / "mp_rank_00" / "train_dataloader_dprank000.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "model.pt")
    os.sync()
    (folder / "whole").touch()


if __name__ == "__main__":
    main()
