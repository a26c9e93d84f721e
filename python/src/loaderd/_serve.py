"""A private daemon: for notebooks, tests and trainers on one machine."""

from __future__ import annotations

import atexit
import contextlib
import html
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from loaderd._client import Client
from loaderd._local_auth import FLIGHT_TOKEN, read_token, sign
from loaderd.errors import LoaderdError

if TYPE_CHECKING:
    from loaderd.producer._message import Document

_LOG = "daemon.log"
_POLL_SECONDS = 0.02


class DaemonNotFoundError(LoaderdError):
    """The daemon of `serve` could not be started, ended unexpectedly, or did not stop and was killed.

    The message has the last lines of its log.
    """

    reason = "NO_DAEMON"


class DaemonHandle(str):
    """The address of a daemon's Flight server, a string that Client and StepLoader accept.

    The daemon's other addresses are attributes.
    """

    nats: str
    """Where documents are published, with the producer's token: loaderd.publish(documents, url.nats, source=...)."""
    http: str
    """The address of the HTTP server, with the live page, its JSON and metrics."""
    folder: Path
    """The daemon's data, and daemon.log. Clients find the daemon's token there. Clients of a process that has the
    URL as a plain string need the folder in LOADERD_STREAM__DIR."""
    token: str | None
    """The daemon's token, for other clients of Flight and HTTP: the header authorization: Bearer TOKEN. None if the
    settings have identities, a token file or flight.insecure."""
    _daemon: DaemonProcess | None = None  # None in a copy that was sent to another process

    def close(self) -> None:
        """Stops the daemon. Its folder is deleted if it is temporary. Repeated calls do nothing.

        Raises:
            DaemonNotFoundError: If the daemon has ended unexpectedly, or was killed because it did not stop in time.
        """
        if self._daemon is not None:
            self._daemon.close()

    @property
    def state(self) -> str:
        """The state of the daemon's process: "running", "stopped", or "unknown" in another process."""
        return "unknown" if self._daemon is None else self._daemon.state

    def __enter__(self) -> DaemonHandle:
        if self.state == "stopped":
            raise RuntimeError("this daemon is stopped: call loaderd.serve again")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.ExitStack() as quiet:
            if error is not None:  # the block's own error has precedence
                quiet.enter_context(contextlib.suppress(DaemonNotFoundError))
            self.close()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key != "_daemon"}

    def __repr__(self) -> str:
        return f"<loaderd daemon {self}, {self.state}, folder {self.folder}>"

    def _repr_html_(self) -> str:
        link = f'<a href="{html.escape(self.page)}">live page</a>' if self.state == "running" else ""
        return f"<code>{html.escape(repr(self))}</code> {link}"

    @property
    def page(self) -> str:
        """A new link per access, which opens the live page once, within ten minutes."""
        if self.token is None:
            return self.http
        return f"{self.http}/#login={sign(self.token, 'page', urlsplit(self.http).netloc, time.time())}"


