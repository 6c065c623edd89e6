"""Where the certificate that is shown to a server is kept, without reading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CERTIFICATE, KEY = "client_certificate", "client_key"
"""The storage options."""
CERTIFICATE_VARIABLE, KEY_VARIABLE = (
    "TIDELINE_S3_CLIENT_CERTIFICATE_FILE",
    "TIDELINE_S3_CLIENT_KEY_FILE",
)
"""Where commands take them from."""


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """Paths of files in PEM; without one of its own, the key is in that of the certificate."""

    certificate: str
    key: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ClientFiles | None:
        """What storage options say is shown; None for nothing."""
        certificate = options.get(CERTIFICATE)
        return None if certificate is None else cls(certificate, options.get(KEY))

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> ClientFiles | None:
        """What variables say is shown; None for nothing."""
        certificate = environment.get(CERTIFICATE_VARIABLE)
        return cls(certificate, environment.get(KEY_VARIABLE) or None) if certificate else None

    @property
    def options(self) -> dict[str, str]:
        """Storage options that say so."""
        found = {CERTIFICATE: self.certificate}
        return found if self.key is None else {**found, KEY: self.key}
