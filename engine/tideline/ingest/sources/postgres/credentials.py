"""Credentials for a server of Postgres, as variables say them.

`tideline run` and pods have them in their environment; a process that looks for others has those of
a Secret, and never its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.secret_values import note_secrets

CONNECTION = "POSTGRES_URI"
"""The variable that has the connection string, unless declared."""
AUTHORITIES = "POSTGRES_CA"
CERTIFICATE, KEY = "POSTGRES_CLIENT_CERTIFICATE", "POSTGRES_CLIENT_KEY"
SAFEST = "verify-full"
"""The sslmode where authorities are given and the connection string has none."""


def secret_keys(connection: str) -> tuple[str, ...]:
    """What a Secret may have, each as the variable of its name. No file: it would be one of the
    process that reads the Secret."""
    return (connection, AUTHORITIES, CERTIFICATE, KEY)


def note_key(variables: Mapping[str, str]) -> None:
    """Mask the client's key from now on."""
    note_secrets((variables.get(KEY),))
