"""Requests of service accounts to the API server, from its audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its account (`namespace:name`), what it was, and what came of it."""

    account: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int

    @staticmethod
    def of(line: str) -> Request:
        noted: dict[str, Any] = json.loads(line)
        what: dict[str, str] = noted.get("objectRef", {})
        parts = (what.get("resource", ""), what.get("subresource", ""))
        return Request(
            account=noted["user"]["username"].removeprefix(_ACCOUNT),
            verb=noted["verb"],
            resource="/".join(filter(None, parts)),
            namespace=what.get("namespace", ""),
            name=what.get("name", ""),
            code=noted.get("responseStatus", {}).get("code", 0),
        )


class RequestLog:
    """The audit log from where it ends now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.stat().st_size

    def requests(self) -> Iterator[Request]:
        """The complete lines since then."""
        with self._path.open(encoding="utf-8") as log:
            log.seek(self._start)
            yield from (Request.of(line) for line in log if line.endswith("\n"))
