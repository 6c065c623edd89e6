"""Credentials for brokers, as variables say them.

`tideline run` and pods have them in their environment; a process that looks for others has those of
a Secret, and never its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.secret_values import note_secrets

CLIENT_ID, CLIENT_SECRET = "KAFKA_CLIENT_ID", "KAFKA_CLIENT_SECRET"
TOKEN_URL, TOKEN_SCOPE = "KAFKA_TOKEN_URL", "KAFKA_TOKEN_SCOPE"
TOKEN_AUTHORITIES = "KAFKA_TOKEN_CA"
USERNAME, PASSWORD = "KAFKA_USERNAME", "KAFKA_PASSWORD"
AUTHORITIES, AUTHORITIES_FILE = "KAFKA_CA", "KAFKA_CA_FILE"
CERTIFICATE, KEY = "KAFKA_CLIENT_CERTIFICATE", "KAFKA_CLIENT_KEY"
REGISTRY = ("SCHEMA_REGISTRY_USERNAME", "SCHEMA_REGISTRY_PASSWORD", "SCHEMA_REGISTRY_CA")
_TOKEN = (CLIENT_ID, CLIENT_SECRET, TOKEN_URL, TOKEN_SCOPE, TOKEN_AUTHORITIES)
SECRET_KEYS = (USERNAME, PASSWORD, AUTHORITIES, CERTIFICATE, KEY, *_TOKEN, *REGISTRY)
"""What a Secret may have, each as the variable of its name. No file: it would be one of the process
that reads the Secret. A token endpoint is at an address of a tenant's choice, as brokers are: it is
connected to in the same way."""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """Empty texts are not given. `authorities`, `certificate` and `key` are PEM texts. The last
    five are a client's, at the server that gives it tokens."""

    username: str = ""
    password: str = ""
    authorities: str = ""
    authorities_file: str = ""
    certificate: str = ""
    key: str = ""
    client_id: str = ""
    client_secret: str = ""
    token_url: str = ""
    token_scope: str = ""
    token_authorities: str = ""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Credentials:
        """Those that these variables have; the secret ones are masked from now on."""
        found = cls(
            *(variables.get(name, "") for name in (USERNAME, PASSWORD)),
            *(variables.get(name, "") for name in (AUTHORITIES, AUTHORITIES_FILE)),
            *(variables.get(name, "") for name in (CERTIFICATE, KEY)),
            *(variables.get(name, "") for name in _TOKEN),
        )
        note_secrets((found.password, found.key, found.client_secret))
        return found

    def require_user(self, protocol: str) -> None:
        """Raises ConfigError naming what a protocol needs that signs in."""
        _require({USERNAME: self.username, PASSWORD: self.password}, f"the protocol is {protocol}")

    def require_client(self, mechanism: str) -> None:
        """Raises ConfigError naming what a mechanism needs that signs in with a token."""
        needed = {
            CLIENT_ID: self.client_id,
            CLIENT_SECRET: self.client_secret,
            TOKEN_URL: self.token_url,
        }
        _require(needed, f"the mechanism is {mechanism}")


def _require(needed: Mapping[str, str], why: str) -> None:
    for name, text in needed.items():
        if not text:
            raise ConfigError(f"{name} is not set: {why}")
