"""loaderd.serve: a private daemon for the duration of a block."""

import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import loaderd
import waiting
from loaderd._serve import find_program, flags

SMALL = {"steps.rows": 2, "packing": {"buckets": [64]}, "serve": {"retention": "keep"}}
TEXTS = [f"Document {n} is about {'things ' * (n % 7 + 1)}" for n in range(40)]
SOURCES = Path(__file__).resolve().parents[1] / "src"


@pytest.fixture(autouse=True)
def program(loaderd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADERD_BIN", str(loaderd))


def rows(url: str) -> list[NDArray[np.int32]]:
    with loaderd.Client(url) as client:
        return [step.input_ids.copy() for step in client]


def test_documents_become_steps_and_nothing_stays() -> None:
    with loaderd.serve(TEXTS, tokenizer="gpt2", settings=SMALL) as url:
        assert isinstance(url, str) and url.startswith("grpc://127.0.0.1:") and url.page.startswith("http://127.0.0.1:")
        first = rows(url)
        assert url.folder.is_dir()
    assert first and all(row.shape == (2, 64) for row in first)
    assert not url.folder.exists()
    with loaderd.serve(TEXTS, tokenizer="gpt2", settings=SMALL) as again:
        np.testing.assert_array_equal(rows(again), first)  # a run is a function of its configuration and documents


def test_Serve_WithoutABlockRunsUntilClosed() -> None:
    url = loaderd.serve(TEXTS, tokenizer="gpt2", settings=SMALL)
    assert rows(url) and running(url.folder)
    assert repr(url) == f"<loaderd daemon {url}, running, folder {url.folder}>"
    assert "live page</a>" in url._repr_html_()
    sent = pickle.loads(pickle.dumps(url))
    assert sent == url and sent.folder == url.folder and sent.state == "unknown"
    url.close()
    url.close()
    assert "stopped" in repr(url) and not url.folder.exists()
    with pytest.raises(RuntimeError, match=r"call loaderd\.serve again"), url:
        pytest.fail("it is served")


LEFT_OPEN = """
import sys
sys.path.insert(0, sys.argv[1])
import loaderd
print(loaderd.serve().folder)
"""


def test_Serve_WithoutABlockEndsWithTheInterpreter() -> None:
    out = subprocess.run([sys.executable, "-c", LEFT_OPEN, SOURCES], capture_output=True, text=True, check=True)
    assert out.stdout.startswith("/") and not Path(out.stdout.strip()).exists()


def test_a_run_that_stays_open_takes_more() -> None:
    with loaderd.serve(TEXTS[:20], settings=SMALL, seal=False) as url:
        loaderd.publish(TEXTS[20:], url.nats, source="more")
        with loaderd.Client(url) as client:
            assert client.seal() == len(TEXTS)
        assert sum(np.count_nonzero(x) for x in rows(url)) > 0


def test_a_folder_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with loaderd.serve(TEXTS, settings=SMALL, folder=folder) as url:
        first = rows(url)
    with loaderd.serve(TEXTS, settings=SMALL, folder=folder) as url:
        np.testing.assert_array_equal(rows(url), first)
        with loaderd.Client(url) as client:
            assert client.seal() == len(TEXTS)  # none was published again
    assert (folder / "daemon.log").is_file()


def test_a_tokenizer_of_another_library() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2, "<end>": 3}, [("a", "b")]))
    tokenizer.add_special_tokens(["<end>"])
    ids = {"ids": tokenizer.encode("abab").ids}
    with loaderd.serve(
        ["abba", ids], tokenizer=tokenizer, settings={**SMALL, "tokenizer.end": 3, "tokenizer.pad": 3}
    ) as url:
        [step] = rows(url)
    assert sorted(step[step != 3].tolist()) == [0, 1, 2, 2, 2]


