"""torchtitan on a loaderd run: a dataloader and a checkpointer in a custom configuration, which torchtitan finds by its
name.

The daemon's run has one row length, training.seq_len. A step has local_batch_size times the data-parallel ranks as
rows; its ids fit the model.

    # examples/torchtitan_llama3.py
    PYTHONPATH=examples torchrun --nproc-per-node 2 -m torchtitan.train --module torchtitan_llama3 --config debugmodel
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.models.llama3.config_registry import llama3_debugmodel
from torchtitan.trainer import Trainer

from loaderd.torch import StepLoader


class Rows(BaseDataLoader):
    """Yields one step of the run per batch.

    The attention mask of torchtitan (flex, varlen) begins a document where positions begin at 0.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        url: str = "grpc://127.0.0.1:8815"

    def __init__(
        self, config: Config, *, dp_world_size: int, dp_rank: int, seq_len: int, local_batch_size: int, **_: Any
    ) -> None:
        fields = ["input_ids", "position_ids", "labels"]
        self.loader = StepLoader(config.url, rank=dp_rank, world_size=dp_world_size, labels="shifted", fields=fields)
        shapes = [(self.loader.rows(bucket), bucket) for bucket in self.loader.buckets]
        if shapes != [(local_batch_size, seq_len)]:
            raise ValueError(
                f"the run has batches of {shapes} for each of {dp_world_size} ranks, torchtitan expects "
                f"({local_batch_size}, {seq_len})"
            )

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        for batch in self.loader:
            yield {"input": batch["input_ids"], "positions": batch["position_ids"]}, batch["labels"]

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()  # the same on every rank, so any number of ranks can resume from it

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.loader.load_state_dict(state_dict)


class Checkpoints(CheckpointManager):
    """Commits to loaderd once a checkpoint is on disk.

    It requires checkpoint.async_mode disabled: an asynchronous one is not on disk yet when save returns.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(CheckpointManager.Config):
        pass

    def __init__(self, config: Config, *, dataloader: Rows, **given: Any) -> None:
        super().__init__(config, dataloader=dataloader, **given)
        self.rows = dataloader

    def save(self, curr_step: int, last_step: bool = False) -> bool:
        saved = super().save(curr_step, last_step)
        if saved and dist.get_rank() == 0:
            self.rows.loader.commit()
        return saved


def debugmodel() -> Trainer.Config:
    config = llama3_debugmodel()
    config.dataloader = Rows.Config()
    config.checkpoint = Checkpoints.Config(enable=True, interval=100, last_save_model_only=False)
    config.validator.enable = False
    return config
