"""Tokens of the service account of a machine, or of a pod by GKE's workload identity.

GCE_METADATA_HOST names another metadata service than Google's own, NO_GCE_CHECK none.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from tideline.secret_values import note_secrets
from tideline.storage.remote.identity import IdentityError
from tideline.storage.remote.metadata_service import answer_of, metadata

_HOST = "metadata.google.internal"
_FLAVOR = {"Metadata-Flavor": "Google"}
_PROBE_TIMEOUT_S = 1.0
_ACCOUNT = "computeMetadata/v1/instance/service-accounts/default"


class MachineToken:
    """Returns a current token when called: a credential provider of obstore."""

    def __init__(self, url: str) -> None:
        """By the metadata service at `url`."""
        self._url = url

    def __call__(self) -> dict[str, Any]:
        """Raises IdentityError when the platform gives none."""
        try:
            answer = json.loads(metadata(f"{self._url}/{_ACCOUNT}/token", _FLAVOR))
            token, lasts_s = str(answer["access_token"]), float(answer["expires_in"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IdentityError(f"the platform gives no token ({type(error).__name__})") from None
        note_secrets([token])
        return {"token": token, "expires_at": datetime.now(UTC) + timedelta(seconds=lasts_s)}


def machine_token_url(environment: Mapping[str, str]) -> str | None:
    """The metadata service, None where none answers."""
    if environment.get("NO_GCE_CHECK", "").lower() in ("true", "1"):
        return None
    url = f"http://{environment.get('GCE_METADATA_HOST') or _HOST}"
    return url if _answers(url) else None


@cache
def _answers(url: str) -> bool:
    request = urllib.request.Request(f"{url}/computeMetadata/v1/", headers=_FLAVOR)
    try:
        answer_of(request, _PROBE_TIMEOUT_S)
    except (OSError, ValueError):
        return False
    return True
