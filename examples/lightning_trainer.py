"""The loader as the train_dataloader of Lightning, which saves and restores its state with its own checkpoints.

Usage:

    python examples/lightning_trainer.py --folder run --devices 2
"""

import argparse
import os

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

import loaderd
from loaderd.torch import StepLoader
from train import GPT, loss_of


class Pretraining(L.LightningModule):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        with loaderd.Client(url) as client:
            info = client.info()
        self.gpt = GPT(info.vocab_size, max(info.buckets), width=64, layers=1, heads=2)

    def train_dataloader(self) -> StepLoader:
        """Returns the loader. Lightning calls this when its processes are connected, so every one gets its own rows."""
        self.loader = StepLoader(self.url, labels="shifted")
        return self.loader

    def training_step(self, batch: dict[str, torch.Tensor], index: int) -> torch.Tensor:
        loss = loss_of(self.gpt, batch) * self.trainer.world_size / max(batch["num_loss_tokens_global"], 1)
        mean = self.trainer.strategy.reduce(loss.detach(), reduce_op="mean")
        if self.trainer.is_global_zero:
            print(f"step {self.trainer.global_step + 1} loss {mean.item():.7f}", flush=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.gpt.parameters(), lr=1e-3)


class CommitWhatIsSaved(TorchCheckpointIO):
    """Commits to loaderd once a checkpoint is on disk. Lightning calls it on its first process."""

    def __init__(self, module: Pretraining) -> None:
        self.module = module

    def save_checkpoint(self, checkpoint: dict[str, object], path: str, storage_options: object = None) -> None:
        super().save_checkpoint(checkpoint, path, storage_options)
        self.module.loader.commit()


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--url", default="grpc://127.0.0.1:8815")
    flags.add_argument("--folder", required=True, help="folder of the checkpoints")
    flags.add_argument("--devices", type=int, default=1)
    flags.add_argument("--steps", type=int, default=1000)
    flags.add_argument("--save-every", type=int, default=100)
    args = flags.parse_args()
    L.seed_everything(0, verbose=False)
    module = Pretraining(args.url)
    saving = ModelCheckpoint(
        args.folder, filename="last", every_n_train_steps=args.save_every, enable_version_counter=False
    )
    trainer = L.Trainer(
        max_steps=args.steps,
        # Required: otherwise Lightning prefetches a batch, and saves a state that is one step too far.
        limit_train_batches=args.steps,
        accelerator="cpu",
        devices=args.devices,
        strategy="ddp" if args.devices > 1 else "auto",
        plugins=[CommitWhatIsSaved(module)],
        callbacks=[saving],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    last = os.path.join(args.folder, "last.ckpt")
    trainer.fit(module, ckpt_path=last if os.path.exists(last) else None)
    module.loader.close()


if __name__ == "__main__":
    main()
