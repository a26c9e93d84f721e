"""The daemon as a process: it starts, answers, stops, and starts again on the same data."""

import json
import signal
import subprocess


def test_version(loaderd):
    out = subprocess.run([loaderd, "version", "--json"], check=True, capture_output=True, text=True).stdout
    assert json.loads(out)["plan_format"] >= 1


def test_start_stop_start(daemon):
    d = daemon({"steps.rows": 8, "packing.buckets": "256"})
    assert d.answers("/healthz")
    assert d.stop() == 0
    assert not d.answers("/healthz")
    d.start()
    assert d.answers("/readyz")
    d.kill()
    assert d.process.returncode == -signal.SIGKILL
    d.start()
    assert d.answers("/readyz")


def test_second_daemon_on_the_same_data_is_refused(daemon, loaderd):
    d = daemon()
    other = subprocess.run(
        [
            loaderd,
            "serve",
            "--data-dir",
            d.settings["stream.dir"],
            "--set",
            "stream.listen=127.0.0.1:0",
            "--set",
            "flight.listen=127.0.0.1:0",
            "--set",
            "http.listen=127.0.0.1:0",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert other.returncode == 1
    assert other.stderr.strip().splitlines()[-1].startswith("loaderd: start daemon: ")
    assert str(d.settings["stream.dir"]) in other.stderr
    assert d.answers("/readyz")
