"""A played hub: an HTTP server on this machine that answers as the hub does, and fails on demand.

It serves what clients ask of the hub: the description of a model with its files, sizes and
checksums, the tree, and files. Files above ``LARGE`` bytes are LFS files: they are redirected to a
second server, as the hub redirects to its content network.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = 1000
CHUNK = 64


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Repo:
    """One repository at one commit. ``described`` overrides what the description says of it."""

    files: dict[str, bytes]
    commit: str = "7ae557604adf67be50417f59c2c2f167def9a775"
    refs: dict[str, str] = field(default_factory=lambda: {"main": ""})
    gated: str | bool = False
    private: bool = False
    token: str | None = None  # who has it gets the files of a gated or private repository
    described: dict[str, Any] = field(default_factory=dict)
    siblings: list[dict[str, Any]] | None = None

    def knows(self, revision: str) -> bool:
        return revision in self.refs or revision == self.commit


@dataclass
class Fault:
    """What goes wrong with requests whose ``METHOD path`` matches: ``times`` of them (-1: all).

    ``status`` with ``headers`` answers so; ``cut`` closes the connection after so many bytes of the
    body; ``length`` is a wrong Content-Length (-2: none); ``corrupt`` changes the content;
    ``redirect`` sends the client there; ``ignore_range`` sends the whole file; ``wait`` sleeps
    before each piece; ``hold`` stops after ``cut`` bytes until the event is set; ``gate`` holds the
    whole answer back until then; ``body`` replaces the answer.
    """

    match: str
    times: int = -1
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = -1
    length: int = -1
    corrupt: bool = False
    redirect: str = ""
    ignore_range: bool = False
    wait: float = 0.0
    hold: threading.Event | None = None
    gate: threading.Event | None = None
    body: bytes | None = None


@dataclass
class Request:
    server: str
    method: str
    path: str
    headers: dict[str, str]


class PlayedHub:
    """``with PlayedHub() as hub``: ``hub.url`` is the endpoint, ``hub.repos`` what it has,
    ``hub.faults`` what fails, ``hub.requests`` what was asked."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.most = self._sending = 0
        self._guard = threading.Lock()
        self._hub = self._server("hub")
        self._cdn = self._server("cdn")
        self.url = f"http://127.0.0.1:{self._hub.server_address[1]}"
        self.cdn_url = f"http://127.0.0.1:{self._cdn.server_address[1]}"

    def _server(self, name: str) -> ThreadingHTTPServer:
        played = self

        class Handler(_Handler):
            hub = played
            server_name = name

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        return server

    def __enter__(self) -> PlayedHub:
        for server in (self._hub, self._cdn):
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        for fault in self.faults:
            for event in (fault.hold, fault.gate):
                if event is not None:
                    event.set()
        for server in (self._hub, self._cdn):
            server.shutdown()
            server.server_close()

    def add(self, name: str, files: Mapping[str, bytes], **fields: Any) -> Repo:
        repo = self.repos[name] = Repo(dict(files), **fields)
        return repo

    def fail(self, match: str, **fields: Any) -> Fault:
        fault = Fault(match, **fields)
        self.faults.append(fault)
        return fault

    def fault_for(self, request: Request) -> Fault | None:
        with self._guard:
            for fault in self.faults:
                if fault.times and re.search(fault.match, f"{request.method} {request.path}"):
                    fault.times -= 1
                    return fault
        return None

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Counts contents that are sent at the same time; ``most`` is the largest number."""
        with self._guard:
            self._sending += 1
            self.most = max(self.most, self._sending)
        try:
            yield
        finally:
            with self._guard:
                self._sending -= 1

    def note(self, request: Request) -> None:
        with self._guard:
            self.requests.append(request)

    def asked(self, pattern: str) -> list[Request]:
        return [r for r in self.requests if re.search(pattern, f"{r.method} {r.path}")]

    def blob(self, digest: str) -> bytes | None:
        for repo in self.repos.values():
            for data in repo.files.values():
                if sha256(data) == digest:
                    return data
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: PlayedHub
    server_name: str

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        held = {key.lower(): value for key, value in self.headers.items()}
        request = Request(self.server_name, self.command, unquote(parts.path), held)
        self.hub.note(request)
        fault = self.hub.fault_for(request)
        if fault is not None and fault.gate is not None:
            fault.gate.wait(60)
        try:
            if fault is not None and fault.status:
                self._plain(fault.status, fault.body or b"{}", fault.headers)
            elif fault is not None and fault.redirect:
                self._plain(302, b"", {"Location": fault.redirect})
            elif self.server_name == "cdn":
                with self.hub.counted():
                    self._cdn(request.path, fault)
            elif request.path.startswith("/api/models/"):
                self._api(request, parse_qs(parts.query), fault)
            else:
                self._resolve(request, parts.path, fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # ------------------------------------------------------------ parts of the hub

    def _error(self, status: int, code: str, message: str) -> None:
        self._plain(status, b"{}", {"X-Error-Code": code, "X-Error-Message": message})

    def _repo(self, name: str, request: Request, files: bool) -> Repo | None:
        """The repository, when this client may see it; answers the refusal otherwise."""
        repo = self.hub.repos.get(name)
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        opened = repo is not None and repo.token is not None and given == repo.token
        if repo is None or (repo.private and not opened):
            if given:
                self._error(404, "RepoNotFound", "Repository not found")
            else:
                self._error(401, "RepoNotFound", "Invalid username or password.")
            return None
        if files and repo.gated and not opened:
            self._error(403 if given else 401, "GatedRepo", f"Access to model {name} is restricted")
            return None
        return repo

    def _api(self, request: Request, query: dict[str, list[str]], fault: Fault | None) -> None:
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", request.path)
        if not found:
            self._error(404, "", "no such page")
            return
        repo = self._repo(found[1], request, False)
        if repo is None:
            return
        revision = found[3] or "main"
        if not repo.knows(revision):
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        if found[2] == "tree":
            answer: Any = [self._tree_entry(name, data) for name, data in repo.files.items()]
        else:
            answer = self._description(found[1], repo, "blobs" in query)
        body = json.dumps(answer).encode()
        if fault is not None and fault.body is not None:
            body = fault.body
        self._plain(200, body, {"Content-Type": "application/json"}, fault)

    def _tree_entry(self, name: str, data: bytes) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "type": "file",
            "path": name,
            "size": len(data),
            "oid": git_sha1(data),
        }
        if len(data) > LARGE:
            entry["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 134}
        return entry

    def _description(self, name: str, repo: Repo, blobs: bool) -> dict[str, Any]:
        siblings = []
        for path, data in repo.files.items():
            row: dict[str, Any] = {"rfilename": path}
            if blobs:
                row |= {"size": len(data), "blobId": git_sha1(data)}
                if len(data) > LARGE:
                    row["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
            siblings.append(row)
        return {
            "id": name,
            "modelId": name,
            "sha": repo.commit,
            "private": repo.private,
            "gated": repo.gated,
            "tags": [],
            "siblings": siblings if repo.siblings is None else repo.siblings,
            **repo.described,
        }

    def _resolve(self, request: Request, raw: str, fault: Fault | None) -> None:
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", raw)
        if not found:
            self._error(404, "", "no such page")
            return
        repo = self._repo(unquote(found[1]), request, True)
        if repo is None:
            return
        revision, name = unquote(found[2]), unquote(found[3])
        commit = {"X-Repo-Commit": repo.commit}
        if not repo.knows(revision):
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        data = repo.files.get(name)
        if data is None:
            self._error(404, "EntryNotFound", "Entry not found")
            return
        if len(data) <= LARGE:
            self._file(data, {**commit, "ETag": f'"{git_sha1(data)}"'}, fault)
            return
        headers = {
            **commit,
            "X-Linked-Etag": f'"{sha256(data)}"',
            "X-Linked-Size": str(len(data)),
            "Location": f"{self.hub.cdn_url}/blob/{sha256(data)}?signature=x",
        }
        self._plain(302, b"", headers)

    def _cdn(self, path: str, fault: Fault | None) -> None:
        data = self.hub.blob(path.rpartition("/")[2])
        if data is None:
            self._plain(404, b"gone", {})
            return
        self._file(data, {"ETag": '"cdn"'}, fault)

    # ------------------------------------------------------------ sending

    def _file(self, data: bytes, headers: Mapping[str, str], fault: Fault | None) -> None:
        if fault is not None and fault.corrupt:
            data = bytes(byte ^ 1 for byte in data)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and not (fault is not None and fault.ignore_range):
            start = int(asked[1])
            end = min(int(asked[2] or len(data) - 1), len(data) - 1)
            if start >= len(data):
                self._plain(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                return
            span = {"Content-Range": f"bytes {start}-{end}/{len(data)}"}
            self._plain(206, data[start : end + 1], {**headers, **span}, fault)
            return
        self._plain(200, data, {**headers, "Accept-Ranges": "bytes"}, fault)

    def _plain(
        self, status: int, body: bytes, headers: Mapping[str, str], fault: Fault | None = None
    ) -> None:
        length = len(body)
        if fault is not None and fault.length >= 0:
            length = fault.length
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if fault is not None and fault.length == -2:
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is None or (fault.cut < 0 and not fault.wait):
            self.wfile.write(body)
            if fault is not None and fault.length >= 0:
                self.close_connection = True
            return
        end = len(body) if fault.cut < 0 else min(fault.cut, len(body))
        for start in range(0, end, CHUNK):
            self.wfile.write(body[start : min(start + CHUNK, end)])
            self.wfile.flush()
            time.sleep(fault.wait)
        if fault.hold is not None:
            fault.hold.wait(60)
        if fault.cut >= 0:
            self.close_connection = True
            self.connection.close()
