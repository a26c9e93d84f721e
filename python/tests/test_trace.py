"""Documents that are traced from their producer to the ranks."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace

import pytest

from loaderd import Client, publish
from loaderd.producer._message import Encoder
from loaderd.producer._trace import traceparent
from tokenized import SETTINGS, TOKENIZER
from tokenized import documents as made_up


def span(trace: int, sampled: bool = True) -> ModuleType:
    """Returns OpenTelemetry's API within a span."""
    api = ModuleType("opentelemetry.trace")
    context = SimpleNamespace(
        trace_id=trace, span_id=7, is_valid=trace > 0, trace_flags=SimpleNamespace(sampled=sampled)
    )
    api.get_current_span = lambda: SimpleNamespace(get_span_context=lambda: context)  # type: ignore[attr-defined]
    return api


def test_a_share_of_the_documents_is_sampled() -> None:
    for share in (0.0, 0.3, 1.0):
        drawn = [c for _ in range(4000) if (c := traceparent(share))]
        assert abs(len(drawn) - share * 4000) < 4 * 30
        assert all(re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", c) for c in drawn)
        assert len(set(drawn)) == len(drawn)
    for share in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="want the share of the documents"):
            publish(["a"], source="web", trace=share)


@pytest.mark.parametrize(("api", "follows"), [(span(255), True), (span(255, sampled=False), False), (span(0), False)])
def test_a_document_belongs_to_the_span_it_is_sent_in(
    monkeypatch: pytest.MonkeyPatch, api: ModuleType, follows: bool
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", api)
    assert traceparent(0) is None
    assert (traceparent(1) == f"00-{255:032x}-{7:016x}-01") == follows


def test_a_trace_counts_as_a_header() -> None:
    encoder = Encoder("web", "input")
    plain, traced = encoder.encode("text", 3), encoder.encode("text", 3, "00-a-b-01")
    assert traced.headers == plain.headers | {"traceparent": "00-a-b-01"}
    assert traced.size - plain.size == len("traceparent: 00-a-b-01\r\n")


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Runs an OTLP collector: yields its URL, and what it received."""
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_is_sent_with_a_trace_is_followed_to_the_rank(daemon, collector, monkeypatch) -> None:
    url, got = collector
    d = daemon({**SETTINGS, "trace.endpoint": url, "trace.share": 0})
    trace = 0x0123456789ABCDEFFEDCBA9876543210
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", span(trace))
    tokens = made_up(200)
    publish(tokens[:100], d.nats_url, source="web", tokenizer=TOKENIZER)
    publish(tokens[100:], d.nats_url, source="web", tokenizer=TOKENIZER, trace=1.0)
    with Client(d.flight_url, timeout=60) as client:
        client.seal()
        assert sum(1 for _ in client) > 0
    d.stop()  # which exports the last spans
    said = b"".join(got)
    for name in (b"stored", b"tokenized", b"planned", b"read"):
        assert said.count(b"\x2a" + bytes([len(name)]) + name) == 100, name  # field 5 of a span
    assert said.count(trace.to_bytes(16, "big")) == 400
