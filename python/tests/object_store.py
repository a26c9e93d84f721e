"""A server with S3's protocol for reading, over a folder: listings, ranges, and If-Match."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class ObjectStore:
    """Serves the files below a folder as the objects of every bucket.

    Attributes:
        variables: The environment in which loaderd reads from the server.
        requested: The number of bytes that were requested, by object.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.requested = folder, dict[str, int]()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                if "list-type" in (query := parse_qs(url.query)):
                    self.answer(200, store.listing(query.get("prefix", [""])[0]))
                    return
                name = unquote(url.path).split("/", 2)[2]
                data = (store.folder / name).read_bytes()
                if self.headers["If-Match"] != etag(data):
                    self.answer(412, b"")
                    return
                begin, end = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
                end = min(end + 1, len(data))
                store.requested[name] = store.requested.get(name, 0) + end - begin
                self.answer(206, data[begin:end], etag(data), f"bytes {begin}-{end - 1}/{len(data)}")

            def answer(self, status: int, body: bytes, tag: str = "", part: str = "") -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if part:
                    self.send_header("ETag", tag)
                    self.send_header("Content-Range", part)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.variables = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server.server_port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    def listing(self, prefix: str) -> bytes:
        files = sorted(p for p in self.folder.rglob("*") if p.is_file())
        found = [(str(p.relative_to(self.folder)), p.read_bytes()) for p in files]
        contents = "".join(
            f"<Contents><Key>{escape(name)}</Key><ETag>{escape(etag(data))}</ETag><Size>{len(data)}</Size></Contents>"
            for name, data in found
            if name.startswith(prefix)
        )
        return f"<ListBucketResult><Name>bucket</Name>{contents}</ListBucketResult>".encode()


class QuietServer(ThreadingHTTPServer):
    """Reports no errors of connections that clients close."""

    def handle_error(self, *_: object) -> None:
        pass


def etag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:16]}"'


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Starts a server, and stops it at the end."""
    store = ObjectStore(folder)
    thread = Thread(target=store.server.serve_forever)
    thread.start()
    try:
        yield store
    finally:
        store.server.shutdown()
        thread.join()
        store.server.server_close()
