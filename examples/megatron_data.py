"""The data of a Megatron pretrain script: the dicts that get_batch of pretrain_gpt.py requires, and a state stored with
Megatron's checkpoints.

A step of the run is one micro-batch of all data-parallel ranks: its only row length is --seq-length, its rows are
--micro-batch-size times those ranks.

    from megatron_data import provider  # examples/megatron_data.py, in pretrain_gpt.py in place of
    train_valid_test_datasets_provider
    LOADERD_URL=grpc://127.0.0.1:8815 torchrun ... pretrain_gpt.py --dataloader-type external --dataloader-save FOLDER
    ...
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from megatron.core import parallel_state

from loaderd.torch import StepLoader
from loaderd.torch.masks import dense_mask


class Rows(Iterator[dict[str, torch.Tensor]]):
    """Context-parallel ranks and the first and last pipeline stage have one data-parallel rank, so each reads the same
    rows. Of the tensor-parallel ranks only the first reads: Megatron broadcasts its data.
    """

    def __init__(self, url: str, *, packed: bool = False) -> None:
        """`packed`: concatenated rows with cu_seqlens, for attention of the format thd; else a mask, True where a token
        must not attend.
        """
        rank, world = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size()
        self.loader = StepLoader(url, rank=rank, world_size=world, labels="shifted")
        self.packed = packed
        self.saved: int | None = None

    def __next__(self) -> dict[str, torch.Tensor]:
        rows = next(self.loader)
        batch = {
            "tokens": rows["input_ids"],
            "labels": rows["labels"].clamp(min=0),
            "loss_mask": (rows["labels"] >= 0).float(),
            "position_ids": rows["position_ids"],
        }
        if not self.packed:
            return batch | {"attention_mask": ~dense_mask(rows["segment_ids"])}
        packed = {name: tensor.view(1, -1) for name, tensor in (batch | {"cu_seqlens": rows["cu_seqlens"]}).items()}
        return packed | {"max_seqlen": torch.tensor([rows["max_seqlen"]], dtype=torch.int32)}

    def save_state(self) -> dict[str, Any]:
        """Returns the state when Megatron saves. The previous checkpoint is on disk by then, so it is committed."""
        if self.saved is not None and self.loader.rank == 0:
            self.loader.commit(self.saved)
        self.saved = self.loader.step
        return self.loader.state_dict()

    def restore(self, folder: Path, iteration: int) -> None:
        """Restores the state, which is the same on all ranks: that of rank 0 serves any number of them."""
        [file] = folder.glob(f"iter_{iteration:07d}/mp_rank_00*/train_dataloader_dprank000.pt")
        self.loader.load_state_dict(torch.load(file)["dataloader_state_dict"])


def provider(train_val_test_num_samples: list[int], vp_stage: int | None = None) -> tuple[Rows | None, None, None]:
    """The train_valid_test_datasets_provider of a pretrain script. pretrain() has loaded the model before, and set
    args.iteration.
    """
    from megatron.training import get_args

    args = get_args()
    if parallel_state.get_tensor_model_parallel_rank() != 0:
        return None, None, None
    rows = Rows(os.environ["LOADERD_URL"])
    if args.iteration:
        rows.restore(Path(args.dataloader_save), args.iteration)
    return rows, None, None


provider.is_distributed = True  # every rank calls it
