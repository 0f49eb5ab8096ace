"""Fetching from a hub that this machine plays: resumed, verified, never half there, one line."""

import hashlib
import http.server
import json
import re
import shutil
import threading
import urllib.parse

import pytest

from l2bench.cli.main import invoke
from l2bench.errors import RunFailed, Unsupported
from l2bench_libero import fetch as fetching
from l2bench_libero import hub as hubs
from l2bench_libero import tasks
from l2bench_libero.fetch import REPOSITORY, fetch
from l2bench_libero.hub import Hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SUITE = "libero_goal"
NAMES = [f"{task.name}_demo.hdf5" for task in tasks.tasks(SUITE)]
SIZE = 200_000
FIRST = f"{SUITE}/{NAMES[0]}"
#: What is read at once.
CHUNK = 65536


class FakeHub:
    """The routes of the hub that fetching uses, and the faults a test asks for."""

    def __init__(self):
        self.files = {f"{SUITE}/{name}": bytes([i]) * (SIZE + i) for i, name in enumerate(NAMES)}
        self.recorded = dict(self.files)  # what the large-file records are about
        self.ranges = []
        self.tokens = []
        self.ignores_ranges = False
        self.cut = {}  # path -> bytes after which the connection is closed, once
        self.status = {}  # beginning of a route -> status
        self.after_cut = None  # status of further downloads
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.answer(body=False)

            def do_GET(self):
                self.answer(body=True)

            def answer(self, body):
                path = urllib.parse.unquote(self.path.split("?")[0])
                hub.tokens.append((path, self.headers.get("Authorization")))
                for start, status in hub.status.items():
                    if path.startswith(start):
                        return self.whole(status, b"{}", body)
                if path == f"/api/datasets/{REPOSITORY}/revision/main":
                    answer = {"_id": "1", "id": REPOSITORY, "sha": COMMIT, "siblings": []}
                    return self.whole(200, json.dumps(answer).encode(), body)
                if path == f"/api/datasets/{REPOSITORY}/tree/{COMMIT}/{SUITE}":
                    return self.whole(200, json.dumps(hub.tree()).encode(), body)
                resolve = f"/datasets/{REPOSITORY}/resolve/{COMMIT}/"
                if path.startswith(resolve):
                    return self.redirect(path.removeprefix(resolve))
                if path.startswith("/cdn/"):
                    return self.content(path.removeprefix("/cdn/"))
                return self.whole(404, b"{}", body)

            def whole(self, status, content, body):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if body:
                    self.wfile.write(content)

            def redirect(self, name):
                content = hub.recorded[name]
                self.send_response(302)
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("X-Linked-Size", str(len(content)))
                self.send_header("X-Linked-Etag", f'"{hashlib.sha256(content).hexdigest()}"')
                self.send_header("Location", f"{hub.elsewhere}/cdn/{name}")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def content(self, name):
                content = hub.files[name]
                asked = None if hub.ignores_ranges else self.headers.get("Range")
                start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked else 0
                hub.ranges.append((name, start))
                rest = content[start:]
                self.send_response(206 if asked else 200)
                if asked:
                    whole = len(content)
                    self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
                self.send_header("Content-Length", str(len(rest)))
                self.end_headers()
                cut = hub.cut.pop(name, None)
                self.wfile.write(rest if cut is None else rest[:cut])
                if cut is not None:
                    self.close_connection = True
                    if hub.after_cut:
                        hub.status["/cdn"] = hub.after_cut

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """Say nothing of clients that left."""

        self.server = Server(("127.0.0.1", 0), Handler)
        port = self.server.server_address[1]
        self.address, self.elsewhere = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def tree(self):
        return [
            {
                "type": "file",
                "oid": "f" * 40,
                "size": len(content),
                "path": path,
                "lfs": {
                    "oid": hashlib.sha256(content).hexdigest(),
                    "size": len(content),
                    "pointerSize": 134,
                },
            }
            for path, content in self.recorded.items()
        ]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def hub(monkeypatch):
    """Return a hub at HF_ENDPOINT."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(hubs, "CHUNK", CHUNK)
    monkeypatch.setattr(hubs, "PAUSE", 0.0)
    fake = FakeHub()
    monkeypatch.setenv("HF_ENDPOINT", fake.address)
    yield fake
    fake.close()


def get(folder, **changes):
    lines = []
    fetch((SUITE,), folder, Hub(REPOSITORY, pause=0.0, **changes), lines.append)
    return lines


def present(folder):
    return sorted(p.name for p in (folder / SUITE).glob("*.hdf5")) if folder.exists() else []


def test_files_arrive_whole_and_verified_and_are_not_fetched_twice(hub, tmp_path):
    lines = get(tmp_path / "data")
    assert lines[0].startswith("10 files to fetch, 0.00 GB")
    assert present(tmp_path / "data") == sorted(NAMES)
    for name in NAMES:
        found = (tmp_path / "data" / SUITE / name).read_bytes()
        assert found == hub.files[f"{SUITE}/{name}"]
    manifest = json.loads((tmp_path / "data" / SUITE / "manifest.json").read_text())
    assert manifest["revision"] == COMMIT
    assert manifest["files"][NAMES[1]]["size"] == SIZE + 1
    assert {p.name for p in (tmp_path / "data").iterdir()} == {SUITE}
    before = len(hub.ranges)
    assert get(tmp_path / "data")[0].startswith("0 files to fetch")
    assert len(hub.ranges) == before


def test_one_damaged_file_is_fetched_again_alone(hub, tmp_path):
    get(tmp_path)
    damaged = tmp_path / SUITE / NAMES[3]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    before = len(hub.ranges)
    get(tmp_path)
    assert hub.ranges[before:] == [(f"{SUITE}/{NAMES[3]}", 0)]
    assert damaged.read_bytes() == hub.files[f"{SUITE}/{NAMES[3]}"]


def test_a_connection_that_breaks_is_taken_up_where_it_was(hub, tmp_path):
    hub.cut[FIRST] = 150_000
    get(tmp_path)
    assert [start for name, start in hub.ranges if name == FIRST] == [0, 150_000]
    assert present(tmp_path) == sorted(NAMES)
    assert (tmp_path / FIRST).read_bytes() == hub.files[FIRST]


def test_a_transfer_that_broke_off_goes_on_when_it_is_run_again(hub, tmp_path):
    hub.cut[FIRST], hub.after_cut = 150_000, 503
    with pytest.raises(RunFailed, match=r"503 at 150000 of 200000 bytes; run again to go on there"):
        get(tmp_path)
    assert present(tmp_path) == []
    hub.status.clear()
    get(tmp_path)
    assert [start for name, start in hub.ranges if name == FIRST] == [0, 150_000]
    assert (tmp_path / FIRST).read_bytes() == hub.files[FIRST]


def test_a_server_that_ignores_ranges_is_read_from_the_beginning(hub, tmp_path):
    hub.cut[FIRST], hub.ignores_ranges = 150_000, True
    get(tmp_path)
    assert (tmp_path / FIRST).read_bytes() == hub.files[FIRST]


def test_a_server_that_breaks_off_again_and_again_is_given_up(hub, tmp_path):
    hub.files[FIRST] = hub.recorded[FIRST][:-5]
    with pytest.raises(RunFailed, match=rf"{NAMES[0]} of .* at 199995 of 200000 bytes; run again"):
        get(tmp_path)
    assert present(tmp_path) == []


def test_a_wrong_digest_leaves_no_file(hub, tmp_path):
    """DAT-01: what is not what was published never gets its name."""
    hub.files[FIRST] = b"y" * SIZE
    with pytest.raises(RunFailed, match=rf"{NAMES[0]} of .*: sha256: expected \w+, found \w+; .*"):
        get(tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "manifest.json"]
    hub.files[FIRST] = hub.recorded[FIRST]
    get(tmp_path)
    assert present(tmp_path) == sorted(NAMES)


def test_more_than_was_published_leaves_no_file(hub, tmp_path):
    hub.files[FIRST] += b"more"
    with pytest.raises(RunFailed, match="size: expected 200000 bytes, found 200004"):
        get(tmp_path)
    assert present(tmp_path) == []


def test_two_at_once_do_not_write_one_file(hub, tmp_path):
    import fcntl

    entry = Hub(REPOSITORY, COMMIT, 0.0).listing(SUITE)[FIRST]
    (tmp_path / SUITE).mkdir()
    part = tmp_path / SUITE / f".{NAMES[0]}.{entry.sha256[:12]}.part"
    with part.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(RunFailed, match="another process is fetching"):
            get(tmp_path)


def test_the_token_goes_to_the_hub_and_not_to_where_it_redirects(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    get(tmp_path)
    assert {path.split("/")[1] for path, token in hub.tokens if token} == {"api", "datasets"}
    assert {token for path, token in hub.tokens if path.startswith("/cdn")} == {None}


def test_a_missing_file_is_named(hub, tmp_path):
    del hub.recorded[f"{SUITE}/{NAMES[4]}"]
    with pytest.raises(Unsupported, match=rf"at {COMMIT} has no {SUITE}/{NAMES[4]}"):
        get(tmp_path)


@pytest.mark.parametrize(
    ("route", "status", "kind"),
    [
        ("/api/datasets", 404, Unsupported),
        (f"/api/datasets/{REPOSITORY}/tree", 404, Unsupported),
        ("/datasets", 403, Unsupported),
        ("/cdn", 404, Unsupported),
        ("/cdn", 501, RunFailed),
        ("/api/datasets", 503, RunFailed),
    ],
)
def test_what_the_server_refuses_is_one_line(hub, tmp_path, route, status, kind):
    hub.status[route] = status
    with pytest.raises(kind, match=rf"at {hub.address}: the server answered {status}") as caught:
        get(tmp_path)
    assert "\n" not in str(caught.value)
    assert present(tmp_path) == []


def test_nobody_at_the_address_is_one_line_with_the_documented_code(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert invoke(["libero", "fetch", SUITE, "-o", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "http://127.0.0.1:9" in error
    assert "refused" in error
    assert error.count("\n") == 1
    assert not list(tmp_path.rglob("*.hdf5"))


def test_a_disk_that_is_too_small_is_said_before_anything_is_fetched(hub, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(Unsupported, match=r"has 0\.0 GB free, the files need"):
        get(tmp_path)
    assert hub.ranges == []


def test_the_command_by_name(hub, tmp_path, capsys):
    assert invoke(["libero", "fetch", SUITE, "-o", str(tmp_path)]) == 0
    assert present(tmp_path / "libero") == sorted(NAMES)
    assert "verified" in capsys.readouterr().out
    (tmp_path / "libero" / SUITE / NAMES[0]).unlink()
    assert invoke(["libero", "fetch", SUITE, "-o", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert list(found["fetched"]) == [f"{SUITE}/{NAMES[0]}"]
    assert sorted(found["suites"][SUITE]) == sorted(NAMES)
    assert found["folder"] == str(tmp_path / "libero")
    assert "verified" in err
    assert invoke(["libero", "fetch", "libero_gaol"]) == 2
    assert "did you mean 'libero_goal'" in capsys.readouterr().err
    assert invoke(["libero", "fetch"]) == 2
