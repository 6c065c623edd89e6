"""Credentials of Iceberg catalogs: Secrets read by name, as properties of PyIceberg.

The keys of such a Secret are the environment variables in which PyIceberg looks for the properties
of a catalog, because engine pods set them as such. The operator, which looks at the tables of many
catalogs in one process, reads the same keys itself and keeps what it read for `FRESH_S`.
"""

from __future__ import annotations

import base64
import binascii
import threading

from tideline.clock import Clock
from tideline.secret_values import note_environment
from tideline_operator.api_objects import SECRETS, ApiRefusedError
from tideline_operator.controller.connections import FRESH_S, SecretProblemError
from tideline_operator.kube import KubeApi
from tideline_operator.resources.iceberg import CatalogConnection

_PREFIX = "PYICEBERG_CATALOG__"


class CatalogSecrets:
    """Credentials by namespace and Secret. For any number of threads."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[float, dict[str, str], str]] = {}

    def credentials(self, namespace: str, catalog: CatalogConnection | None) -> dict[str, str]:
        """Properties for opening the catalog; none where it names no Secret.

        Raises SecretProblemError, and ApiUnavailableError when the Secret cannot be read now.
        """
        if catalog is None or catalog.credentials is None:
            return {}
        variables = self._variables(namespace, catalog.credentials.secret_name)
        found = catalog_properties(catalog.name, variables)
        if not found:
            raise SecretProblemError(
                "SecretIncomplete",
                f"spec.catalog.credentials.secretName: Secret "
                f"{catalog.credentials.secret_name!r} has no key that begins with "
                f"{_PREFIX}{catalog.name.upper()}__",
            )
        return found

    def versions(self, namespace: str, catalog: CatalogConnection | None) -> tuple[str, ...]:
        """The version of the Secret that was read last; none without one."""
        if catalog is None or catalog.credentials is None:
            return ()
        with self._lock:
            known = self._known.get((namespace, catalog.credentials.secret_name))
        return () if known is None else (known[2],)

    def _variables(self, namespace: str, name: str) -> dict[str, str]:
        key = namespace, name
        with self._lock:
            known = self._known.get(key)
        now_s = self._clock.monotonic_s()
        if known is not None and now_s - known[0] <= FRESH_S:
            return known[1]
        field = "spec.catalog.credentials.secretName"
        try:
            secret = self._api.get(SECRETS, name, namespace)
        except ApiRefusedError as error:
            raise SecretProblemError("SecretRefused", f"{field}: {error.message}") from error
        if secret is None:
            message = f"{field}: there is no Secret {name!r} in namespace {namespace}: create it"
            raise SecretProblemError("SecretMissing", message)
        variables = {key: _decoded(text) for key, text in (secret.get("data") or {}).items()}
        note_environment(variables)
        with self._lock:
            self._known[key] = now_s, variables, str(secret["metadata"].get("resourceVersion"))
        return variables


def catalog_properties(catalog: str, variables: dict[str, str]) -> dict[str, str]:
    """What PyIceberg makes of its environment variables about one catalog:
    `PYICEBERG_CATALOG__LAKE__S3__ACCESS_KEY_ID` is its property `s3.access-key-id`."""
    prefix = f"{_PREFIX}{catalog.upper()}__"
    return {
        name[len(prefix) :].lower().replace("__", ".").replace("_", "-"): text
        for name, text in variables.items()
        if name.upper().startswith(prefix) and text
    }


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text or "", validate=True).decode().strip()
    except (binascii.Error, ValueError):
        return ""
