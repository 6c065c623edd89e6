"""Credentials of sources that are servers: what the Secret has that the ingests of a table name."""

from __future__ import annotations

from collections.abc import Mapping

from tideline_operator.controller.secret_variables import SecretVariables
from tideline_operator.controller.store_secrets import SecretProblemError
from tideline_operator.resources.lake_table import LakeTableSpec

_FIELD = "spec.ingest: source.credentials.secretName"


class SourceSecrets:
    """Credentials by namespace and Secret. For any number of threads."""

    def __init__(self, secrets: SecretVariables) -> None:
        self._secrets = secrets

    def variables(self, namespace: str, spec: LakeTableSpec) -> Mapping[str, str]:
        """None where no ingest names a Secret. Raises as `SecretVariables.read`."""
        name = spec.source_secret
        if name is None:
            return {}
        found = self._secrets.read(namespace, name, _FIELD)
        known = {key: found[key] for key in spec.source_secret_keys if found.get(key)}
        if not known:
            raise SecretProblemError(
                "SecretIncomplete",
                f"{_FIELD}: Secret {name!r} has none of the keys "
                f"{', '.join(spec.source_secret_keys)}",
            )
        return known

    def versions(self, namespace: str, spec: LakeTableSpec) -> tuple[str, ...]:
        """The version of the Secret that was read last; none without one."""
        name = spec.source_secret
        return () if name is None else self._secrets.version(namespace, name)
