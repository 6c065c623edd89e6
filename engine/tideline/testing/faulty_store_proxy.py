"""An HTTP proxy before the server of a store that misbehaves on request, on the loopback interface.

It shows what an in-process fault cannot: how the client itself takes a 503, a dropped connection,
a stall, or a request that was carried out although no reply came back.
"""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from http.server import BaseHTTPRequestHandler
from random import Random
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tideline.storage.location import StoreLocation
from tideline.testing.fault_counts import count_fault
from tideline.testing.loopback_server import LoopbackServer

_SLOW_DOWN = b"<Error><Code>SlowDown</Code></Error>"
_INTERNAL_ERROR = b"<Error><Code>InternalError</Code></Error>"
_PRECONDITION = b"<Error><Code>PreconditionFailed</Code></Error>"


class ProxyFault(Enum):
    """What happens to one request."""

    ANSWER_503 = "503 without asking the server"
    ANSWER_429 = "429 without asking the server: too many requests"
    DROP_REQUEST = "the connection closes before the server is asked"
    STALL = "no answer until the proxy stops"
    APPLY_AND_STALL = "the server acts, no answer until the proxy stops"
    APPLY_AND_DROP_REPLY = "the server acts, the connection closes"
    APPLY_AND_ANSWER_500 = "the server acts, the client gets a 500"
    APPLY_AND_ANSWER_412 = "the server acts, the client hears that its condition does not hold"
    ANSWER_200_ALONE = "200 as of a write, without asking the server"
    ANSWER_200_WITH_ERROR = "200 with an error in its body, without asking the server"
    SAY_GZIP = "the answer says Content-Encoding: gzip, and is not"
    CUT_BODY = "the server acts, the connection closes in the middle of the answer"


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request that reached the proxy."""

    method: str
    target: str


class FaultyStoreProxy(LoopbackServer):
    """Forwards to `upstream` (host:port, or None for a server that only has faults)."""

    def __init__(self, upstream: str | None = None) -> None:
        self.suffered: Counter[ProxyFault] = Counter()
        """How many requests each fault has happened to."""
        self._requests: list[SeenRequest] = []
        self._upstream = upstream
        self._faults: dict[str, tuple[ProxyFault, ...]] = {}
        self._always: ProxyFault | None = None
        self._at: tuple[str, ProxyFault, int] | None = None
        self._rates: Mapping[ProxyFault, float] = {}
        self._random = Random(0)
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        super().__init__(partial(_Handler, self))

    @classmethod
    def before(cls, location: StoreLocation) -> Self:
        """In front of the server of a location."""
        return cls(urlsplit(location.server() or "").netloc)

    @property
    def endpoint(self) -> str:
        return self.url

    def reached(self, location: StoreLocation) -> StoreLocation:
        """The same place, with requests that go through this proxy."""
        server = f"http://{self._upstream}"
        options = {name: text.replace(server, self.url) for name, text in location.options}
        return StoreLocation.of(location.uri, options)

    @property
    def requests(self) -> tuple[SeenRequest, ...]:
        """All requests that arrived, in order."""
        return tuple(self._requests)

    def inject(self, fault: ProxyFault, *, method: str = "PUT", times: int = 1) -> None:
        """Let the next `times` requests of `method` suffer `fault`, after earlier injections."""
        with self._changing:
            self._faults[method] = (*self._faults.get(method, ()), *(fault,) * times)

    def inject_at(self, part: str, fault: ProxyFault, *, times: int = 1) -> None:
        """Let the next `times` requests suffer `fault` that have `part` in their targets."""
        with self._changing:
            self._at = (part, fault, times)

    def inject_always(self, fault: ProxyFault) -> None:
        """Let every request suffer `fault` from now on."""
        self._always = fault

    def inject_randomly(self, rates: Mapping[ProxyFault, float], *, seed: int) -> None:
        """Let each request from now on suffer a fault with the probability given for it."""
        with self._changing:
            self._rates, self._random = rates, Random(seed)

    def count(self, method: str) -> int:
        """How many requests of `method` arrived."""
        return sum(request.method == method for request in self.requests)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        super().__exit__(kind, error, trace)

    def _next_fault(self, request: SeenRequest) -> ProxyFault | None:
        with self._changing:
            self._requests.append(request)
            fault = self._drawn_fault(request)
            if fault is not None:
                self.suffered[fault] += 1
            return fault

    def _drawn_fault(self, request: SeenRequest) -> ProxyFault | None:
        if self._always is not None:
            return self._always
        if self._at is not None and self._at[2] and self._at[0] in request.target:
            part, fault, times = self._at
            self._at = (part, fault, times - 1)
            return fault
        waiting = self._faults.get(request.method, ())
        self._faults[request.method] = waiting[1:]
        if waiting:
            return waiting[0]
        draw = self._random.random() if self._rates else 1.0
        for fault, rate in self._rates.items():
            draw -= rate
            if draw < 0:
                return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, proxy: FaultyStoreProxy, *given: object) -> None:
        self._proxy = proxy
        super().__init__(*given)  # type: ignore[arg-type]

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self._proxy._next_fault(SeenRequest(self.command, self.path))
        if fault is not None:
            count_fault(f"on the wire {fault.name.lower().replace('_', ' ')}")
        match fault:
            case ProxyFault.DROP_REQUEST:
                self.close_connection = True
            case ProxyFault.STALL:
                self._proxy._stopping.wait()
                self.close_connection = True
            case ProxyFault.ANSWER_503:
                self._answer(503, [], _SLOW_DOWN)
            case ProxyFault.ANSWER_200_ALONE:
                self._answer(200, [("ETag", '"made-up"'), ("x-goog-generation", "7")], b"")
            case ProxyFault.ANSWER_200_WITH_ERROR:
                self._answer(200, [("Content-Type", "application/xml")], _INTERNAL_ERROR)
            case ProxyFault.ANSWER_429:
                self._answer(429, [], _SLOW_DOWN)
            case _:
                self._forward(body, fault)

    def _forward(self, body: bytes, fault: ProxyFault | None) -> None:
        upstream = self._proxy._upstream
        if upstream is None:
            self._answer(500, [], _INTERNAL_ERROR)
            return
        connection = http.client.HTTPConnection(upstream, timeout=30)
        try:
            # The client signed its Host header; it must arrive unchanged.
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            # The server is away.
            self.close_connection = True
            return
        finally:
            connection.close()
        if fault is ProxyFault.APPLY_AND_DROP_REPLY:
            self.close_connection = True
        elif fault is ProxyFault.APPLY_AND_STALL:
            self._proxy._stopping.wait()
            self.close_connection = True
        elif fault is ProxyFault.APPLY_AND_ANSWER_500:
            self._answer(500, [], _INTERNAL_ERROR)
        elif fault is ProxyFault.APPLY_AND_ANSWER_412:
            self._answer(412, [], _PRECONDITION)
        else:
            own = response.getheaders()
            if fault is ProxyFault.SAY_GZIP:
                own.append(("Content-Encoding", "gzip"))
            is_cut = fault is ProxyFault.CUT_BODY
            self._answer(response.status, own, answer, is_cut=is_cut)

    def _answer(
        self, status: int, headers: list[tuple[str, str]], body: bytes, *, is_cut: bool = False
    ) -> None:
        self.send_response_only(status)
        length = len(body)
        for name, value in headers:
            if name.lower() == "content-length":
                length = int(value)
            elif name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if is_cut else body)
        if is_cut:
            self.close_connection = True
