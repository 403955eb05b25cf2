"""Servers for tests of stores: files by ranges over HTTP, S3 of moto, and a proxy that fails."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """A server of this process, at a free port."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing: clients close connections, and tests break them."""


@contextmanager
def serving(server: Server) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class RangeServer(Server):
    """Serves bytes by path, whole and by ranges, with an ETag.

    Attributes:
        files: content by path.
        requests: (method, path, first, last) of each request; first and last are -1 for all.
        knows_conditions: whether If-Match is heeded.
    """

    def __init__(self) -> None:
        super().__init__(_RangeHandler)
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, int, int]] = []
        self.knows_conditions = True


class _RangeHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RangeServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.path.lstrip("/")
        content = self.server.files.get(path)
        first, last = self._asked(len(content or b""))
        self.server.requests.append((self.command, path, first, last))
        if content is None:
            return self._send(404, b"", {}, body=body)
        tag = f'"{md5(content).hexdigest()}"'
        if self.server.knows_conditions and self.headers.get("If-Match", tag) != tag:
            return self._send(412, b"", {}, body=body)
        headers = {"ETag": tag, "Accept-Ranges": "bytes", "Last-Modified": "Sun, 29 Nov 2026 00:00:00 GMT"}
        if first < 0:
            return self._send(200, content, headers, body=body)
        part = content[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        return self._send(206, part, headers, body=body)

    def _asked(self, size: int) -> tuple[int, int]:
        """Returns the first and the last byte that are asked for, -1 for all."""
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            return -1, -1
        if not asked[1]:
            return max(size - int(asked[2]), 0), size - 1
        return int(asked[1]), min(int(asked[2]), size - 1)

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)


class Proxy(Server):
    """Passes requests on to a server, and fails on the way as told.

    Attributes:
        faults: what happens to the next requests with a Range, one after the other: a status like 503,
            "reset" (the connection is reset in the middle of the body), "truncated" (the body ends early and
            the connection is closed), or "held" (no answer before `release` is set). None passes.
        latency: seconds before each answer.
        rate: bytes per second of each connection; None: any.
        most_at_once: the largest number of requests that waited at the same time.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(_ProxyHandler)
        host, _, port = upstream.removeprefix("http://").partition(":")
        self.upstream = (host, int(port))
        self.faults: list[int | str | None] = []
        self.seen: list[str] = []
        self.latency = 0.0
        self.rate: float | None = None
        self.release = threading.Event()
        self.held = threading.Semaphore(0)
        self.most_at_once = 0
        self._at_once = 0
        self._state = threading.Lock()

    def next_fault(self) -> int | str | None:
        with self._state:
            return self.faults.pop(0) if self.faults else None

    @contextmanager
    def counted(self) -> Iterator[None]:
        with self._state:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            yield
        finally:
            with self._state:
                self._at_once -= 1


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def log_message(self, *_: Any) -> None:
        pass

    def _pass_on(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size) if size else None
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b"".join(iter(self._chunk, b""))
        fault = self.server.next_fault() if "Range" in self.headers else None
        self.server.seen.append(f"{self.command} {self.path} {self.headers.get('Range', '')} {fault}")
        with self.server.counted():
            if self.server.latency:
                time.sleep(self.server.latency)
            if fault == "held":
                self.server.held.release()
                self.server.release.wait(60)
        if isinstance(fault, int):
            return self._send(fault, [("Content-Length", "0")], b"")
        connection = http.client.HTTPConnection(*self.server.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name != "Transfer-Encoding"}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        kept = [(name, value) for name, value in answer.getheaders() if name not in _OF_CONNECTION]
        if self.command != "HEAD":
            kept = [pair for pair in kept if pair[0].lower() != "content-length"]
            kept.append(("Content-Length", str(len(content))))
        if fault in ("reset", "truncated"):
            self._send(answer.status, kept, content[: len(content) // 2])
            if fault == "reset":  # closing a socket with this option sends a reset
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.wfile.flush()
            self.close_connection = True
            return None
        return self._send(answer.status, kept, content)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # any method
            return self._pass_on
        raise AttributeError(name)

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        content = self.rfile.read(size)
        self.rfile.readline()
        return content

    def _send(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        step = 1 << 16
        for at in range(0, len(content) if self.command != "HEAD" else 0, step):
            self.wfile.write(content[at : at + step])
            if self.server.rate:
                time.sleep(step / self.server.rate)


_OF_CONNECTION = ("Connection", "Transfer-Encoding", "Date", "Server", "Keep-Alive")


@contextmanager
def moto_server() -> Iterator[str]:
    """Runs moto's S3 in this process. Yields its URL."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def put_object(url: str, key: str, content: bytes) -> None:
    """Writes an object of moto's S3: a path of bucket and key. A path without a key makes a bucket."""
    _request(url, "PUT", key, content)


def _request(url: str, method: str, path: str, content: bytes | None = None) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request"}
    connection.request(method, f"/{path}", content, signed)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status < 300, (answer.status, text)
    return text


def object_names(url: str, bucket: str) -> list[str]:
    return re.findall(r"<Key>([^<]*)</Key>", _request(url, "GET", f"{bucket}?list-type=2").decode())


def unfinished_uploads(url: str, bucket: str) -> list[str]:
    return re.findall(r"<Key>([^<]*)</Key>", _request(url, "GET", f"{bucket}?uploads").decode())