def test_a_processor_of_sentencepiece(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    model = importlib.import_module("trained_tokenizers").sentencepiece_model(model_type="bpe", byte_fallback=True)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    path = tmp_path / "x.model"
    path.write_bytes(model)
    found = []
    for tokenizer in (processor, str(path)):
        with loaderd.serve(TEXTS, tokenizer=tokenizer, settings=SMALL) as url:
            found.append(rows(url))
    np.testing.assert_array_equal(*found)
    ids = processor.encode(TEXTS[0])
    ids_as_documents = [{"ids": ids}] * 3
    with loaderd.serve(ids_as_documents, tokenizer=processor, settings=SMALL, folder=tmp_path / "run") as url:
        [step] = rows(url)
    assert step[0, : len(ids)].tolist() == ids  # the processor's fingerprint is the run's
    with loaderd.serve(ids_as_documents, tokenizer=processor, settings=SMALL, folder=tmp_path / "run") as url:
        np.testing.assert_array_equal(rows(url), [step])


def test_settings_as_flags() -> None:
    given = {"a.b": True, "c": {"d": [1, 2], "e": {"f": "x"}}, "g": 0.5, "h": Path("/p"), "i": [{"j": True, "k": [3]}]}
    assert list(flags(given)) == [
        "--set",
        "a.b=true",
        "--set",
        "c.d=1,2",
        "--set",
        "c.e.f=x",
        "--set",
        "g=0.5",
        "--set",
        "h=/p",
        "--set",
        'i=[{"j": true, "k": [3]}]',
    ]
    with pytest.raises(ValueError, match=r"setting a\.b is None"):
        list(flags({"a": {"b": None}}))


@pytest.mark.parametrize("what", ["program", "setting", "tokenizer"])
def test_what_cannot_start_says_why(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    given: dict[str, object] = {
        "program": {"program": tmp_path / "nothing"},
        "setting": {"settings": {"steps.rowz": 8}},
        "tokenizer": {"tokenizer": 7},
    }[what]
    words = {"program": "cannot find the program", "setting": "steps.rowz", "tokenizer": "tokenizer is a int"}[what]
    with (
        pytest.raises((loaderd.DaemonNotFoundError, TypeError), match=words),
        loaderd.serve(TEXTS, folder=folder, **given),
    ):  # type: ignore[arg-type]
        pytest.fail("it is served")


def test_bad_documents_end_the_daemon(tmp_path: Path) -> None:
    with pytest.raises(loaderd.InvalidDocumentError), loaderd.serve([7], settings=SMALL, folder=tmp_path):  # type: ignore[list-item]
        pytest.fail("it is served")
    assert not running(tmp_path)


def test_an_end_of_its_own_is_told() -> None:
    with (
        pytest.raises(loaderd.DaemonNotFoundError, match="exited unexpectedly"),
        loaderd.serve(TEXTS, settings=SMALL) as url,
    ):
        os.kill(process_of(url.folder), signal.SIGKILL)
        waiting.wait_for(lambda: not running(url.folder))
    with pytest.raises(KeyError), loaderd.serve(TEXTS, settings=SMALL) as url:  # the block's own error has precedence
        os.kill(process_of(url.folder), signal.SIGKILL)
        raise KeyError


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
import loaderd
with loaderd.serve(["text"], folder=sys.argv[2]) as url:
    print(url, flush=True)
    time.sleep(600)
"""


def test_it_does_not_outlive_this_process(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", KILLED, SOURCES, tmp_path], stdout=subprocess.PIPE)
    assert owner.stdout is not None and owner.stdout.readline().startswith(b"grpc://")
    assert running(tmp_path)
    owner.kill()
    owner.wait()
    waiting.wait_for(lambda: not running(tmp_path))


FORKED = {
    "the owner is killed": """
with loaderd.serve(folder=sys.argv[2]):
    child.start()
    os.kill(os.getpid(), signal.SIGKILL)
""",
    "the block ends": """
with loaderd.serve(folder=sys.argv[2]):
    child.start()
assert child.is_alive()
""",
    "a child leaves the block": """
with (block := loaderd.serve(folder=sys.argv[2])) as url:
    if not (left := os.fork()):
        block.__exit__(None, None, None)
        os._exit(0)
    os.waitpid(left, 0)
    child.start()
    assert loaderd.Client(url).info().name == "default"
""",
}
PRELUDE = """
import multiprocessing, os, signal, sys
sys.path.insert(0, sys.argv[1])
import loaderd
child = multiprocessing.get_context("fork").Process(target=os.read, args=(int(sys.argv[3]), 1), daemon=True)
"""


@pytest.mark.parametrize("case", FORKED)
def test_Serve_DaemonStopsWhileAForkedChildLives(case: str, tmp_path: Path) -> None:
    """The child waits for a byte of the test. gRPC is not used before the fork."""
    read, write = os.pipe()
    owner = subprocess.run(
        [sys.executable, "-c", PRELUDE + FORKED[case], SOURCES, tmp_path, str(read)], pass_fds=[read]
    )
    assert owner.returncode == (-signal.SIGKILL if "killed" in case else 0)
    waiting.wait_for(lambda: not running(tmp_path))
    os.write(write, b"x")
    os.close(read)
    os.close(write)


CHILD_ENDS = """
import os, sys
sys.path.insert(0, sys.argv[1])
import loaderd
with loaderd.serve() as url:
    if not (child := os.fork()):
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    print(url.folder, (url.folder / "daemon.log").is_file())
"""


def test_Serve_ForkedChildKeepsTheFolderWhenItEnds() -> None:
    """The child leaves the block, and its interpreter exits as usual. gRPC is not used before the fork."""
    out = subprocess.run([sys.executable, "-c", CHILD_ENDS, SOURCES], capture_output=True, text=True, check=True)
    folder, kept = out.stdout.split()
    assert kept == "True" and not Path(folder).exists()


STUBBORN = """#!{python}
import json, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
addresses = {{"flight": "grpc://127.0.0.1:1", "http": "http://127.0.0.1:1", "nats": "nats://127.0.0.1:1"}}
print(json.dumps({{"msg": "ready", **addresses}}), flush=True)
while True:
    signal.pause()
"""


def test_Serve_DaemonThatDoesNotStopIsKilledAndNamed(tmp_path: Path) -> None:
    program = tmp_path / "loaderd"
    program.write_text(STUBBORN.format(python=sys.executable))
    program.chmod(0o755)
    with pytest.raises(loaderd.DaemonNotFoundError, match=r"did not stop within 0.1 seconds and was killed"):
        with loaderd.serve(program=program, stop_timeout=0.1):
            pass
    with (
        pytest.raises(KeyError),
        loaderd.serve(program=program, stop_timeout=0.1),
    ):  # the block's own error has precedence
        raise KeyError


def test_the_program_is_found_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LOADERD_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path / "none"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "none" / "python"))
    with pytest.raises(loaderd.DaemonNotFoundError, match=r"`make build`.* LOADERD_BIN.* `make dist`"):
        find_program()
    program = tmp_path / "loaderd"
    program.write_bytes(b"")
    program.chmod(0o755)
    assert find_program() == program


WITHOUT = """
import sys
sys.path.insert(0, sys.argv[1])
sys.modules["torch"] = None
import loaderd.torch
"""


def test_without_torch_the_error_says_what_to_install() -> None:
    out = subprocess.run([sys.executable, "-c", WITHOUT, SOURCES], capture_output=True, text=True)
    assert out.returncode == 1
    assert "pip install torch" in out.stderr and "whl/cpu" in out.stderr and "Traceback" in out.stderr


def process_of(folder: Path) -> int:
    said = json.loads((folder / "lock").read_text())
    return int(said["pid"])


def running(folder: Path) -> bool:
    """Reports whether the folder's daemon runs."""
    try:
        status = Path(f"/proc/{process_of(folder)}/stat").read_text()
    except (OSError, ValueError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
