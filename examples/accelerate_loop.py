"""A training loop with Accelerate: model and optimizer are prepared, the loader is not.

Usage:

    accelerate launch --num-processes 2 examples/accelerate_loop.py --folder run
"""

import argparse
import os
import shutil
from pathlib import Path

import torch
from accelerate import Accelerator

from loaderd.torch import StepLoader
from train import GPT, loss_of

flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
flags.add_argument("--url", default="grpc://127.0.0.1:8815")
flags.add_argument("--folder", required=True, type=Path, help="folder of the checkpoints")
flags.add_argument("--steps", type=int, default=1000)
flags.add_argument("--save-every", type=int, default=100)
args = flags.parse_args()

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
with StepLoader(args.url, labels="shifted", device=accelerator.device) as loader:
    gpt = GPT(loader.info.vocab_size, max(loader.buckets), width=64, layers=1, heads=2)
    model, optimizer = accelerator.prepare(gpt, torch.optim.AdamW(gpt.parameters(), lr=1e-3))
    accelerator.register_for_checkpointing(loader)
    if saved := sorted(args.folder.glob("step-????????")):  # a folder is renamed when it is complete
        accelerator.load_state(str(saved[-1]))
    for batch in loader:
        loss = loss_of(model, batch) * accelerator.num_processes / max(batch["num_loss_tokens_global"], 1)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        loss = accelerator.reduce(loss.detach(), "mean")
        accelerator.print(f"step {loader.step} loss {loss.item():.7f}", flush=True)
        if loader.step % args.save_every == 0:
            whole = args.folder / f"step-{loader.step:08}"
            accelerator.save_state(f"{whole}.new")
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                os.replace(f"{whole}.new", whole)
                loader.commit()
                for old in set(args.folder.iterdir()) - {whole}:
                    shutil.rmtree(old)
        if loader.step >= args.steps:
            break
accelerator.end_training()
