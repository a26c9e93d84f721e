"""Runs the examples of docs/how-to/kafka-postgres-folders.md as processes, and reads what they publish."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nats
from nats.js.api import StreamState

from conftest import ROOT
from waiting import wait_for


def environment(site: Path) -> dict[str, str]:
    """Returns the environment of an example that needs the packages in a folder."""
    paths = [str(ROOT / "python" / "src"), str(site), *(path for path in sys.path if path.endswith("site-packages"))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


class Example:
    """A running example, with its output so far."""

    def __init__(self, command: list[object], folder: Path, environment: dict[str, str]) -> None:
        self.log = Path(tempfile.mkstemp(dir=folder)[1])
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                list(map(str, command)), cwd=folder, env=environment, stdout=log, stderr=log
            )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def ended(self) -> bool:
        return self.process.poll() is not None

    def has_published(self, url: str, count: int) -> None:
        """Waits until `count` documents were stored."""

        def enough() -> bool:
            assert not self.ended(), self.said
            return asyncio.run(length(url)) >= count

        wait_for(enough)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Stored = tuple[str, dict[str, str], bytes]
"""Subject, headers and payload of a message."""


async def stored(url: str) -> list[Stored]:
    """Returns all messages of the document stream, read with the operator's token."""
    nc = await nats.connect(url)
    try:
        stream, now, found = nc.jetstream(), await state(url), []
        for sequence in range(now.first_seq, now.last_seq + 1):
            message = await stream.get_msg("DOCS", sequence, direct=True)
            found.append((message.subject or "", message.headers or {}, message.data or b""))
        return found
    finally:
        await nc.close()


def content(message: Stored) -> tuple[str, dict[str, str]]:
    """Returns text and meta of a message."""
    _, headers, data = message
    if headers.get("Content-Type") == "application/json":
        made = json.loads(data)
        return made["text"], made["meta"]
    return data.decode(), json.loads(headers.get("Loaderd-Meta", "{}"))


async def length(url: str) -> int:
    """Returns how many documents were ever stored."""
    return (await state(url)).last_seq


async def state(url: str) -> StreamState:
    """Returns the state of the document stream."""
    nc = await nats.connect(url)
    try:
        return (await nc.jetstream().stream_info("DOCS")).state
    finally:
        await nc.close()
