"""Credentials for brokers, as variables say them.

`tideline run` and pods have them in their environment; a process that looks for others has those of
a Secret, and never its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.secret_values import note_secrets

USERNAME, PASSWORD = "KAFKA_USERNAME", "KAFKA_PASSWORD"
AUTHORITIES, AUTHORITIES_FILE = "KAFKA_CA", "KAFKA_CA_FILE"
CERTIFICATE, KEY = "KAFKA_CLIENT_CERTIFICATE", "KAFKA_CLIENT_KEY"
SECRET_KEYS = (USERNAME, PASSWORD, AUTHORITIES, CERTIFICATE, KEY)
"""What a Secret may have, each as the variable of its name. No file: it would be one of the process
that reads the Secret."""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """Empty texts are not given. `authorities`, `certificate` and `key` are PEM texts."""

    username: str = ""
    password: str = ""
    authorities: str = ""
    authorities_file: str = ""
    certificate: str = ""
    key: str = ""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Credentials:
        """Those that these variables have; the secret ones are masked from now on."""
        found = cls(
            *(variables.get(name, "") for name in (USERNAME, PASSWORD)),
            *(variables.get(name, "") for name in (AUTHORITIES, AUTHORITIES_FILE)),
            *(variables.get(name, "") for name in (CERTIFICATE, KEY)),
        )
        note_secrets((found.password, found.key))
        return found

    def require_user(self, protocol: str) -> None:
        """Raises ConfigError naming what a protocol needs that signs in."""
        for name, text in ((USERNAME, self.username), (PASSWORD, self.password)):
            if not text:
                raise ConfigError(f"{name} is not set: the protocol is {protocol}")
