"""Credentials that the platform gives to a container or a machine, fetched without another client.

For clients whose requests reach nothing but their store. The metadata service is asked as IMDSv2
has it: with a token that it gave before.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tideline.secret_values import note_secrets
from tideline.storage.web_identity import IdentityError

CONTAINER_VARIABLES = (
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_CONTAINER_HOST = "http://169.254.170.2"
_TIMEOUT_S = 5.0
_ANSWER_BYTES_MAX = 64 * 1024


class MachineCredentials:
    """Gives current credentials when called, as obstore wants them."""

    def __init__(self, environment: Mapping[str, str], *, metadata_url: str | None) -> None:
        """Those of the machine at `metadata_url`, or else of the container that `environment`
        describes."""
        self._environment = environment
        self._metadata_url = metadata_url
        # Never through a proxy: the services are the machine's own.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __call__(self) -> dict[str, Any]:
        """Raises IdentityError when the platform gives none."""
        try:
            url = self._metadata_url
            body = self._of_container() if url is None else self._of_machine(url)
            answer = json.loads(body)
            found: dict[str, Any] = {
                "access_key_id": str(answer["AccessKeyId"]),
                "secret_access_key": str(answer["SecretAccessKey"]),
                "token": str(answer["Token"]),
                "expires_at": datetime.fromisoformat(answer["Expiration"]).astimezone(UTC),
            }
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise IdentityError(
                f"the platform gives no credentials ({type(error).__name__})"
            ) from None
        note_secrets([found["secret_access_key"], found["token"]])
        return found

    def _of_machine(self, url: str) -> bytes:
        wanted = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
        token = self._ask(f"{url}/latest/api/token", wanted, "PUT").decode().strip()
        shown = {"X-aws-ec2-metadata-token": token}
        roles = f"{url}/latest/meta-data/iam/security-credentials/"
        role = self._ask(roles, shown).decode().split()[0]
        return self._ask(roles + role, shown)

    def _of_container(self) -> bytes:
        relative, full = (self._environment.get(name) for name in CONTAINER_VARIABLES)
        token = self._environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if file := self._environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = Path(file).read_text(encoding="utf-8").strip()
        shown = {"Authorization": token} if token else {}
        return self._ask(_CONTAINER_HOST + relative if relative else str(full), shown)

    def _ask(self, url: str, headers: Mapping[str, str], method: str = "GET") -> bytes:
        request = urllib.request.Request(url, headers=dict(headers), method=method)
        with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
            return bytes(answer.read(_ANSWER_BYTES_MAX))