def serve(
    documents: Iterable[Document] | None = None,
    *,
    tokenizer: object = None,
    folder: str | os.PathLike[str] | None = None,
    source: str = "documents",
    seal: bool | None = None,
    settings: Mapping[str, object] | None = None,
    config: str | os.PathLike[str] | None = None,
    publish: Mapping[str, Any] | None = None,
    program: str | os.PathLike[str] | None = None,
    start_timeout: float = 60.0,
    stop_timeout: float = 60.0,
) -> DaemonHandle:
    """Starts a daemon with an embedded NATS server, on free ports of loopback.

    It runs until the end of a `with` block, until `close()`, or until this process ends, for any reason. Processes that
    are forked meanwhile (workers of a DataLoader, a Pool) may outlive it: the daemon belongs to the process that called
    `serve`. Its log is daemon.log of the folder.

    Example:
        ```python
        with loaderd.serve(["some text", "another text"], tokenizer="gpt2", settings={"steps.rows": 8}) as url:
            for batch in loaderd.torch.StepLoader(url):
                ...
        ```

        Without `with`, as in a notebook: `url = loaderd.serve(...)`, and `url.close()` at the end.

    Args:
        documents: Documents of the types that `loaderd.publish` accepts, which are published before the call returns.
        tokenizer: A name (gpt2, cl100k_base, o200k_base, none), the path of a file, a `tokenizers.Tokenizer`, a fast
            tokenizer of transformers, or a `sentencepiece.SentencePieceProcessor`; None leaves it to the settings.
        folder: Where the run's data are kept. Another `serve` of that folder with the same settings continues the run:
            documents of `source` that it has are not published again. Without it all data are deleted with the daemon.
        source: The source of the documents.
        seal: Whether the run is sealed once the documents are published, so that it packs all of them and ends. By
            default it is if documents are given.
        settings: The daemon's settings by name, such as {"steps.rows": 8, "packing": {"buckets": [1024, 2048]}}.
            LOADERD_ settings of the environment are ignored.
        config: A file of settings.
        publish: Options of `loaderd.publish`, such as `{"chat": tokenizer}`.
        program: The daemon's executable; by default LOADERD_BIN, the one that a wheel has installed, or the one on the
            PATH.
        start_timeout: Seconds within which the daemon must be ready.
        stop_timeout: Seconds after which a daemon that does not stop is killed.

    Returns:
        The daemon's address, which is also its context manager.

    Raises:
        DaemonNotFoundError: If no program is found or the daemon does not start in time. At the end of the block, if
            the daemon has ended unexpectedly, or was killed because it did not stop in time.
    """
    daemon = DaemonProcess(tokenizer, folder, settings or {}, config, program, start_timeout, stop_timeout)
    handle = daemon.start()
    try:
        if documents is not None:
            daemon.fill(handle, documents, source, publish or {})
        if documents is not None if seal is None else seal:
            with Client(handle) as client:
                client.seal()
    except BaseException:
        daemon.end()
        raise
    return handle


