"""StepLoader with documents: a private daemon, and a publisher in the background."""

import gc
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import redirect_stderr
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import sentencepiece
import torch
from torch.utils.data import DataLoader

import loaderd
from jobs import ROOT
from loaderd.torch import StepLoader
from loaderd.torch._document_run import paths_of, python_terms
from test_serving import SOURCES, running
from trained_tokenizers import sentencepiece_model
from waiting import wait_for

SMALL = {"steps.rows": 2, "packing.buckets": [64], "packing.pool": 64, "packing.holdback": 0, "shuffle.window": 4}
TEXTS = [f"Document {n} is about {'things ' * (n % 7 + 1)}" for n in range(300)]
SLOW = {**SMALL, "serve.first_step_quiet": "300ms"}


@pytest.fixture(autouse=True)
def program(loaderd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADERD_BIN", str(loaderd))


def ids(loader: StepLoader) -> list[torch.Tensor]:
    return [batch["input_ids"].clone() for batch in loader]


def folder_of(loader: StepLoader) -> Path:
    assert loader._documents is not None and loader._documents.handle is not None
    return loader._documents.handle.folder


def test_StepLoader_TextsAndFilesBecomeBatchesAndNothingStays(tmp_path: Path) -> None:
    for n in range(2):
        lines = (json.dumps({"text": text}) + "\n" for text in TEXTS[150 * n : 150 * (n + 1)])
        (tmp_path / f"{n}.jsonl").write_text("".join(lines))
    with StepLoader(documents=TEXTS, tokenizer="gpt2", settings=SMALL) as loader:
        texts, folder = ids(loader), folder_of(loader)
    assert len(texts) > 5 and not running(folder) and not folder.exists()
    with StepLoader(documents=f"{tmp_path}/*.jsonl", tokenizer="gpt2", settings=SMALL) as loader:
        assert all(torch.equal(a, b) for a, b in zip(ids(loader), texts, strict=True))


def test_StepLoader_ProcessorOfSentencePiece() -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(model_type="unigram"))
    with StepLoader(documents=TEXTS[:50], tokenizer=processor, settings=SMALL) as loader:
        tokens = {token for batch in ids(loader) for token in batch.flatten().tolist()}
    assert tokens >= {token for text in TEXTS[:50] for token in processor.encode(text)}


class Hub(BaseHTTPRequestHandler):
    """The file API of the Hugging Face hub, for a data set of one file."""

    commit = "0" * 40
    body = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answers = {
            "/api/datasets/a/b/revision/main": json.dumps({"sha": self.commit}).encode(),
            f"/api/datasets/a/b/tree/{self.commit}": json.dumps(
                [{"type": "file", "path": "x.jsonl", "oid": "1", "size": len(self.body)}]
            ).encode(),
            f"/datasets/a/b/resolve/{self.commit}/x.jsonl": self.body,
        }
        answer = answers.get(path)
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Length", str(len(answer or b"")))
        self.end_headers()
        self.wfile.write(answer or b"")

    def log_message(self, *_: object) -> None:
        pass


