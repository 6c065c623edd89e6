"""Credentials of Iceberg catalogs: Secrets read by name, as properties of PyIceberg.

The keys of such a Secret are the environment variables in which PyIceberg looks for the properties
of a catalog. Which of them count in the operator is decided where a catalog is opened
(`tideline.trust.catalog_properties`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline_operator.controller.secret_variables import SecretVariables
from tideline_operator.controller.store_secrets import SecretProblemError
from tideline_operator.resources.iceberg import CatalogConnection

_PREFIX = "PYICEBERG_CATALOG__"
_FIELD = "spec.catalog.credentials.secretName"


class CatalogSecrets:
    """Credentials by namespace and Secret. For any number of threads."""

    def __init__(self, secrets: SecretVariables) -> None:
        self._secrets = secrets

    def credentials(self, namespace: str, catalog: CatalogConnection | None) -> dict[str, str]:
        """Properties for opening the catalog; none where it names no Secret.

        Raises SecretProblemError, and ApiUnavailableError when the Secret cannot be read now.
        """
        if catalog is None or catalog.credentials is None:
            return {}
        variables = self._secrets.read(namespace, catalog.credentials.secret_name, _FIELD)
        found = catalog_properties(catalog.name, variables)
        if not found:
            raise SecretProblemError(
                "SecretIncomplete",
                f"{_FIELD}: Secret {catalog.credentials.secret_name!r} has no key that begins with "
                f"{_PREFIX}{catalog.name.upper()}__",
            )
        return found

    def versions(self, namespace: str, catalog: CatalogConnection | None) -> tuple[str, ...]:
        """The version of the Secret that was read last; none without one."""
        if catalog is None or catalog.credentials is None:
            return ()
        return self._secrets.version(namespace, catalog.credentials.secret_name)


def catalog_properties(catalog: str, variables: Mapping[str, str]) -> dict[str, str]:
    """What PyIceberg makes of its environment variables about one catalog:
    `PYICEBERG_CATALOG__LAKE__S3__ACCESS_KEY_ID` is its property `s3.access-key-id`."""
    prefix = f"{_PREFIX}{catalog.upper()}__"
    return {
        name[len(prefix) :].lower().replace("__", ".").replace("_", "-"): text
        for name, text in variables.items()
        if name.upper().startswith(prefix) and text
    }
