"""One POST, one answer, no redirect: for services that are asked with a body.

Bodies have secrets, and signed requests are meant for one server: neither is ever in a URL, which
proxies log, and neither is sent elsewhere.
"""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from http.client import HTTPException
from typing import IO, Any
from urllib.parse import urlsplit

from tideline.storage.egress.client_certificate import ClientCertificate
from tideline.storage.egress.route import EgressRoute

_SCHEMES = ("http://", "https://")
"""Python opens files and other servers as well, past any proxy."""
_CHUNK_BYTES = 64 * 1024
_ANSWER_TIMEOUTS = 3


class NoAnswerError(Exception):
    """A server was not reached; the words say why, and hold no secret."""


def answer_to_post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    bytes_max: int,
    authorities: bytes | None = None,
    client: ClientCertificate | None = None,
    route: EgressRoute | None = None,
) -> tuple[int, bytes]:
    """The status and the first `bytes_max` bytes of the answer, which has three times the timeout
    until its last byte. `authorities` are certificates (PEM) to trust besides the machine's,
    `client` is shown to the server.

    Raises NoAnswerError.
    """
    if not url.lower().startswith(_SCHEMES):
        raise NoAnswerError("its URL is none of HTTP")
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if url.lower().startswith("https:"):
        handlers.append(urllib.request.HTTPSHandler(context=_context(authorities, client)))
    request = urllib.request.Request(url, data=body, headers=dict(headers), method="POST")
    if route is not None:
        # Python's own way leaves the proxy out for hosts that NO_PROXY names.
        handlers.append(urllib.request.ProxyHandler({}))
        request.add_header("Proxy-Authorization", f"Basic {route.ticket()}")
        request.set_proxy(urlsplit(route.proxy_url).netloc.rpartition("@")[2], "http")
    opener = urllib.request.build_opener(*handlers)
    until_s = time.monotonic() + timeout_s * _ANSWER_TIMEOUTS
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return HTTPStatus.OK, _read(answer, bytes_max, until_s)
    except urllib.error.HTTPError as error:
        with error:
            refusal = _read(error, bytes_max, until_s)
        if (problem := _problem(route)) is not None:
            raise NoAnswerError(problem) from None
        return error.code, refusal
    except HTTPException as error:
        raise NoAnswerError(f"no answer in HTTP: {type(error).__name__}") from None
    except (OSError, ValueError) as error:
        why: object = _problem(route) or getattr(error, "reason", error)
        raise NoAnswerError(str(why)) from None


@lru_cache(maxsize=16)
def _context(authorities: bytes | None, client: ClientCertificate | None) -> ssl.SSLContext:
    """Kept: the machine's certificates take a tenth of a second to read."""
    if client is not None:
        return client.context(authorities)
    context = ssl.create_default_context()
    if authorities is not None:
        context.load_verify_locations(cadata=authorities.decode())
    return context


def _problem(route: EgressRoute | None) -> str | None:
    return None if route is None else route.problem()


def _read(answer: IO[bytes], bytes_max: int, until_s: float) -> bytes:
    chunks: list[bytes] = []
    left = bytes_max
    while left > 0 and (chunk := answer.read1(min(left, _CHUNK_BYTES))):  # type: ignore[attr-defined]
        chunks.append(chunk)
        left -= len(chunk)
        if time.monotonic() > until_s:
            raise TimeoutError("the answer takes too long")
    return b"".join(chunks)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