def test_StepLoader_DataSetOfTheHub(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
        monkeypatch.setenv("HF_TOKEN", "")
        with StepLoader(documents="hf://datasets/a/b/*.jsonl", tokenizer="gpt2", settings=SMALL) as loader:
            found = ids(loader)
        hub.shutdown()
    with StepLoader(documents=TEXTS, tokenizer="gpt2", settings=SMALL) as loader:
        assert all(torch.equal(a, b) for a, b in zip(ids(loader), found, strict=True))


def test_StepLoader_LineOfTheReadme(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = re.findall(r"^    (loader = StepLoader\(documents=.*\))$", (ROOT / "README.md").read_text(), re.M)
    monkeypatch.chdir(ROOT)
    names = {"StepLoader": StepLoader}
    exec(line, names)
    with names["loader"] as loader:
        assert next(loader)["input_ids"].shape == (4, 2048)


def test_StepLoader_FolderResumesWithoutPublishingTwice(tmp_path: Path) -> None:
    given = {"documents": TEXTS, "settings": SMALL, "folder": tmp_path / "run"}
    with StepLoader(tokenizer="gpt2", **given) as loader:
        want = ids(loader)
    with StepLoader(tokenizer="gpt2", **given) as loader:
        next(loader)
        state = loader.state_dict()
    with StepLoader(tokenizer="gpt2", **given) as loader:
        loader.load_state_dict(state)
        assert all(torch.equal(a, b) for a, b in zip(ids(loader), want[1:], strict=True))
        assert loader.info.fingerprint == state["fingerprint"]
        with loaderd.Client(loader._documents.handle) as client:
            assert client.seal() == len(TEXTS)
    with (
        StepLoader(tokenizer="cl100k_base", **given) as loader,
        pytest.raises(loaderd.DaemonNotFoundError, match="tokenizer"),
    ):
        next(loader)


def test_StepLoader_ReadsWhileAnEndlessIterableIsPublished() -> None:
    def endless() -> Iterator[str]:
        for n in itertools.count():
            yield f"Document {n} of many"

    loader = StepLoader(documents=endless(), tokenizer="gpt2", settings=SMALL)
    assert next(loader)["input_ids"].shape == (2, 64)
    assert "publishing, step 1" in repr(loader) and "live page" in loader._repr_html_()
    folder = folder_of(loader)
    del loader
    gc.collect()
    wait_for(lambda: not running(folder) and not folder.exists())


def test_StepLoader_CloseEndsRetriesOfTheSeal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher that cannot seal, because the daemon has stopped, ends when the loader closes."""
    sealing = threading.Event()

    class Lost(loaderd.Client):
        def seal(self, source: str | None = None) -> int:
            assert loader._documents is not None
            loader._documents._daemon.close()
            sealing.set()
            return super().seal(source)

    monkeypatch.setattr("loaderd.torch._document_run.Client", Lost)
    with StepLoader(documents=TEXTS, tokenizer="gpt2", settings=SMALL) as loader:
        assert loader._documents is not None
        loader._documents.start()
        assert sealing.wait(60)
    wait_for(lambda: "loaderd-publish" not in {t.name for t in threading.enumerate()}, seconds=10)


def test_StepLoader_ErrorOfTheDocumentsReachesTheWaitingThread(tmp_path: Path) -> None:
    def broken() -> Iterator[str]:
        yield "text"
        time.sleep(1)
        raise OSError("the disk is gone")

    with StepLoader(documents=broken(), tokenizer="gpt2", settings=SMALL) as loader:
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                next(loader)
    (tmp_path / "x.jsonl").write_text('{"content": "text"}\n')
    with (
        StepLoader(documents=tmp_path / "x.jsonl", tokenizer="gpt2", settings=SMALL) as loader,
        pytest.raises(loaderd.PublishError, match=r'x\.jsonl.*publish=\{"text_column": \.\.\.\}'),
    ):
        next(loader)
    options = {"text_column": "content"}
    with StepLoader(documents=tmp_path / "x.jsonl", tokenizer="gpt2", settings=SMALL, publish=options) as loader:
        assert len(ids(loader)) == 1
    with (
        StepLoader(documents=tmp_path / "none.jsonl", tokenizer="gpt2", settings=SMALL) as loader,
        pytest.raises(loaderd.PublishError, match=r"none\.jsonl"),
    ):
        next(loader)


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from loaderd.torch import StepLoader
loader = StepLoader(documents=sys.argv[3], tokenizer="gpt2", folder=sys.argv[2])
loader.info
print("ready", flush=True)
time.sleep(float(sys.argv[4]))
"""


@pytest.mark.parametrize("killed", [True, False])
def test_StepLoader_ProcessesEndWithThisProcess(killed: bool, tmp_path: Path) -> None:
    """A pipe keeps the publisher waiting for documents."""
    pipe, folder = tmp_path / "pipe", tmp_path / "run"
    os.mkfifo(pipe)
    owner = subprocess.Popen(
        [sys.executable, "-c", KILLED, SOURCES, folder, pipe, "600" if killed else "0"], stdout=subprocess.PIPE
    )
    assert owner.stdout is not None and owner.stdout.readline() == b"ready\n"
    if killed:
        owner.send_signal(signal.SIGKILL)
    assert owner.wait(30) == (-signal.SIGKILL if killed else 0)
    wait_for(lambda: not running(folder) and not commands_with(str(pipe)))


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process inherits that it is ignored
sys.path.insert(0, sys.argv[1])
from loaderd.torch import StepLoader
with StepLoader(documents=sys.argv[3], tokenizer="gpt2", folder=sys.argv[2]) as loader:
    loader.info
    print("ready", flush=True)
    try:
        next(loader)  # waits for documents
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_StepLoader_InterruptEndsTheWaitAndTheProcesses(tmp_path: Path) -> None:
    """Ctrl-C on a terminal interrupts all processes of the job."""
    pipe, folder = tmp_path / "pipe", tmp_path / "run"
    os.mkfifo(pipe)
    owner = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, SOURCES, folder, pipe], stdout=subprocess.PIPE, start_new_session=True
    )
    assert owner.stdout is not None and owner.stdout.readline() == b"ready\n"
    time.sleep(1)  # the wait for the first step begins
    os.killpg(owner.pid, signal.SIGINT)
    assert owner.stdout.readline() == b"interrupted\n"
    assert owner.wait(30) == 0
    wait_for(lambda: not running(folder) and not commands_with(str(pipe)))


