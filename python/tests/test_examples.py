"""examples/train.py on a live stream: killed, resumed, on other ranks, to the end; and the documentation's snippets."""

import ast
import re

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.nn import functional as F

import loaderd
from jobs import BLOCK, EXAMPLES, ROOT, check_part, kill, losses, run, started
from loaderd.torch import StepLoader
from scale import everything
from tokenized import SETTINGS, documents, publish_tokens

STEADY = {**SETTINGS, "shuffle.window": 8, "packing.pool": 32, "steps.backlog": 2}
SMALL = ("--width", 32, "--layers", 1, "--heads", 2, "--lr", 0.01)


def learnable(n, seed):
    """Returns documents that use few of the vocabulary's ids, so that a model learns quickly."""
    return [tokens // 50 + 1 for tokens in documents(n, seed)]


@everything
def test_killed_training_equals_an_undisturbed_one(daemon, tmp_path):
    """Two ranks under torchrun on an open stream; killed; resumed when the stream continues; then one rank to its
    end."""
    world = 2
    d = daemon({**STEADY, "serve.stall_timeout": "30s", "serve.checkpoint_steps": 5})
    publish_tokens(d.nats_url, learnable(200, seed=1))
    args = ("--url", d.flight_url, *SMALL)
    saving = (*args, "--checkpoint", tmp_path / "run.pt", "--save-every", 5)
    with started("train.py", *saving, world=world) as job:
        killed = [next(job.stdout) for _ in range(12)]
        kill(job)  # in a later step, or while it waits for one: the stream has not ended
    publish_tokens(d.nats_url, learnable(100, seed=2))
    with loaderd.Client(d.flight_url) as client:
        client.seal()
        assert client.info().commits == {"trainer": client.info().committed}
        committed = client.info().committed
    resumed = run("train.py", *saving, "--steps", 25, world=world).splitlines(keepends=True)
    alone = run("train.py", *saving).splitlines(keepends=True)
    with loaderd.Client(d.flight_url) as client:
        assert client.info().committed == client.info().planned

    undisturbed = run("train.py", *args, world=world).splitlines(keepends=True)
    expected = losses("".join(undisturbed))
    assert list(expected) == list(range(1, len(expected) + 1)) and len(expected) > 27
    assert expected[len(expected)] < expected[1] - 1  # it learns
    assert {re.search("rows (.*) labels", line)[1] for line in undisturbed} == {"8 x 64", "8 x 128"}
    assert killed == undisturbed[:12]
    begin = int(resumed[0].removeprefix("resumed at step "))
    assert begin >= 10 and begin % 5 == 0 and begin - committed in (0, 5)  # killed between saving and committing
    assert resumed[1:] == undisturbed[begin:25]
    assert alone[0] == "resumed at step 25\n"
    got = losses("".join(alone))
    assert list(got) == list(expected)[25:]
    assert got == pytest.approx({k: expected[k] for k in got}, rel=1e-4)  # the order of additions differs


# A model, a decoder, a group of processes.
OF_THEIR_OWN = (
    "train.py",
    "jax_mesh.py",
    "postgres_documents.py",
    "kafka_documents.py",
)


def test_examples_are_short():
    """Every example is short, and its header states how to run it."""
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) < (200 if path.name in OF_THEIR_OWN else 140), path
        assert f"examples/{path.name}" in ast.get_docstring(ast.parse(text)), path


class Toy(nn.Module):
    """Replaces the user's model: tokens, positions and a mask to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(SETTINGS["tokenizer.vocab_size"], 16), nn.Embedding(128, 16)

    def forward(self, input_ids, position_ids, mask):
        x = (self.tokens(input_ids) + self.positions(position_ids))[:, None]
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)[:, 0] @ self.tokens.weight.T


@pytest.fixture
def names(module_daemon, tmp_path, monkeypatch):
    """The names that the snippets of the documentation assume, and a sealed run at their address."""
    d = module_daemon(STEADY)
    publish_tokens(d.nats_url, documents(60))
    with loaderd.Client(d.flight_url) as client:
        client.seal()
    monkeypatch.chdir(tmp_path)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = Toy()
    yield {"url": d.flight_url, "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}
    dist.destroy_process_group()


def test_compiled_once_for_each_row_length(names, monkeypatch):
    """After a mock batch of every shape no real batch makes torch recompile, as in train.py --compile."""
    monkeypatch.syspath_prepend(EXAMPLES)
    from train import GPT, loss_of

    compiled = CompileCounter()  # instead of the slow backend
    with StepLoader(names["url"], labels="shifted") as loader:
        gpt = GPT(loader.info.vocab_size, max(loader.buckets), width=8, layers=1, heads=1)
        model = torch.compile(gpt, dynamic=False, backend=compiled)
        for bucket in loader.buckets:
            loss_of(model, loader.get_mock_batch(bucket)).backward()
        assert compiled.frame_count == len(loader.buckets) == 2
        seen = {batch["input_ids"].shape for batch in loader if loss_of(model, batch).isfinite()}
    assert len(seen) == 2 and compiled.frame_count == 2


def execute(block, names, page):
    """Runs a snippet with the test's addresses and devices."""
    here = {"grpc://127.0.0.1:8815": names["url"], '"cuda", (8, 4)': '"cpu", (1, 1)', "% 1000": "% 2"}
    for theirs, ours in here.items():
        block = block.replace(theirs, ours)
    exec(compile(block, page, "exec"), names)


def test_pages_for_pytorch(names, capsys):
    """The pages of the loader: their snippets are parts of the examples, or run one after the other."""
    pages = [
        (ROOT / "docs" / "how-to" / name).read_text() for name in ("pytorch.md", "elastic-resume.md", "mixtures.md")
    ]
    for page, least in zip(pages, (10, 5), strict=False):
        table = page.split("## If it fails")[1].split("##")[0]
        errors = re.findall(r"`([A-Z]\w+)`(?=.*\|.*\|)", table)
        assert len(errors) >= least
        assert all(issubclass(getattr(loaderd, name), loaderd.LoaderdError) for name in errors)
    snippets = []
    for source, block in BLOCK.findall("".join(pages)):
        if source:
            check_part(source, block)
        else:
            snippets.append(block)
    assert len(snippets) == 5
    execute(snippets[0], names, "pytorch.md")
    end = names["loader"].step
    assert end > 4 and "saved" not in names
    for block in snippets:  # the first one now finds its checkpoint
        execute(block, names, "pytorch.md")
    assert names["saved"]["loader"]["step"] == end // 2 * 2
    assert names["windowed"].shape == names["documents"].shape and names["kernel"]["max_seqlen_q"] == names["length"]
    assert capsys.readouterr().out == "rank 0 of 1\n"


def test_readme(names, capsys):
    (block,) = [b for _, b in BLOCK.findall((ROOT / "README.md").read_text()) if "StepLoader" in b]
    assert len([line for line in block.splitlines() if line]) <= 12
    execute(block, names, "README.md")
    assert names["loader"].step > 4
