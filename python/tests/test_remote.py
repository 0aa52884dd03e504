"""Traces of object stores: files, and an S3 server in this process."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import thermocline_lab as tl

LINES = "".join(f"{at * 10},W,{at % 64 * 4096},4096\n" for at in range(1, 2000))


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("timestamp_us,op,offset_bytes,length_bytes\n" + LINES)
    return path


@pytest.fixture
def bucket(trace, monkeypatch):
    """An S3 server with the trace as `s3://bucket/day/own.csv`; gives the paths that were asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            asked.append(f"{self.command} {self.path}")
            found = self.path.split("?")[0] == "/bucket/day/own.csv"
            body = trace.read_bytes() if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        "AWS_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_REGION": "eu-central-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield asked
    server.shutdown()
    server.server_close()


def same_but_for_the_path(remote, local):
    assert remote.row() == local.row() and remote.series == local.series


def test_a_file_url_is_the_file(trace):
    remote = tl.run("raw:ideal", tl.Trace(f"file://{trace}", loops=2))
    same_but_for_the_path(remote, tl.run("raw:ideal", tl.Trace(trace, loops=2)))
    assert remote.spec.data["workload"]["path"] == f"file://{trace}"
    assert list(remote.spec.data["files"]) == [f"file://{trace}"]


def test_an_object_is_read_once_and_named_by_its_url(trace, bucket):
    url = "s3://bucket/day/own.csv"
    remote = tl.run("raw:ideal", tl.Trace(url, loops=2))
    same_but_for_the_path(remote, tl.run("raw:ideal", tl.Trace(trace, loops=2)))
    assert tl.Trace(url).analyze().profile.requests == LINES.count("\n")
    assert sum(one.startswith("GET") for one in bucket) == 1, bucket
    again = tl.run(remote.spec)
    assert again.spec == remote.spec and again.row() == remote.row()


def test_a_missing_object_is_an_error_of_the_trace(bucket):
    with pytest.raises(tl.TraceError, match="s3://bucket/none.csv"):
        tl.Trace("s3://bucket/none.csv").analyze()
