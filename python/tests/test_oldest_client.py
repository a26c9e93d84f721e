"""The oldest client that docs/compatibility.md promises reads today's daemon: oldest/ holds its wheel as it was."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import loaderd
from loaderd import Client, serve

[OLDEST] = (Path(__file__).parent / "oldest").glob("*.whl")
OPEN = {"flight.insecure": True}  # the oldest client looks for no token
TODAY = Path(__file__).resolve().parents[1] / "src"

READ = """
import hashlib, json, sys
where, url, rank, world, torch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "torch"
sys.path.insert(0, where)
import loaderd
assert loaderd.__file__.startswith(where), loaderd.__file__
digests = []
if torch:
    from loaderd.torch import StepLoader
    with StepLoader(url, rank=rank, world=world, labels="shifted") as loader:
        for batch in loader:
            tensors = [batch[k] for k in ("input_ids", "segment_ids", "position_ids", "labels")]
            digests.append(hashlib.sha256(b"".join(t.contiguous().numpy().tobytes() for t in tensors)).hexdigest())
else:
    with loaderd.Client(url, rank=rank, world=world) as client:
        for step in client:
            digests.append(hashlib.sha256(step.input_ids.tobytes() + step.segment_ids().tobytes() + step.position_ids().tobytes()).hexdigest())
        assert client.commit(len(digests)) == len(digests)
        assert client.info().planned == len(digests)
print(json.dumps(digests))
"""


LEAVE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from loaderd.torch import StepLoader
with StepLoader(sys.argv[2]) as loader:
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    print(json.dumps(loader.state_dict()))
"""

GO_ON = """
import json, sys
sys.path.insert(0, sys.argv[1])
from loaderd.torch import StepLoader
with StepLoader(sys.argv[2]) as loader:
    loader.load_state_dict(json.loads(sys.argv[3]))
    print(json.dumps([batch["input_ids"].tolist() for batch in loader]))
"""


PUBLISH = """
import sys
sys.path.insert(0, sys.argv[1])
import loaderd
assert loaderd.__file__.startswith(sys.argv[1]), loaderd.__file__
documents = []
for n in range(120):
    documents += [f"Document {n}", {"text": f"of {n}", "id": f"t{n}", "path": f"a/{n}", "domain": "d", "meta": {"n": n}}, [5, 6, n % 250], {"ids": [9, n % 250], "id": f"i{n}"}]
done = loaderd.publish(documents, sys.argv[2], source="web", name="input", tokenizer=sys.argv[3])
print(done.documents)
"""


def script(text: str, *arguments: object) -> str:
    return subprocess.run([sys.executable, "-I", "-c", text, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout


def test_a_training_that_it_began_goes_on(loaderd_program: None) -> None:
    texts = [f"Document {n} is about {'things ' * (n % 9 + 1)}" for n in range(100)]
    with loaderd.serve(texts, settings={"steps.rows": 4, "packing.buckets": 64, "serve.release": "keep", **OPEN}) as url:
        state = script(LEAVE, OLDEST, url)
        with loaderd.Client(url, step=3) as client:
            want = [step.input_ids.tolist() for step in client]
        assert len(want) > 1 and json.loads(script(GO_ON, TODAY, url, state)) == want


def read(where: Path, url: str, rank: int, world: int, how: str) -> list[str]:
    digests: list[str] = json.loads(script(READ, where, url, rank, world, how))
    return digests


@pytest.mark.parametrize("how", ["numpy", "torch"])
def test_it_reads_what_todays_reads(loaderd_program: None, how: str) -> None:
    texts = [f"Document {n} is about {'things ' * (n % 9 + 1)}" for n in range(300)]
    with loaderd.serve(texts, settings={"steps.rows": 4, "packing.buckets": [64, 128], "serve.release": "keep", **OPEN}) as url:
        for rank in range(2):
            have = read(OLDEST, url, rank, 2, how)
            assert len(have) > 3
            assert have == read(TODAY, url, rank, 2, how)


def test_what_it_publishes_is_read_as_what_todays_publishes(loaderd_program: None, loaderd: Path) -> None:  # noqa: F811
    """Text, documents with all that one could have, and token ids: the same rows. What it has published, today's does not publish again."""
    rows = []
    fingerprint = subprocess.check_output([loaderd, "tokenize", "--tokenizer", "gpt2", "--fingerprint"], text=True).strip()
    for producers in ((OLDEST, TODAY), (TODAY,)):
        settings = {"steps.rows": 4, "packing.buckets": 64, "documents.meta": {"n": "int64"}}
        with serve(seal=False, tokenizer="gpt2", settings=settings) as url:
            assert [int(script(PUBLISH, where, url.nats, fingerprint)) for where in producers] == [480, 0][: len(producers)]
            with Client(url, columns=["n"]) as client:
                client.seal()
                rows.append([(step.input_ids.tolist(), step.segment_ids().tolist(), step.values("n")) for step in client])
    assert rows[0] == rows[1] and len(rows[0]) > 3


@pytest.fixture
def loaderd_program(loaderd: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("LOADERD_BIN", str(loaderd))
