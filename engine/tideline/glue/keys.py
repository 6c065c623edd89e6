"""Whose credentials sign requests to Glue: the catalog's own, or the process's as for S3.

1. `glue.access-key-id` and `glue.secret-access-key`, else `client.*`, of the catalog's properties.
2. `glue.profile-name`, a profile of the shared files; boto3 reads it.
3. What `tideline.storage.s3.identity` finds in the environment: keys, a web identity token, a
   profile, the role of the container or the machine.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.secret_values import note_secrets
from tideline.storage.remote.identity import IdentityError
from tideline.storage.s3.client import S3Credentials
from tideline.storage.s3.identity import IdentitySource, implicit_identity, profile_credentials

Keys: TypeAlias = Callable[[], S3Credentials]
"""Gives the credentials of now. Raises StorageUnavailableError."""

PROFILE = "glue.profile-name"
_FAMILIES = ("glue", "client")
_MARGIN_S = 300.0
"""Before their end credentials are renewed."""


def given_keys(properties: Mapping[str, object]) -> S3Credentials | None:
    """Those that a catalog's properties give. Raises ConfigError for half of a pair."""
    for family in _FAMILIES:
        key, secret, token = (
            str(properties.get(f"{family}.{name}") or "")
            for name in ("access-key-id", "secret-access-key", "session-token")
        )
        if bool(key) != bool(secret):
            message = f"{family}.access-key-id and {family}.secret-access-key come together"
            raise ConfigError(message)
        if key:
            note_secrets([secret, token])
            return S3Credentials(key, secret, token or None)
    return None


def keys_of_process(properties: Mapping[str, object], region: str) -> Keys:
    """Those of the properties, or else of this process. Raises ConfigError without any."""
    given = given_keys(properties)
    if given is not None:
        return lambda: given
    if profile := properties.get(PROFILE):
        return RenewedKeys(profile_credentials(str(profile)))
    identity = implicit_identity()
    if identity.source is IdentitySource.NOBODY:
        raise ConfigError("Glue takes no unsigned requests: take AWS_SKIP_SIGNATURE away")
    if identity.source is IdentitySource.KEYS:
        found = S3Credentials(
            os.environ["AWS_ACCESS_KEY_ID"],
            os.environ["AWS_SECRET_ACCESS_KEY"],
            os.environ.get("AWS_SESSION_TOKEN"),
        )
        note_secrets([found.secret_access_key, found.session_token])
        return lambda: found
    settings = identity.client_settings(region, None, fetches_itself=False)
    return RenewedKeys(settings["credential_provider"])


class RenewedKeys:
    """Temporary credentials, fetched again before they end. For any number of threads."""

    def __init__(self, fetch: Callable[[], Mapping[str, Any]]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._last: S3Credentials | None = None
        self._until_s = 0.0

    def __call__(self) -> S3Credentials:
        """Raises StorageUnavailableError when none are given."""
        with self._lock:
            if self._last is None or time.time() > self._until_s - _MARGIN_S:
                self._last, self._until_s = self._fetched()
            return self._last

    def forget(self) -> None:
        """Fetch others for the next request: those of before have ended."""
        with self._lock:
            self._last = None

    def _fetched(self) -> tuple[S3Credentials, float]:
        try:
            found = self._fetch()
            ends = found.get("expires_at")
            keys = S3Credentials(
                str(found["access_key_id"]), str(found["secret_access_key"]), found.get("token")
            )
        except IdentityError as error:
            raise StorageUnavailableError(f"no credentials for Glue: {error}") from None
        except Exception as error:
            # A library that reads profiles raises anything, with paths and answers in its words.
            message = f"no credentials for Glue: {type(error).__name__}"
            raise StorageUnavailableError(message) from None
        note_secrets([keys.secret_access_key, keys.session_token])
        return keys, ends.timestamp() if isinstance(ends, datetime) else float("inf")
