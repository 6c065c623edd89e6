"""Requests to a REST catalog: to the servers that configuration names alone, and bounded.

1. No redirect is followed. Credentials, and requests without them, go to the catalog's server and
   to the one that `oauth2-server-uri` names; what authenticates at the first is not sent to the
   second, but for a token that is exchanged there.
2. An answer has `ANSWER_TIMEOUTS` times the timeout until its last byte, whether it stalls in its
   head, between two chunks or between two bytes: then the connection is closed under it.
3. Of an answer at most one byte more than the limit is read, of a refusal `REFUSAL_BYTES_MAX`. What
   it decompresses to has the same limit, and its JSON those of all files that others wrote.
4. The pages of one listing have these limits together.
5. A request that the server had no time for (429, 503) is sent again when the server says, within
   the time of one answer. Where one of the answers was 503 the last one of these is given, unless
   the request was done in the end: behind a gateway the first may have been handled, or be yet, and
   a refusal of the second says nothing about that.
6. Where the server remembers changes by their keys (`idempotency`), each has one, and is sent again
   with it after 500, 502, 504 and a lost connection as well, as long as the server remembers it.

Needs the extra `iceberg`.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from tideline.bounded.parsing import decompress_bounded, parse_json
from tideline.bounded.read_limits import read_limits, too_large
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.iceberg.table.busy_server import TOO_MANY_REQUESTS, UNKNOWN, busy_wait_s
from tideline.iceberg.table.idempotency import HEADER as KEY
from tideline.iceberg.table.idempotency import Remembered, new_key
from tideline.iceberg.table.strange_types import with_stand_ins
from tideline.trust.catalog_access import CatalogAccess
from tideline.trust.foreign_words import quoted
from tideline.trust.server_address import ServerAddress

ANSWER_TIMEOUTS = 3
REFUSAL_BYTES_MAX = 64 * 1024
PAGES_MAX = 1_000
"""Of one listing."""
_CHUNK_BYTES = 256 * 1024
_ANSWER = "the catalog's answer"
_CONFIG, _TOKENS = "/v1/config", "/oauth/tokens"
_CHANGES = ("POST", "DELETE")
_NO_ANSWER = 504
_current = threading.local()


@dataclass(slots=True)
class Listing:
    """What the pages of a listing took so far."""

    url: str = ""
    pages: int = 0
    size_bytes: int = 0
    until_s: float = 0.0


class BoundedSession(requests.Session):
    """Sends to the server of `uri`, and without its credentials to that of `oauth2_server`."""

    def __init__(
        self,
        uri: str,
        oauth2_server: str | None,
        access: CatalogAccess,
        timeout_s: float,
        remembered: Remembered | None = None,
    ) -> None:
        """`remembered` is shared by the sessions of one catalog."""
        super().__init__()
        self._remembered = remembered or Remembered()
        self._catalog = ServerAddress.of(uri)
        self._servers = {self._catalog, ServerAddress.of(oauth2_server or uri)}
        self._access = access
        self._timeout_s = timeout_s
        self._listing = Listing()
        self.bound_headers: tuple[str, ...] = ()
        """Headers that are for the catalog's server alone."""
        self.is_for_tokens = False
        """Whether all that its requests carry is for the server of tokens."""
        self.trust_env = access.is_of_process
        if not self.trust_env:
            # Certificate authorities are no identity of this process; netrc and proxies are.
            self.verify = (
                os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
            )
        for scheme in ("http://", "https://"):
            self.mount(scheme, _WatchedAdapter())

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Redirects are answers."""

    def send(self, request: requests.PreparedRequest, **given: Any) -> requests.Response:
        """Raises ConfigError for a redirect or a server that nobody named, UnsupportedTableError
        and CorruptTableError for an answer beyond the limits, and what requests raises."""
        url = str(request.url)
        server = ServerAddress.of(url)
        if server not in self._servers:
            message = (
                "a request would go to a server that the catalog's configuration does not name"
            )
            raise ConfigError(message, value=str(server))
        if server != self._catalog and not self.is_for_tokens:
            for name in ("Authorization", *self.bound_headers):
                request.headers.pop(name, None)
        elif self._remembered.seconds and request.method in _CHANGES and not _is_token(url):
            request.headers[KEY] = new_key(time.time_ns() // 1_000_000, os.urandom(10))
        request.headers["Accept-Encoding"] = "gzip, identity"
        if self._access.proxy_for is not None:
            through = self._access.proxy_for(url)
            given["proxies"] = {"http": through, "https": through}
        given |= {"allow_redirects": False, "stream": True, "timeout": self._timeout_s}
        return self._patiently(request, given, self._pages(request))

    def _patiently(
        self, request: requests.PreparedRequest, given: dict[str, Any], listing: Listing
    ) -> requests.Response:
        """The answer, once the server has time."""
        is_keyed, within_s = KEY in request.headers, self._timeout_s * ANSWER_TIMEOUTS
        lives_s = self._remembered.seconds if is_keyed else within_s
        until_s = time.monotonic() + min(within_s, lives_s)
        doubtful: requests.Response | requests.RequestException | None = None
        for attempt in count(1):
            found = self._answer_or_loss(request, given, listing, is_keyed=is_keyed)
            if isinstance(found, requests.Response):
                status, headers = found.status_code, found.headers
            else:
                status, headers = _NO_ANSWER, CaseInsensitiveDict()
            if status in UNKNOWN:
                doubtful = found
            wait_s = busy_wait_s(status, headers, attempt, time.time(), is_remembered=is_keyed)
            if wait_s is None or time.monotonic() + wait_s > until_s:
                break
            time.sleep(wait_s)
        is_change = request.method not in ("GET", "HEAD")
        if doubtful is not None and (status == TOO_MANY_REQUESTS or (is_change and status >= 400)):
            found = doubtful
        if isinstance(found, requests.RequestException):
            raise found
        return found

    def _answer_or_loss(
        self,
        request: requests.PreparedRequest,
        given: dict[str, Any],
        listing: Listing,
        *,
        is_keyed: bool,
    ) -> requests.Response | requests.RequestException:
        """What answered a request, or why nothing did where it may be sent again."""
        try:
            return self._answer(request, given, listing)
        except (requests.ConnectionError, requests.Timeout) as error:
            if not is_keyed:
                raise
            return error

    def _answer(
        self, request: requests.PreparedRequest, given: dict[str, Any], listing: Listing
    ) -> requests.Response:
        with _watching(self._timeout_s * ANSWER_TIMEOUTS) as watch:
            response = super().send(request, **given)
            try:
                _refuse_redirect(response)
                body = self._body(response, watch, listing)
            except BaseException:
                response.close()
                raise
        response._content = body
        response._content_consumed = True
        # Otherwise requests guesses, which takes minutes for a large body.
        response.encoding = "utf-8"
        return response

    def _pages(self, request: requests.PreparedRequest) -> Listing:
        """The listing that a request continues, or begins."""
        url, _, query = str(request.url).partition("?")
        now_s = time.monotonic()
        if not (request.method == "GET" and "pageToken=" in query and url == self._listing.url):
            until_s = now_s + self._timeout_s * ANSWER_TIMEOUTS * 10
            self._listing = Listing(url, until_s=until_s)
        self._listing.pages += 1
        if self._listing.pages > PAGES_MAX or now_s > self._listing.until_s:
            raise ConfigError(f"the catalog's listing has no end after {self._listing.pages} pages")
        return self._listing

    def _body(self, response: requests.Response, watch: Watch, listing: Listing) -> bytes:
        is_refusal = response.status_code >= 400
        limit = read_limits().object_bytes_max - listing.size_bytes
        body = _read(response, REFUSAL_BYTES_MAX if is_refusal else limit, watch)
        if body is None and not is_refusal:
            raise too_large(_ANSWER, read_limits().object_bytes_max, path=_path(response))
        body = _decoded(response, body or b"")
        listing.size_bytes += len(body)
        if body and not is_refusal:
            document = parse_json(body, path=_path(response), what=_ANSWER)
            if _path(response).endswith(_CONFIG):
                self._remembered.take(document)
            body = with_stand_ins(body)
        return body


def _refuse_redirect(response: requests.Response) -> None:
    if 300 <= response.status_code < 400:
        to = quoted(response.headers.get("Location", "nowhere")).partition("?")[0]
        message = (
            f"the catalog redirects to {to}, which is not followed: give the address that answers "
            "as the catalog's uri"
        )
        raise ConfigError(message)


def _read(response: requests.Response, limit: int, watch: Watch) -> bytes | None:
    """The body as it was sent; None beyond the limit."""
    chunks: list[bytes] = []
    left = limit + 1
    try:
        while left > 0:
            chunk = response.raw.read1(min(left, _CHUNK_BYTES), decode_content=False)
            watch.check()
            if not chunk:
                break
            chunks.append(chunk)
            left -= len(chunk)
    except HTTPError as error:
        watch.check()
        raise requests.ConnectionError("the answer ends too soon") from error
    if left <= 0:
        response.close()
        return None
    response.raw.release_conn()
    return b"".join(chunks)


def _decoded(response: requests.Response, body: bytes) -> bytes:
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if coding in ("", "identity") or not body:
        return body
    if coding not in ("gzip", "x-gzip"):
        message = "the catalog's answer is compressed in a way that was not asked for"
        raise StorageUnavailableError(message, value=quoted(coding))
    return decompress_bounded("gzip", body, path=_path(response))


def _is_token(url: str) -> bool:
    return url.partition("?")[0].endswith(_TOKENS)


def _path(response: requests.Response) -> str:
    return str(response.url).partition("?")[0]


class Watch:
    """The time that an answer has. When it is over the connection is closed, which ends whatever
    reads from it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_over = False
        self.connection: HTTPConnection | None = None
        self.socket: Any = None
        self.timer = threading.Timer(seconds, self._end)
        self.timer.daemon = True

    def check(self) -> None:
        """Raises requests.ReadTimeout."""
        if self._is_over:
            raise requests.ReadTimeout(f"no whole answer in {self._seconds:.0f} s")

    def _end(self) -> None:
        self._is_over = True
        found = self.socket or getattr(self.connection, "sock", None)
        if found is not None:
            with suppress(OSError, TypeError):
                # Of a TLS socket, too, what is below it.
                socket.socket.shutdown(found, socket.SHUT_RDWR)


