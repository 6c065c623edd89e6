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
from tideline.storage.remote.identity import IdentityError
from tideline.storage.remote.metadata_service import TIMEOUT_S, answer_of, metadata

CONTAINER_VARIABLES = (
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_CONTAINER_HOST = "http://169.254.170.2"


class MachineCredentials:
    """Returns current credentials when called: a credential provider of obstore."""

    def __init__(self, environment: Mapping[str, str], *, metadata_url: str | None) -> None:
        """Those of the machine at `metadata_url`, or else of the container that `environment`
        describes."""
        self._environment = environment
        self._metadata_url = metadata_url

    def __call__(self) -> dict[str, Any]:
        """Raises IdentityError when the platform gives none."""
        try:
            url = self._metadata_url
            body = self._of_container() if url is None else _of_machine(url)
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

    def _of_container(self) -> bytes:
        relative, full = (self._environment.get(name) for name in CONTAINER_VARIABLES)
        token = self._environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if file := self._environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = Path(file).read_text(encoding="utf-8").strip()
        shown = {"Authorization": token} if token else {}
        return metadata(_CONTAINER_HOST + relative if relative else str(full), shown)


def is_metadata_service(url: str, timeout_s: float) -> bool:
    """Whether a metadata service that hands out tokens (IMDSv2) answers there."""
    try:
        answer_of(_token_request(url), timeout_s)
    except (OSError, ValueError):
        return False
    return True


def _of_machine(url: str) -> bytes:
    token = answer_of(_token_request(url), TIMEOUT_S).decode().strip()
    shown = {"X-aws-ec2-metadata-token": token}
    roles = f"{url}/latest/meta-data/iam/security-credentials/"
    role = metadata(roles, shown).decode().split()[0]
    return metadata(roles + role, shown)


def _token_request(url: str) -> urllib.request.Request:
    wanted = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    return urllib.request.Request(f"{url}/latest/api/token", headers=wanted, method="PUT")