class DaemonProcess:
    """The process of a private daemon, its log, and its folder."""

    def __init__(
        self,
        tokenizer: object,
        folder: str | os.PathLike[str] | None,
        settings: Mapping[str, object],
        config: str | os.PathLike[str] | None = None,
        program: str | os.PathLike[str] | None = None,
        start_timeout: float = 60.0,
        stop_timeout: float = 60.0,
    ) -> None:
        self._tokenizer, self._settings, self._config = tokenizer, settings, config
        self._given, self._program = folder, program
        self._start_timeout, self._stop_timeout = start_timeout, stop_timeout
        self._cleanup = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._log = Path()
        self._said = ""
        self._ended = False

    @property
    def state(self) -> str:
        """The state of the process: "running" or "stopped"."""
        return "running" if self._process is not None and not self._ended else "stopped"

    @property
    def program(self) -> Path:
        """The path of the daemon's program.

        Raises:
            DaemonNotFoundError: If no program is found.
        """
        return find_program(self._program)

    def start(self) -> DaemonHandle:
        """Starts the daemon, and waits until it is ready.

        Raises:
            DaemonNotFoundError: If no program is found or the daemon does not start in time.
        """
        program = self.program
        try:
            handle = self._start(program)
        except BaseException:
            self.end()
            raise
        handle._daemon = self
        _running.add(self)
        return handle

    def close(self) -> None:
        """Stops the daemon, once and only in the process that started it.

        Raises:
            DaemonNotFoundError: If it has ended unexpectedly, or was killed because it did not stop in time.
        """
        if os.getpid() != self._owner or self._ended or self._process is None:
            return
        earlier = self._process.poll() is not None
        if not self.end():
            raise DaemonNotFoundError(
                f"the daemon did not stop within {self._stop_timeout:g} seconds and was killed. Last "
                f"output:\n{self._said}"
            )
        if earlier or self._process.returncode != 0:
            raise DaemonNotFoundError(
                f"the daemon exited unexpectedly with status {self._process.returncode}. Last output:\n{self._said}"
            )

    def _start(self, program: Path) -> DaemonHandle:
        if self._given is None:
            # A forked child that exits would delete a TemporaryDirectory.
            folder = Path(tempfile.mkdtemp(prefix="loaderd-"))
            self._cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        else:
            folder = Path(self._given).absolute()
            folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / _LOG
        arguments = [
            "serve",
            "--until-eof",
            *([] if self._config is None else ["--config", os.fspath(self._config)]),
            *flags({"stream.listen": "127.0.0.1:0", "flight.listen": "127.0.0.1:0", "http.listen": "127.0.0.1:0"}),
            *flags(self._settings),
            *flags({"stream.dir": folder, "log.format": "json", "log.level": "info", **self._tokens(folder)}),
        ]
        with self._log.open("ab") as log:
            began = log.tell()
            self._process = start_child(program, arguments, log)
        said = self._ready(began)
        served = DaemonHandle(said["flight"])
        served.http, served.folder, served.nats = said["http"], folder, said["nats"]
        served.token = None
        with contextlib.suppress(OSError):
            served.token = read_token(folder, FLIGHT_TOKEN)
        with contextlib.suppress(OSError):  # the file does not exist with a configured cluster of NATS servers
            token = read_token(folder, "producer.token")
            served.nats = f"nats://producer:{token}@{urlsplit(said['nats']).netloc}"
        return served

    def _tokens(self, folder: Path) -> dict[str, object]:
        if self._tokenizer is None:
            return {}
        if isinstance(self._tokenizer, (str, os.PathLike)):
            return {"tokenizer.name": os.fspath(self._tokenizer)}
        backend: Any = getattr(self._tokenizer, "backend_tokenizer", self._tokenizer)
        if hasattr(backend, "serialized_model_proto"):
            file = folder / "tokenizer.model"
            file.write_bytes(backend.serialized_model_proto())
            return {"tokenizer.name": file}
        if not hasattr(backend, "to_str"):
            raise TypeError(
                f"tokenizer is a {type(self._tokenizer).__name__}: want a name, a path, a tokenizers.Tokenizer, a fast "
                "tokenizer of transformers or a sentencepiece.SentencePieceProcessor"
            )
        file = folder / "tokenizer.json"
        file.write_text(backend.to_str(), encoding="utf-8")
        return {"tokenizer.name": file}

    def _ready(self, began: int) -> dict[str, str]:
        """Returns what the daemon's log has about its addresses once it serves."""
        assert self._process is not None
        deadline = time.monotonic() + self._start_timeout
        with self._log.open("rb") as log:
            log.seek(began)
            line = b""
            while True:
                line += log.readline()
                if line.endswith(b"\n"):
                    with contextlib.suppress(ValueError, AttributeError):
                        said: dict[str, str] = json.loads(line)
                        if said.get("msg") == "ready":
                            return said
                    line = b""
                elif (status := self._process.poll()) is not None:
                    raise DaemonNotFoundError(f"the daemon exited with status {status}:\n{self._tail()}")
                elif time.monotonic() > deadline:
                    raise DaemonNotFoundError(
                        f"the daemon is not ready after {self._start_timeout:g} seconds. Last output:\n{self._tail()}"
                    )
                else:
                    time.sleep(_POLL_SECONDS)

    def fill(
        self, served: DaemonHandle, documents: Iterable[Document], source: str, options: Mapping[str, Any]
    ) -> None:
        """Publishes documents, once per folder and source.

        Args:
            served: The daemon's address.
            documents: As in `loaderd.publish`.
            source: The source of the documents, and the name of their input.
            options: Options of `loaderd.publish`.
        """
        from loaderd.producer import publish

        options = {"name": source, **options}
        if "tokenizer" not in options and not isinstance(self._tokenizer, str):
            options["tokenizer"] = self._tokenizer
        publish(documents, served.nats, source=source, **options)

    def end(self) -> bool:
        """Stops the daemon, which exits when its standard input is closed, and deletes its folder if it is temporary.

        Returns whether it stopped in time; else it was killed.
        """
        process, self._ended = self._process, True
        _running.discard(self)
        try:
            if process is not None:
                return stop_child(process, self._stop_timeout)
            return True
        finally:
            self._said = self._tail()
            self._cleanup.close()

    def _tail(self) -> str:
        """Returns the last lines of the log, for an error."""
        with contextlib.suppress(OSError):
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-10:])
        return ""


