"""The whole daemon: text to pyarrow, memory, start, and the waits of ranks for a step."""

from __future__ import annotations

import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench import Bench, python
from measures import Measure

READY_SECONDS = 60
SETTLED_SECONDS = 3  # after which an idle daemon has freed the memory of its start
CLIENT = (
    "import pyarrow.flight; print(next(line.split()[1] for line in open('/proc/self/status') if "
    "line.startswith('VmRSS')))"
)
TORCH = "import time; began = time.perf_counter(); import torch; print(time.perf_counter() - began)"


def end_to_end(bench: Bench) -> Iterator[Measure]:
    """Text in JetStream to a plain pyarrow reader on two cores; the medians of several runs."""
    documents, rounds = (300, 1) if bench.moment else (40_000, 3)
    command = [bench.program("endtoend"), "-documents", documents, "-alone", "-python", python()]
    runs = [bench.ask(command, cores=2) for _ in range(rounds)]
    speed, alone = (statistics.median(r[k] for r in runs) for k in ("text_mb_per_second", "alone_mb_per_second"))
    yield Measure("text in JetStream to pyarrow, two cores", speed, "MB/s", alone, "tokenizing alone, as cold")
    cpu = statistics.median(r["daemon_cpu_seconds"] for r in runs)
    rest = statistics.median(
        r["daemon_cpu_seconds"] * (1 - r["daemon_cpu_share"].get("tokenize", 0) / 100) for r in runs
    )
    yield Measure("CPU of everything but tokenizing, end to end", rest, "s", cpu, "the daemon's", better="lower")
    peak, client = (statistics.median(r[k] for r in runs) for k in ("peak_rss_mb", "reader_peak_rss_mb"))
    yield Measure("memory of the daemon, end to end", peak, "MB", client, "its pyarrow reader", better="lower")
    command += ["-files", bench.program("loaderd")]
    runs = [bench.ask(command, cores=2) for _ in range(rounds)]
    speed, alone = (statistics.median(r[k] for r in runs) for k in ("text_mb_per_second", "alone_mb_per_second"))
    yield Measure(
        "JSON lines to pyarrow: publish, tokenize, pack, read", speed, "MB/s", alone, "tokenizing alone, as cold"
    )


def demo(bench: Bench) -> Iterator[Measure]:
    command = [bench.program("loaderd"), "demo", "--json", "--no-kill", *(["--limit", 300] if bench.moment else [])]
    rounds = 1 if bench.moment else 3
    runs, torch = [], []
    for _ in range(rounds):
        runs.append(bench.ask(command, cores=2))
        torch.append(float(bench.say([python(), "-c", TORCH], cores=2)))
    first = statistics.median(r["first_batch_seconds"] for r in runs)
    yield Measure(
        "start of the demo to its first batch", first, "s", statistics.median(torch), "import torch", better="lower"
    )
    peak = statistics.median(r["peak_memory_bytes"] for r in runs) / 1e6
    yield Measure("memory of the demo", peak, "MB", client_memory(bench), "import pyarrow.flight", better="lower")


def idle(bench: Bench) -> Iterator[Measure]:
    """A daemon that has started and has no documents."""
    http = f"127.0.0.1:{free_port()}"
    folder = bench.folder / "idle"
    settings = {
        "stream.dir": folder,
        "stream.listen": "127.0.0.1:0",
        "flight.listen": "127.0.0.1:0",
        "http.listen": http,
        "log.level": "error",
    }
    flags = [x for k, v in settings.items() for x in ("--set", f"{k}={v}")]
    with subprocess.Popen([bench.program("loaderd"), "serve", *flags], stdout=subprocess.DEVNULL) as daemon:
        try:
            wait_until_ready(f"http://{http}/readyz", daemon)
            time.sleep(0 if bench.moment else SETTLED_SECONDS)
            memory = resident(daemon.pid)
        finally:
            daemon.terminate()
    yield Measure(
        "memory of an idle daemon", memory, "MB", client_memory(bench), "import pyarrow.flight", better="lower"
    )


def waits(bench: Bench) -> Iterator[Measure]:
    """Eight ranks in lock step that compute for 10 ms, and the same ranks with a raw socket."""
    size = ["-documents", 30_000, "-steps", 20] if bench.moment else ["-documents", 300_000, "-steps", 2000]
    found = bench.ask([bench.program("guarantees"), "-json", *size, "tail"])
    for share in ("p50", "p99", "p99.9"):
        yield Measure(
            f"wait for a step, {share}",
            found["daemon"][share],
            "ms",
            found["raw socket"][share],
            "a raw socket",
            better="lower",
        )


def client_memory(bench: Bench) -> float:
    return int(bench.say([python(), "-c", CLIENT])) * 1024 / 1e6


def resident(pid: int) -> float:
    """Returns the resident memory in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return int(s.getsockname()[1])


def wait_until_ready(url: str, daemon: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            if daemon.poll() is not None:
                raise RuntimeError(f"the daemon exited with {daemon.returncode}") from None
            time.sleep(0.02)
    raise RuntimeError(f"the daemon is not ready after {READY_SECONDS} s")
