"""The loader inside a torch DataLoader or torchdata's StatefulDataLoader, for frameworks that require one.

Usage:

    python examples/dataloader.py
"""

import argparse

import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from loaderd.torch import StepLoader

flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
flags.add_argument("--url", default="grpc://127.0.0.1:8815")
flags.add_argument("--steps", type=int, default=6)
flags.add_argument("--state", default="loader.pt", help="file for the state after two thirds of the steps")
args = flags.parse_args()


def show(name: str, step: int, batch: dict[str, torch.Tensor]) -> None:
    print(f"{name} step {step} rows {tuple(batch['input_ids'].shape)} sum {batch['input_ids'].sum()}", flush=True)


with StepLoader(args.url) as loader:
    for step, batch in zip(range(args.steps), DataLoader(loader, batch_size=None, num_workers=0), strict=False):
        show("DataLoader", step, batch)

with StepLoader(args.url) as loader:
    batches = StatefulDataLoader(loader, batch_size=None, num_workers=0)
    for step, batch in zip(range(args.steps), batches, strict=False):
        show("StatefulDataLoader", step, batch)
        if step == args.steps * 2 // 3:
            torch.save(batches.state_dict(), args.state)

with StepLoader(args.url) as loader:
    batches = StatefulDataLoader(loader, batch_size=None, num_workers=0)
    batches.load_state_dict(torch.load(args.state))
    for batch in batches:
        show("restored", loader.step - 1, batch)
        if loader.step == args.steps:
            break
