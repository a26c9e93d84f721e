"""Trains a tiny chat model on chats mixed with plain text: in chats only the assistant's turns have a loss, and each
document has its weight.

A killed training that is started again resumes at its checkpoint, with the same losses. A line has the mean loss and
the labels of each source, those of the step, and its loss.

    python examples/sft_documents.py tokenizer
    loaderd serve -c examples/sft.yaml
    python examples/sft_documents.py publish
    loaderd seal                                    # all documents are published: sources are read repeatedly, and the
    run has an end
    python examples/sft.py --checkpoint sft.pt      # a minute on one core
    torchrun --nproc-per-node 2 examples/sft.py --checkpoint sft.pt
"""

import argparse
import os
from itertools import islice

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from loaderd.torch import StepLoader
from loaderd.torch.losses import by_source
from sft_documents import UNSEEN, make_tokenizer, question
from train import GPT, save

FIELDS = [
    "input_ids",
    "labels",
    "position_ids",
    "segment_ids",
    "loss_weights",
    "num_loss_tokens_global",
    "sources",
    "num_sources",
]


@torch.no_grad()
def answer(gpt: GPT, word: str) -> tuple[str, list[float]]:
    """Returns the model's answer, with the likeliest token each time until it ends its turn; and the mean loss of the
    tokens of the prompt, and of the answer.
    """
    tokenizer = make_tokenizer()
    prompt = tokenizer.apply_chat_template(question(word), add_generation_prompt=True, return_dict=False)
    ids, end = list(prompt), tokenizer.convert_tokens_to_ids("<|end|>")
    for _ in range(16):
        chat = torch.tensor([ids])
        logits = gpt.logits(chat, torch.arange(len(ids))[None], torch.ones_like(chat))[0]
        ids.append(int(logits[-1].argmax()))
        if ids[-1] == end:
            break
    losses = cross_entropy(logits, torch.tensor(ids[1:]), reduction="none").split(
        [len(prompt) - 1, len(ids) - len(prompt)]
    )
    return tokenizer.decode(ids[len(prompt) :]), [part.mean().item() for part in losses]


flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
flags.add_argument("--url", default="grpc://127.0.0.1:8815", help="address of the daemon")
flags.add_argument("--steps", type=int, default=10_000, help="train until this step, or to the end of the run")
flags.add_argument("--checkpoint", help="file to save to and to resume from")
flags.add_argument("--save-every", type=int, default=50, metavar="STEPS")
args = flags.parse_args()

# torchrun sets RANK.
dist.init_process_group(
    "gloo", **({} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1})
)
first, world = dist.get_rank() == 0, dist.get_world_size()
torch.manual_seed(0)
with StepLoader(args.url, labels="shifted", fields=FIELDS) as loader:
    gpt = GPT(loader.info.vocab_size, max(loader.buckets), width=64, layers=2, heads=4)
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=3e-3)
    if args.checkpoint and os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, weights_only=True)
        gpt.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        if first:
            print(f"resumed at step {loader.step}", flush=True)
    model = DistributedDataParallel(gpt)

    def keep() -> None:
        if args.checkpoint and first:
            save(
                args.checkpoint,
                {"model": gpt.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()},
            )
            loader.commit()  # only now: documents of earlier steps may be released

    for batch in islice(loader, max(0, args.steps - loader.step)):
        # Prompts have labels of -100 and therefore losses of 0. The other losses are weighted, and divided by the
        # labels on all ranks. The plan has this number, so ranks need no communication for it. DDP takes the mean over
        # ranks: multiplied by their number it is the sum.
        losses = model(
            batch["input_ids"], batch["position_ids"], batch["segment_ids"], batch["labels"], reduction="none"
        )
        loss = (losses * batch["loss_weights"].flatten()).sum() * world / max(batch["num_loss_tokens_global"], 1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, (100 / loader.step) ** 0.5)
        optimizer.step()
        optimizer.zero_grad()
        sums = by_source(losses, batch, len(loader.sources))  # sum and number of unweighted losses per source
        dist.all_reduce(loss := loss.detach() / world)
        dist.all_reduce(sums)
        if first:
            means = " ".join(
                f"{name} {total / max(n, 1):.3f} of {n:.0f}"
                for name, total, n in zip(loader.sources, *sums.tolist(), strict=False)
            )
            print(
                f"step {loader.step} {means} labels {batch['num_loss_tokens_global']} loss {loss.item():.7f}",
                flush=True,
            )
        if loader.step % args.save_every == 0:
            keep()
    keep()
    if first:
        for word in UNSEEN:
            said, (of_prompt, of_answer) = answer(gpt, word)
            print(
                f"backwards: {word} -> {said}  (mean loss per token: {of_answer:.3f} in the answer, {of_prompt:.3f} in "
                "the prompt, not trained on)"
            )
dist.destroy_process_group()