def start_child(program: Path, arguments: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts a command of the program that ends when its standard input is closed (--until-eof).

    Args:
        program: The daemon's program.
        arguments: The command and its flags.
        output: Where its output is written.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LOADERD_")}
    # The child has its own process group: Ctrl-C reaches only this process, which stops the child.
    apart: dict[str, Any] = {"creationflags": 0x200} if os.name == "nt" else {"start_new_session": True}
    child = subprocess.Popen(
        [os.fspath(program), *arguments], stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, **apart
    )
    if child.stdin is not None:
        _pipes.add(child.stdin)
    return child


def stop_child(child: subprocess.Popen[bytes], timeout: float) -> bool:
    """Stops a child of `start_child`.

    Args:
        child: The process.
        timeout: Seconds after which it is killed.

    Returns:
        Whether it stopped in time.
    """
    _closed(child.stdin)
    if os.name != "nt":  # Windows has no fork, and terminate is a kill there
        child.terminate()  # another child that was forked without Python's hooks may hold the pipe
    try:
        child.wait(timeout)
    except BaseException as error:  # the child hangs, or the wait is interrupted
        child.kill()
        child.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return False
    return True


_pipes: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()
"""Write ends of the pipes that daemons read: a daemon runs until all copies of its pipe are closed."""


_running: set[DaemonProcess] = set()
"""Daemons that this process started. Those without `close()` are stopped when the interpreter exits."""


@atexit.register
def _stop_all() -> None:
    for daemon in list(_running):
        with contextlib.suppress(DaemonNotFoundError):
            daemon.close()


def _close_in_child() -> None:
    """Closes the pipes in a forked child, so that it does not keep the daemon of its parent running."""
    for pipe in list(_pipes):
        _closed(pipe)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def _closed(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):  # its reader is gone
            pipe.close()


def flags(settings: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Yields the daemon's flags for settings by name, including those in sections."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flags(value, f"{prefix}{key}.")
            continue
        if value is None:
            raise ValueError(f"setting {prefix}{key} is None: want a value, or omit the setting")
        items = [value] if isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable) else list(value)
        text = json.dumps(items) if any(isinstance(x, Mapping) for x in items) else ",".join(_text(x) for x in items)
        yield from ("--set", f"{prefix}{key}={text}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def find_program(given: str | os.PathLike[str] | None = None) -> Path:
    """Returns the path of the daemon's program.

    Args:
        given: The path to use; None searches LOADERD_BIN, the scripts of this Python, and the PATH.

    Raises:
        DaemonNotFoundError: If no program is found.
    """
    if named := given or os.environ.get("LOADERD_BIN"):
        path = Path(named)
        if not path.is_file():
            raise DaemonNotFoundError(
                f"cannot find the program {path}: give the path of loaderd{'' if given else ' in LOADERD_BIN'}"
            )
        return path.absolute()
    name = "loaderd.exe" if os.name == "nt" else "loaderd"
    for folder in (
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", f"{os.name}_user"),
        Path(sys.executable).parent,
    ):
        if (path := Path(folder, name)).is_file():
            return path
    if found := shutil.which(name):
        return Path(found)
    raise DaemonNotFoundError(
        "cannot find the daemon on this machine: build it with `make build` and add bin to the PATH or set LOADERD_BIN "
        "to the program, "
        "or install a wheel from `make dist` (docs/start/install.md)"
    )
