r"""Trains from several sources whose weights follow the losses.

A source that lags behind its reference gets more of the tokens.

As in DoReMi (Xie et al. 2023) weights move by exponentiated gradient on the excess loss, the loss above that of a
reference model. Without a reference the loss itself counts, as in online data mixing. The changes are records of the
run's plan. A killed training that is started again resumes with the same weights and the same batches.

    loaderd serve --set sources.code.weight=1 --set sources.web.weight=1 --set serve.ahead=8 \
        --set packing.buckets=256,512 --set steps.tokens=2048
    loaderd publish --source code repositories/ ; loaderd publish --source web crawl/*.jsonl
    python examples/online_mixing.py --checkpoint run.pt --reference code=1.9 --reference web=3.2
    torchrun --nproc-per-node 2 examples/online_mixing.py --checkpoint run.pt
"""

import argparse
import os
from itertools import islice

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import loaderd
from loaderd.torch import StepLoader
from loaderd.torch.losses import by_source
from train import GPT, backward, save

flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
flags.add_argument("--url", default="grpc://127.0.0.1:8815")
flags.add_argument("--steps", type=int, default=1000)
flags.add_argument("--checkpoint", help="file to save to and to resume from")
flags.add_argument("--save-every", type=int, default=100, metavar="STEPS")
flags.add_argument("--mix-every", type=int, default=50, metavar="STEPS")
flags.add_argument("--rate", type=float, default=0.5, help="rate at which weights follow the excess loss")
flags.add_argument(
    "--least",
    type=float,
    default=0.05,
    help="part of the tokens to divide equally among the sources, regardless of their losses",
)
flags.add_argument("--reference", action="append", default=[], metavar="SOURCE=LOSS")
args = flags.parse_args()
alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}  # torchrun sets RANK
dist.init_process_group("gloo", **alone)
first = dist.get_rank() == 0
torch.manual_seed(0)
with StepLoader(args.url, labels="shifted") as loader:
    names = sorted(loader.info.configuration["sources"])  # in the order of their numbers
    given = dict(pair.split("=") for pair in args.reference)
    reference = torch.tensor([float(given.get(name, 0)) for name in names], dtype=torch.float64)
    shares = torch.tensor(
        [float(loader.info.configuration["sources"][name]["weight"]) for name in names], dtype=torch.float64
    )
    seen = torch.zeros(2, len(names), dtype=torch.float64)  # sum and number of losses per source since the last change
    gpt = GPT(loader.info.vocab_size, max(loader.buckets), width=32, layers=1, heads=2)
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=1e-2)
    if args.checkpoint and os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, weights_only=True)
        gpt.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        shares, seen = state["shares"], state["seen"]  # they belong to the step of the checkpoint, as the model does
        if first:
            print(f"resumed at step {loader.step}", flush=True)
    model = DistributedDataParallel(gpt)
    for batch in islice(loader, max(0, args.steps - loader.step)):
        losses = backward(model, batch)
        optimizer.step()
        optimizer.zero_grad()
        sums = by_source(losses, batch, len(names))
        dist.all_reduce(sums)
        seen += sums
        if first:
            mean = sums[0].sum() / sums[1].sum().clamp(min=1)
            print(f"step {loader.step} tokens {[int(n) for n in sums[1]]} loss {mean.item():.7f}", flush=True)
        if loader.step % args.mix_every == 0:
            excess = torch.where(seen[1] > 0, seen[0] / seen[1].clamp(min=1) - reference, 0).clamp(min=0)
            moved = shares * torch.exp(args.rate * excess)
            wanted = (1 - args.least) * moved / moved.sum() + args.least / len(names)
            seen.zero_()
            try:
                if first:
                    change = loader.set_mixture(dict(zip(names, wanted.tolist(), strict=True)), once=True)
                    shares = torch.tensor([change.target[name] for name in names], dtype=torch.float64)
                    told = " ".join(f"{name}={share!r}" for name, share in zip(names, shares.tolist(), strict=True))
                    print(
                        f"mix {loader.step} from step {change.step} on: {told}{' (again)' if change.again else ''}",
                        flush=True,
                    )
            except loaderd.InvalidTicketError as error:  # the plan has ended: its remaining steps are fixed
                print(f"mix {loader.step} refused: {error}", flush=True)
            dist.broadcast(shares, 0)
        if args.checkpoint and loader.step % args.save_every == 0 and first:
            parts = {"model": gpt.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
            save(args.checkpoint, parts | {"shares": shares, "seen": seen})
            loader.commit()  # only now: documents of earlier steps may be released
dist.destroy_process_group()
