"""Serves the pages of many tables on this machine, read-only.

1. `/` is the fleet, `/table/N` the page of its table N.
2. What was seen of a table is kept for `FRESH_S`; later it is looked at again, a few tables at
   once.
3. Only requests to this machine's own names are answered (`own_names`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tideline.errors import TidelineError
from tideline.report.fleet import COLUMNS, find_tables, fleet_row, look_at
from tideline.report.fleet_page import fleet_page
from tideline.report.html import document, headers_of, pill
from tideline.report.level import Level
from tideline.report.own_names import is_own_name
from tideline.report.page import page_of
from tideline.report.table_facts import TableFacts
from tideline.report.vega_bundle import vega_script

FRESH_S = 20.0
_LOOKS_MAX = 4


@dataclass(frozen=True, slots=True)
class _Missed:
    """Places that cannot be listed, and folders in others that cannot, with the reasons."""

    problems: tuple[str, ...]
    skipped: tuple[str, ...]


class PageServer:
    """The tables at and below some places. It listens on `host`; `port` 0 takes a free one."""

    def __init__(
        self,
        places: Sequence[str],
        storage: Mapping[str, str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places, self._storage = tuple(places), dict(storage)
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._uris: tuple[str, ...] = ()
        self._seen: dict[str, tuple[float, TableFacts | TidelineError]] = {}
        self._script = vega_script()
        self._host = host
        self._server = ThreadingHTTPServer((host, port), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Where it is reached from this machine."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def serve(self) -> None:
        """Serve until `stop`, or until an interrupt."""
        self._server.serve_forever()

    def stop(self) -> None:
        """End `serve`, which runs in another thread."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, str]:
        """Status and page for a path."""
        if path == "/":
            return self._fleet()
        head, _, number = path.rpartition("/")
        if head == "/table" and number.isdecimal():
            if not self._uris:
                self._find()
            if int(number) < len(self._uris):
                return self._table(self._uris[int(number)])
        return 404, document("Tideline", pill(Level.BROKEN, "there is no such page"))

    def _fleet(self) -> tuple[int, str]:
        missed = self._find()
        with ThreadPoolExecutor(_LOOKS_MAX) as threads:
            found = list(threads.map(self._look, self._uris))
        rows = [
            fleet_row(uri, facts, f"/table/{number}")
            for number, (uri, facts) in enumerate(zip(self._uris, found, strict=True))
        ]
        page = fleet_page(
            "Tideline", ", ".join(self._places), rows, COLUMNS, missed.problems, missed.skipped
        )
        return 500 if missed.problems else 200, page

    def _table(self, uri: str) -> tuple[int, str]:
        found = self._look(uri)
        if isinstance(found, TidelineError):
            return 500, document(uri, pill(Level.BROKEN, str(found)))
        return 200, page_of(found, self._script)

    def _find(self) -> _Missed:
        """Look for tables; what cannot be listed, in words."""
        uris: list[str] = []
        problems: list[str] = []
        skipped: list[str] = []
        for place in self._places:
            try:
                found = find_tables(place, self._storage)
            except TidelineError as error:
                problems.append(str(error))
                continue
            uris += found.uris
            skipped += found.skipped
        # Numbers in links stay those of their tables.
        known = [uri for uri in self._uris if uri in uris]
        self._uris = tuple(known + [uri for uri in uris if uri not in known])
        return _Missed(tuple(problems), tuple(skipped))

    def _look(self, uri: str) -> TableFacts | TidelineError:
        now_s = self._monotonic_s()
        with self._lock:
            seen = self._seen.get(uri)
        if seen is not None and now_s - seen[0] < FRESH_S:
            return seen[1]
        found = look_at(uri, self._storage)
        with self._lock:
            self._seen[uri] = now_s, found
        return found

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not is_own_name(self.headers.get("Host", ""), server._host):
                    status, page = 403, "ask for the address of this machine\n"
                else:
                    status, page = server.answer(self.path.partition("?")[0])
                body = page.encode()
                self.send_response(status)
                for name, value in headers_of(page).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler
