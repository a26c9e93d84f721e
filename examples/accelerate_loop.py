"""A loop of one's own with Accelerate: model and optimizer are prepared, the loader is not.

    accelerate launch --num-processes 2 examples/accelerate_loop.py --folder run
"""

import argparse
import os

import torch
from accelerate import Accelerator
from train import GPT, loss_of

from loaderd.torch import StepLoader

flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
flags.add_argument("--url", default="grpc://127.0.0.1:8815")
flags.add_argument("--folder", required=True, help="where the checkpoint is")
flags.add_argument("--steps", type=int, default=1000)
flags.add_argument("--save-every", type=int, default=100)
args = flags.parse_args()

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
with StepLoader(args.url, labels="shifted", device=accelerator.device) as loader:
    gpt = GPT(loader.info.vocab_size, max(loader.buckets), width=64, layers=1, heads=2)
    model, optimizer = accelerator.prepare(gpt, torch.optim.AdamW(gpt.parameters(), lr=1e-3))
    accelerator.register_for_checkpointing(loader)
    if os.path.isdir(args.folder):
        accelerator.load_state(args.folder)
    for batch in loader:
        loss = loss_of(model, batch) * accelerator.num_processes / max(batch["num_loss_tokens_global"], 1)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        loss = accelerator.reduce(loss.detach(), "mean")
        accelerator.print(f"step {loader.step} loss {loss.item():.7f}", flush=True)
        if loader.step % args.save_every == 0:
            accelerator.save_state(args.folder)
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                loader.commit()
        if loader.step >= args.steps:
            break
accelerator.end_training()
