"""Trains a small GPT from a live stream, on one CPU or GPU, or on many under torchrun.

A killed training that is started again resumes at its checkpoint.

    loaderd serve --set packing.buckets=256,512 --set steps.tokens=2048
    loaderd publish corpus/*.jsonl
    python examples/train.py --checkpoint run.pt
    torchrun --nproc-per-node 2 examples/train.py --checkpoint run.pt
"""

import argparse
import os
from contextlib import nullcontext
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from loaderd.torch import StepLoader
from loaderd.torch.masks import dense_mask


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        qkv = self.qkv(self.before_attention(x)).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in qkv)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.apply(self.begin)

    @staticmethod
    def begin(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def logits(self, input_ids: Tensor, position_ids: Tensor, segment_ids: Tensor) -> Tensor:
        mask = dense_mask(segment_ids)  # no token sees another document
        x = self.tokens(input_ids) + self.positions(position_ids)  # positions restart in every document
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.tokens.weight.T

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, segment_ids: Tensor, labels: Tensor, reduction: str = "sum"
    ) -> Tensor:
        """Returns the sum of the losses of all tokens that have a label, or with "none" the loss of every token, 0
        without a label.
        """
        logits = self.logits(input_ids, position_ids, segment_ids)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction=reduction)


LOGITS = 1024
"""Tokens whose logits are in memory at once, at least those of a row: with a vocabulary of 50,257 a copy of them takes
200 MB.
"""


def backward(model: DistributedDataParallel, batch: dict[str, Any]) -> Tensor:
    """Adds the gradients of a step, a few rows at a time, and returns the loss of every token."""
    rows = max(1, LOGITS // batch["input_ids"].shape[1])
    parts = list(
        zip(*(batch[k].split(rows) for k in ("input_ids", "position_ids", "segment_ids", "labels")), strict=True)
    )
    losses = []
    for number, part in enumerate(parts, 1):
        with nullcontext() if number == len(parts) else model.no_sync():  # ranks add their gradients once
            loss = model(*part, reduction="none")
            (loss.sum() * dist.get_world_size() / max(batch["num_loss_tokens_global"], 1)).backward()
        losses.append(loss.detach())
    return torch.cat(losses)


def save(path: str, state: dict[str, object]) -> None:
    """Writes a checkpoint so that a crash leaves either the old one or the new one."""
    with open(f"{path}.new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--url", default="grpc://127.0.0.1:8815", help="address of the daemon")
    flags.add_argument("--steps", type=int, default=1000, help="train until this step, or the end of a sealed stream")
    flags.add_argument("--checkpoint", help="file to save to and to resume from")
    flags.add_argument("--save-every", type=int, default=100, metavar="STEPS")
    flags.add_argument("--width", type=int, default=128)
    flags.add_argument("--layers", type=int, default=2)
    flags.add_argument("--heads", type=int, default=4)
    flags.add_argument("--lr", type=float, default=1e-3)
    flags.add_argument("--compile", action="store_true", help="compile once for each row length, before the first step")
    args = flags.parse_args()

    distributed = "RANK" in os.environ  # torchrun sets it
    if distributed:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    world = dist.get_world_size() if distributed else 1
    first = not distributed or dist.get_rank() == 0
    local = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if torch.cuda.is_available():
        torch.cuda.set_device(device)
    torch.manual_seed(0)

    with StepLoader(args.url, device=device, labels="shifted") as loader:
        gpt = GPT(loader.info.vocab_size, max(loader.buckets), args.width, args.layers, args.heads).to(device)
        optimizer = torch.optim.AdamW(gpt.parameters(), lr=args.lr)
        if args.checkpoint and os.path.exists(args.checkpoint):
            state = torch.load(args.checkpoint, map_location=device, weights_only=True)
            gpt.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            loader.load_state_dict(state["loader"])
            if first:
                print(f"resumed at step {loader.step}", flush=True)
        model = DistributedDataParallel(gpt) if distributed else gpt
        if args.compile:
            model = torch.compile(model, dynamic=False)
            for bucket in loader.buckets:  # one shape each, so that no compilation interrupts the run
                with model.no_sync() if distributed else nullcontext():
                    loss_of(model, loader.get_mock_batch(bucket)).backward()
            optimizer.zero_grad()

        def keep() -> None:
            """Saves the training state. Every rank has the same model, and the same state of the loader."""
            if args.checkpoint and first:
                parts = {"model": gpt, "optimizer": optimizer, "loader": loader}
                save(args.checkpoint, {name: part.state_dict() for name, part in parts.items()})
                loader.commit()  # only now: documents of earlier steps may be released

        for batch in islice(loader, max(0, args.steps - loader.step)):
            # DDP takes the mean over ranks: multiplied by their number it is the sum. Every label of the step counts
            # the same.
            count = batch["num_loss_tokens_global"]
            loss = loss_of(model, batch) * world / max(count, 1)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if distributed:
                dist.all_reduce(loss := loss.detach() / world)
            if first:
                rows, length = batch["input_ids"].shape
                shape = f"rows {rows * world} x {length} labels {count}"
                print(f"step {loader.step} {shape} loss {loss.item():.7f}", flush=True)
            if loader.step % args.save_every == 0:
                keep()
        keep()
    if distributed:
        dist.destroy_process_group()


def loss_of(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return model(batch["input_ids"], batch["position_ids"], batch["segment_ids"], batch["labels"])


if __name__ == "__main__":
    main()
