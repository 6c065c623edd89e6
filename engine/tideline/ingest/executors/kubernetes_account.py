"""How a pod talks to the API server: as its service account, with a few plain requests.

Connections are kept: a warm worker sends six requests for each operation, and a TLS handshake costs
both sides more than the request.
"""

from __future__ import annotations

import io
import json
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from urllib3 import BaseHTTPResponse, PoolManager, Retry
from urllib3.exceptions import HTTPError

from tideline.secret_values import note_secrets

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
# A connection that the server has closed meanwhile is noticed at the next request.
_RETRIES = Retry(1, allowed_methods=["GET", "PATCH", "DELETE"], status=0)


@dataclass(frozen=True, slots=True)
class KubernetesAccount:
    """The files of a pod's service account; the token is read each time, because it is renewed."""

    token: Path = _ACCOUNT / "token"
    authorities: Path = _ACCOUNT / "ca.crt"

    @contextmanager
    def send(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = _JSON,
        timeout_s: float,
    ) -> Iterator[BaseHTTPResponse]:
        """The open answer. Raises urllib's HTTPError, and OSError or ValueError without one."""
        token = self.token.read_text("utf-8").strip()
        note_secrets([token])
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": content_type,
            "Accept": _JSON,
        }
        changed_ns = self.authorities.stat().st_mtime_ns
        try:
            answer = _connections(str(self.authorities), changed_ns).request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=timeout_s,
                preload_content=False,
                redirect=False,
                retries=_RETRIES,
            )
            with answer:
                if not 200 <= answer.status < 300:
                    body_read = io.BytesIO(answer.read())
                    headers_read: Any = answer.headers
                    raise urllib.error.HTTPError(
                        url, answer.status, str(answer.reason), headers_read, body_read
                    )
                yield answer
        except HTTPError as error:
            raise OSError(f"no answer from {url}: {error}") from error

    def call(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = _JSON,
        timeout_s: float,
    ) -> dict[str, Any]:
        """The answer as JSON; raises as `send` does."""
        with self.send(method, url, body, content_type=content_type, timeout_s=timeout_s) as answer:
            content: dict[str, Any] = json.loads(answer.read())
        return content

    def watch(
        self, url: str, query: Mapping[str, str], *, timeout_s: float
    ) -> Iterator[dict[str, Any]]:
        """The events of a watch until the server ends it, after `timeout_s`: first one for each
        object there is. Raises as `send` does."""
        seconds = str(max(1, round(timeout_s)))
        text = urlencode({**query, "watch": "1", "timeoutSeconds": seconds})
        # A connection that stays silent past the end of its watch is dead.
        with self.send("GET", f"{url}?{text}", timeout_s=timeout_s + 10) as answer:
            for line in answer:
                yield json.loads(line)


@lru_cache(maxsize=2)
def _connections(authorities: str, _changed_ns: int) -> PoolManager:
    """To servers that these authorities vouch for; other ones after a change of the file."""
    return PoolManager(ca_certs=authorities, maxsize=2)