def commands_with(argument: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:
            continue
        if argument in words:
            found.append(" ".join(words))
    return found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "want either the address of a daemon"),
        ({"url": "grpc://127.0.0.1:1", "documents": TEXTS}, "want either the address of a daemon"),
        ({"url": "grpc://127.0.0.1:1", "tokenizer": "gpt2"}, "tokenizer= is for a private daemon"),
        ({"documents": TEXTS}, "requires tokenizer="),
        ({"documents": []}, "requires tokenizer="),
        ({"documents": [], "tokenizer": "gpt2"}, "documents is empty"),
    ],
)
def test_StepLoader_ContradictoryArgumentsAreRefused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        StepLoader(**given)  # type: ignore[arg-type]


def test_StepLoader_DocumentsOfSeveralRanksNameTheFix() -> None:
    with (
        StepLoader(documents=TEXTS, tokenizer="gpt2", rank=1, world_size=2) as loader,
        pytest.raises(ValueError, match=r"2 ranks.*loaderd\.serve.*broadcast.*token"),
    ):
        next(loader)


def test_StepLoader_SettingsAreNamedInTermsOfPython() -> None:
    with (
        StepLoader(documents=TEXTS, tokenizer="gpt2", settings={"steps.rowz": 8}) as loader,
        pytest.raises(loaderd.DaemonNotFoundError, match=r"steps\.rowz") as raised,
    ):
        next(loader)
    assert "--" not in str(raised.value)
    assert python_terms("rejected (--skip-invalid skips it)") == 'rejected (publish={"skip_invalid": ...} skips it)'


def test_StepLoader_DataLoaderThatMakesBatchesIsRefused() -> None:
    with StepLoader(documents=TEXTS, tokenizer="gpt2", settings=SMALL) as loader:
        for given in ({"batch_size": 8}, {}):
            with pytest.raises(TypeError, match="batch_size=None"):
                next(iter(DataLoader(loader, **given)))
        assert next(iter(DataLoader(loader, batch_size=None)))["input_ids"].shape == (2, 64)


def test_StepLoader_ProgressShowsStepsAndTheCauseOfAStall() -> None:
    def slow() -> Iterator[str]:
        yield from TEXTS
        wait_for(lambda: "documents" in out.getvalue())

    with redirect_stderr(io.StringIO()) as out:
        with StepLoader(documents=slow(), tokenizer="gpt2", settings=SLOW, progress=True) as loader:
            steps = len(ids(loader))
    assert f"{steps}step" in out.getvalue() and "tokens/s" in out.getvalue()


def test_StepLoader_StatusPrintsVerdictAndRanks() -> None:
    with StepLoader(documents=TEXTS, tokenizer="gpt2", settings=SMALL) as loader:
        next(loader)
        wait_for(lambda: "1 of 1 ranks" in str(loader.status()))
        status = loader.status()
        assert repr(status) == str(status) and str(status).startswith(status.sentence)
    assert repr(loader).count("closed") == 1


def test_Paths_FirstItemDecides(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    hub = "hf://datasets/a/b/*.parquet"
    for given in (hub, tmp_path, [hub], [tmp_path / "corpus", "b"], [str(tmp_path / "corpus")], ["x.jsonl.zst"]):
        assert paths_of(given) is not None, given
    for texts in (["some text", "x.jsonl"], ["See a.txt"], iter(TEXTS), [{"text": "x"}], [[1, 2]]):
        assert paths_of(texts) is None, texts
    with pytest.raises(TypeError, match="documents is a int"):
        paths_of(7)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        paths_of(f"{tmp_path}/*.jsonl")
