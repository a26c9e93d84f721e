"""The loader as the train dataloader of the Hugging Face Trainer.

Steps are not sharded again, and a resume does not skip what the loader has skipped.

    torchrun --nproc-per-node 2 examples/huggingface_trainer.py --folder run
"""

import argparse
import json
import os
from pathlib import Path

from accelerate import PartialState
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import set_seed

from loaderd.torch import StepLoader


class LoaderState(TrainerCallback, ExportableState):
    """Stores the loader's state in every checkpoint's trainer_state.json, and commits when it is written."""

    def __init__(self, loader: StepLoader) -> None:
        self.loader = loader

    def state(self) -> dict[str, object]:
        return {"args": {}, "attributes": {"loader": self.loader.state_dict()}}

    def on_save(self, args, state, control, **kwargs) -> None:
        os.sync()  # this rank's files are on disk,
        PartialState().wait_for_everyone()  # and those of the other ranks
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / "whole").touch()
            os.sync()
            self.loader.commit()

    def restore(self, checkpoint: Path) -> None:
        state = json.loads((checkpoint / "trainer_state.json").read_text())
        self.loader.load_state_dict(state["stateful_callbacks"]["LoaderState"]["attributes"]["loader"])


def last_whole(folder: str) -> Path | None:
    """Returns the newest checkpoint that on_save has marked.

    The Trainer names a folder before it writes the content.
    """
    found = (mark.parent for mark in Path(folder).glob("checkpoint-*/whole"))
    return max(found, key=lambda path: int(path.name.removeprefix("checkpoint-")), default=None)


class StreamTrainer(Trainer):
    def __init__(self, loader: StepLoader, **kwargs) -> None:
        super().__init__(**kwargs)
        self.loader = loader

    def get_train_dataloader(self) -> StepLoader:
        return self.loader  # not a DataLoader, so Accelerate does not wrap it: no dispatch, no second sharding


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--url", default="grpc://127.0.0.1:8815")
    flags.add_argument("--folder", required=True, help="folder of the checkpoints")
    flags.add_argument("--steps", type=int, default=1000)
    flags.add_argument("--save-every", type=int, default=100)
    args = flags.parse_args()
    arguments = TrainingArguments(
        output_dir=args.folder,
        max_steps=args.steps,
        save_steps=args.save_every,
        ignore_data_skip=True,  # the loader resumes at its own position
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    set_seed(0)
    # Without an attention_mask and without a cache the model derives from position_ids which tokens belong together.
    with StepLoader(args.url, fields=["input_ids", "labels", "position_ids"]) as loader:
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=loader.info.vocab_size, use_cache=False, **shape))
        loader_state = LoaderState(loader)
        trainer = StreamTrainer(loader, model=model, args=arguments, callbacks=[loader_state])
        if checkpoint := last_whole(args.folder):
            loader_state.restore(checkpoint)
        trainer.train(resume_from_checkpoint=checkpoint)


if __name__ == "__main__":
    main()
