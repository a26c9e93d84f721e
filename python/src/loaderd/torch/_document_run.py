"""The private run of a loader with documents: a daemon, and a publisher in the background."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loaderd._client import Client
from loaderd._serve import DaemonHandle, DaemonNotFoundError, DaemonProcess, start_child, stop_child
from loaderd.producer._errors import PublishError

if TYPE_CHECKING:
    from loaderd.producer._message import Document
    from loaderd.producer._pipeline import SendPipeline
    from loaderd.torch._options import RankOptions

log = logging.getLogger("loaderd")

SOURCE = "documents"
_LOG = "publish.log"
_ADDRESS = re.compile(r"[a-z][a-z0-9]*://\S+")
_FILE = re.compile(
    r"\S+\.(jsonl|ndjson|json|csv|tsv|parquet|arrow|feather|txt|md|warc|wet|mds|npy|tar)(\.(gz|zst|bz2|xz))?"
)
_NOT_DECODED = 3  # exit status of `loaderd publish`: all is committed, the run could not decode some documents
_STOP_SECONDS = 5.0

Input = str | os.PathLike[str] | Iterable["Document"] | Sequence[str | os.PathLike[str]]
"""A path, pattern or address, a list of them, or an iterable of documents."""


class DocumentRun:
    """Starts a daemon on first use, publishes the documents in the background, and seals the run after the last one.

    Attributes:
        ranks: What determines the rank of this process, which must be the only one.
        error: Why publishing failed; None so far.
        on_error: Called in the publisher's thread when `error` is set.
    """

    def __init__(
        self,
        documents: Input,
        tokenizer: object,
        folder: str | os.PathLike[str] | None,
        settings: Mapping[str, object],
        options: Mapping[str, Any],
    ) -> None:
        self._documents: Any = documents
        self._paths = paths_of(documents)
        self._tokenizer, self._options = tokenizer, options
        self._daemon = DaemonProcess(tokenizer, folder, settings)
        self._handle: DaemonHandle | None = None
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._pipeline: SendPipeline | None = None
        self._client: Client | None = None
        self.ranks: RankOptions | None = None
        self.error: Exception | None = None
        self.on_error: Callable[[], None] = lambda: None

    @property
    def handle(self) -> DaemonHandle | None:
        """The daemon's address; None before the first use."""
        return self._handle

    @property
    def state(self) -> str:
        """The state in a word or two."""
        if self._handle is None or self._stopping:
            return "closed" if self._stopping else "not started"
        if self.error is not None:
            return "publishing failed"
        return "publishing" if self._thread is not None and self._thread.is_alive() else "all documents published"

    def start(self) -> DaemonHandle:
        """Returns the daemon's address. The first call starts the daemon and the publisher.

        Raises:
            DaemonNotFoundError: If the daemon cannot be started, such as over a folder with another tokenizer.
            PublishError: If publishing failed.
            ValueError: If the job has several ranks.
        """
        with self._lock:
            if self._handle is None:
                self._check_ranks()
                try:
                    handle = self._daemon.start()
                except DaemonNotFoundError as error:
                    raise DaemonNotFoundError(python_terms(str(error).removeprefix("NO_DAEMON: "))) from None
                try:
                    self._open(handle)
                except BaseException:
                    self._daemon.end()
                    raise
                self._handle = handle
                self._thread = threading.Thread(target=self._run, args=(handle,), name="loaderd-publish", daemon=True)
                self._thread.start()
        self.check()
        return self._handle

    def check(self) -> None:
        """Raises the error of the publisher, if any."""
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Stops the publisher and the daemon. It does nothing in a forked child."""
        if os.getpid() != self._owner or self._stopping:
            return
        self._stopping = True
        self.on_error = lambda: None
        if self._child is not None:
            stop_child(self._child, _STOP_SECONDS)
        if self._pipeline is not None:
            self._pipeline.close()
        if self._client is not None:
            self._client.close()  # ends its retries
        if self._handle is not None:
            with contextlib.suppress(DaemonNotFoundError):
                self._daemon.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1)  # an iterable that blocks keeps the thread, which ends with this process

    def _check_ranks(self) -> None:
        if self.ranks is not None and (world_size := self.ranks.find().world_size) > 1:
            raise ValueError(
                f"documents= starts a private daemon for one process, this job has {world_size} ranks, which need one "
                "daemon: call url = loaderd.serve(documents, tokenizer=...) on one rank, broadcast str(url) and "
                "url.token, and create StepLoader(url, token=token) on every rank"
            )

    def _open(self, handle: DaemonHandle) -> None:
        """Creates the process or the pipeline that publishes."""
        if self._paths is not None:
            given = [x for key, value in self._options.items() for x in _flag(key, value)]
            arguments = ["publish", "--until-eof", "--daemon", os.fspath(handle.folder)]
            with (handle.folder / _LOG).open("wb") as out:
                self._child = start_child(self._daemon.program, [*arguments, *given, "--", *self._paths], out)
            return
        from loaderd.producer._dataset import documents as rows_of
        from loaderd.producer._publisher import create_pipeline

        if hasattr(self._documents, "column_names"):  # a dataset of Hugging Face
            self._documents = rows_of(self._documents)
        options: Any = {"report": 0.0, **self._options}
        tokenizer = options.pop("tokenizer", None if isinstance(self._tokenizer, str) else self._tokenizer)
        self._pipeline = create_pipeline(
            self._documents,
            handle.nats,
            options,
            SOURCE,
            SOURCE,
            None,
            tokenizer,
        )

    def _run(self, handle: DaemonHandle) -> None:
        try:
            if self._child is not None:
                self._await_child(self._child, handle.folder / _LOG)
            elif self._pipeline is not None:
                from loaderd.producer._publisher import send_all

                send_all(self._documents, self._pipeline)
            with Client(handle) as client:
                self._client = client
                if not self._stopping:
                    client.seal()
        except Exception as error:
            if not self._stopping:
                self.error = error
                self.on_error()

    def _await_child(self, child: subprocess.Popen[bytes], output: Path) -> None:
        status = child.wait()
        if status == 0 or self._stopping:
            return
        message = python_terms("\n".join(output.read_text(errors="replace").splitlines()[-10:]))
        if status != _NOT_DECODED:
            raise PublishError(f"cannot publish {', '.join(self._paths or ())}: {message}")
        log.warning("some documents could not be decoded and were skipped: %s", message)


def paths_of(documents: object) -> list[str] | None:
    """Returns the paths, patterns or addresses that `documents` names; None if it is an iterable of documents.

    The first item of a list decides: a path object, an address, or a string that names an existing file or has the
    extension of a data file, makes all items paths.

    Raises:
        TypeError: If `documents` is neither.
        ValueError: If it is an empty list.
        FileNotFoundError: If no file matches a local pattern.
    """
    if isinstance(documents, (str, os.PathLike)):
        return _matches(documents)
    if isinstance(documents, (bytes, Mapping)) or not isinstance(documents, Iterable):
        raise TypeError(
            f"documents is a {type(documents).__name__}: want a path, a pattern, an address such as "
            "hf://datasets/OWNER/NAME/*.parquet, a list of them, or an iterable of texts"
        )
    if isinstance(documents, (list, tuple)):
        if not documents:
            raise ValueError("documents is empty: want at least one document or path")
        if _is_path(documents[0]):
            return [path for x in documents for path in _matches(x)]
    return None


def _matches(item: str | os.PathLike[str]) -> list[str]:
    """Returns the files that a local pattern matches, in order of their names; other paths and addresses unchanged."""
    path = os.fspath(item)
    if _ADDRESS.fullmatch(path) or os.path.exists(path) or not glob.has_magic(path):
        return [path]
    if not (found := sorted(glob.glob(path, recursive=True))):
        raise FileNotFoundError(f"no file matches the pattern {path}")
    return found


def _is_path(item: object) -> bool:
    if isinstance(item, os.PathLike):
        return True
    if not isinstance(item, str) or len(item) > 4096 or "\n" in item or "\0" in item:
        return False
    return bool(_ADDRESS.fullmatch(item) or _FILE.fullmatch(item)) or (item != "" and os.path.exists(item))


def _flag(key: str, value: object) -> list[str]:
    name = f"--{key.replace('_', '-')}"
    if isinstance(value, bool):
        return [f"{name}={str(value).lower()}"]
    return [name, ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)]


def python_terms(text: str) -> str:
    """Returns an error of the program with the arguments of a StepLoader in place of flags and settings."""
    text = re.sub(r"--set (\S+?)=", r"settings \1=", text)
    text = re.sub(r"\(--set\)", "(settings=)", text)
    text = re.sub(r"--([a-z]+(?:-[a-z]+)*)", lambda m: f'publish={{"{m[1].replace("-", "_")}": ...}}', text)
    return text.replace("tokenizer.name", "tokenizer=")
