"""How a pod talks to the API server: as its service account, with a few plain requests."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tideline.secret_values import note_secrets

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class KubernetesAccount:
    """The files of a pod's service account; the token is read each time, because it is renewed."""

    token: Path = _ACCOUNT / "token"
    authorities: Path = _ACCOUNT / "ca.crt"

    def send(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = _JSON,
        timeout_s: float,
    ) -> AbstractContextManager[HTTPResponse]:
        """The open answer. Raises urllib's HTTPError, and OSError or ValueError without one."""
        token = self.token.read_text("utf-8").strip()
        note_secrets([token])
        request = urllib.request.Request(
            url,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": content_type,
                "Accept": _JSON,
            },
            method=method,
        )
        context = ssl.create_default_context(cafile=str(self.authorities))
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=timeout_s, context=context)
        return answer

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