@contextmanager
def _watching(seconds: float) -> Iterator[Watch]:
    watch = Watch(seconds)
    _current.watch = watch
    watch.timer.start()
    try:
        yield watch
    except requests.RequestException:
        watch.check()
        raise
    finally:
        watch.timer.cancel()
        _current.watch = None


class _Watched:
    """A connection that the watch of its thread knows."""

    sock: Any

    def request(self, *given: Any, **named: Any) -> None:
        watch = getattr(_current, "watch", None)
        if watch is not None:
            watch.connection, watch.socket = self, None
        super().request(*given, **named)  # type: ignore[misc]

    def getresponse(self) -> Any:
        watch = getattr(_current, "watch", None)
        if watch is not None:
            # The connection forgets its socket where the server closes it after the answer.
            watch.socket = self.sock
        return super().getresponse()  # type: ignore[misc]


class _WatchedHTTP(_Watched, HTTPConnection):
    pass


class _WatchedHTTPS(_Watched, HTTPSConnection):
    pass


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _WatchedHTTP


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedHTTPS


class _WatchedAdapter(HTTPAdapter):
    """Connections, also through proxies, that a watch can close."""

    def init_poolmanager(self, *given: Any, **named: Any) -> None:
        super().init_poolmanager(*given, **named)
        self.poolmanager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}

    def proxy_manager_for(self, proxy: str, **named: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **named)
        manager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
        return manager
