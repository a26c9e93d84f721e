"""A plain loop, alone or under torchrun. torch.distributed.checkpoint saves the loader with model and optimizer.

Restore with any number of ranks that divides the rows of a step.

    python examples/plain_loop.py
    torchrun --nproc-per-node 2 examples/plain_loop.py --checkpoints run
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

from loaderd.torch import StepLoader
from train import GPT, loss_of


class Training:
    """Model and optimizer in a form that is independent of their sharding."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = model, optimizer

    def state_dict(self) -> dict[str, object]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state: dict[str, object]) -> None:
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
flags.add_argument("--url", default="grpc://127.0.0.1:8815")
flags.add_argument("--checkpoints", default="run", help="folder")
flags.add_argument("--steps", type=int, default=1000)
flags.add_argument("--save-every", type=int, default=100)
args = flags.parse_args()

alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}  # torchrun sets RANK
dist.init_process_group("gloo", **alone)
torch.manual_seed(0)
with StepLoader(args.url, labels="shifted") as loader:
    model = DistributedDataParallel(GPT(loader.info.vocab_size, max(loader.buckets), width=64, layers=1, heads=2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    state = {"training": Training(model, optimizer), "loader": loader}
    if complete := sorted(file.parent for file in Path(args.checkpoints).glob("*/.metadata")):
        dcp.load(state, checkpoint_id=complete[-1])
    for batch in loader:
        loss = loss_of(model, batch) * dist.get_world_size() / max(batch["num_loss_tokens_global"], 1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(loss := loss.detach(), op=dist.ReduceOp.SUM)
        if dist.get_rank() == 0:
            print(f"step {loader.step} loss {loss.item() / dist.get_world_size():.7f}", flush=True)
        if loader.step % args.save_every == 0:
            dcp.save(state, checkpoint_id=f"{args.checkpoints}/{loader.step:08d}")
            if dist.get_rank() == 0:
                loader.commit()  # the checkpoint is complete on every rank
        if loader.step >= args.steps:
            break
dist.destroy_process_group()
