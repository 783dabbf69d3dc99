"""A page that shows a run while it goes on: the report's player, served to this machine by the standard library."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any

from sim.io.player import Take, player_data
from sim.io.report import asset
from sim.io.run_folder import to_json

LOOPBACK = "127.0.0.1"
WATCHED = 3.0
"""Somebody watches who asked within this time [s]."""
LAST = 4.0
"""So long [s] the end of a run waits for who watches to fetch it."""
ENTRIES = 12
"""Iterations that are shown."""


class LivePage:
    """Serves the page from its making to `close`.

    Nothing is encoded before it is asked for, and then by the thread of who asks.  `url`: where it is; port: 0 takes a
    free one.  `spent`: time [s] that encoding took.
    """

    def __init__(self, title: str, about: str = "", port: int = 0) -> None:
        self._page = _page(title, about).encode()
        self._lock = threading.Lock()
        self._version = 0
        self._takes: dict[str, Take] = {}
        self._moved = 0  # the version that changed the takes last
        self._entries: list[Mapping[str, Any]] = []
        self._ended: Path | None = None
        self._asked = float("-inf")
        self._fetched = threading.Event()
        self.closed = False
        self.spent = 0.0
        self._server = _Server(self, port)
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="live page", daemon=True)
        self._thread.start()

    @property
    def watched(self) -> bool:
        """Whether somebody has asked lately."""
        return time.monotonic() - self._asked < WATCHED

    def show(self, takes: Sequence[Take]) -> None:
        """Takes in the place of those of the same name; the order is that of the first call."""
        with self._lock:
            self._takes |= {take.name: take for take in takes}
            self._version += 1
            self._moved = self._version

    def say(self, entry: Mapping[str, Any]) -> None:
        """An iteration: `iteration`, `loss`, `parameters`."""
        with self._lock:
            self._entries = [*self._entries, entry][-ENTRIES:]
            self._version += 1

    def close(self, report: Path | None = None) -> None:
        """Ends the page, and hands whoever watches the report."""
        if report is not None and report.is_file():
            with self._lock:
                self._ended = report
                self._version += 1
            if self.watched:
                self._fetched.wait(LAST)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.closed = True

    def state(self, since: int) -> bytes | None:
        """What is new after version `since`, as JSON; None: nothing."""
        self._asked = time.monotonic()
        with self._lock:
            version, takes, entries = self._version, list(self._takes.values()), list(self._entries)
            moved, ended = self._moved > since, self._ended is not None
        if version == since:
            return None
        state = {"version": version, "entries": entries, "ended": ended}
        before = time.thread_time()
        encoded = to_json(state | ({"takes": player_data(takes)} if moved else {})).encode()
        self.spent += time.thread_time() - before
        return encoded

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, kind and content of a path."""
        if path == "/":
            return 200, "text/html; charset=utf-8", self._page
        name, _, since = path.partition("?since=")
        if name == "/state" and since.isdigit():
            state = self.state(int(since))
            return (204, "application/json", b"") if state is None else (200, "application/json", state)
        if path == "/report" and self._ended is not None:
            self._fetched.set()
            return 200, "text/html; charset=utf-8", self._ended.read_bytes()
        return 404, "text/plain", b"there is no such page"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, page: LivePage, port: int) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.page = page

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:  # noqa: N802  http.server's name
        """Answers; but not other names of this machine, by which a page of elsewhere could read it."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        status, kind, content = (
            self.server.page.answer(self.path) if host in (LOOPBACK, "localhost") else (403, "text/plain", b"not here")
        )
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """The terminal is the run's."""


def _page(title: str, about: str) -> str:
    scripts = ("charts.js", "drawing.js", "renderer.js", "player.js", "live.js")
    return Template(asset("live.html")).substitute(
        title=escape(title), about=escape(about), style=asset("report.css"), player=asset("player.html"),
        scripts="\n".join(map(asset, scripts)),
    )  # fmt: skip
