"""Requests to what a platform offers to its machines and containers: their credentials.

Never through a proxy: the services are the machine's own.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException

TIMEOUT_S = 5.0
_ANSWER_BYTES_MAX = 64 * 1024


def metadata(url: str, headers: Mapping[str, str]) -> bytes:
    """What is answered to a GET. Raises OSError."""
    return answer_of(urllib.request.Request(url, headers=dict(headers)), TIMEOUT_S)


def answer_of(request: urllib.request.Request, timeout_s: float) -> bytes:
    """What is answered with 200. Raises OSError."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            if answer.status != HTTPStatus.OK:
                raise OSError(f"answered with {answer.status}")
            return bytes(answer.read(_ANSWER_BYTES_MAX))
    except HTTPException as error:
        raise OSError(f"no answer in HTTP: {type(error).__name__}") from None
