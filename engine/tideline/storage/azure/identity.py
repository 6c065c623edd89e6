"""Whose credentials sign requests to Azure, by the variables that its own tools read.

The first of these that the environment has, unless AZURE_CREDENTIAL_TYPE names one:

1. `access_key`: AZURE_STORAGE_ACCOUNT_KEY, of the account.
2. `sas_token`: AZURE_STORAGE_SAS_TOKEN, a shared access signature.
3. `workload_identity`: AZURE_FEDERATED_TOKEN_FILE, as AKS mounts it, with AZURE_CLIENT_ID and
   AZURE_TENANT_ID.
4. `client_secret`: AZURE_CLIENT_SECRET, with AZURE_CLIENT_ID and AZURE_TENANT_ID.
5. `bearer_token`: AZURE_STORAGE_TOKEN, as it is.
6. Nobody, with AZURE_SKIP_SIGNATURE.
7. `azure_cli`, with AZURE_USE_AZURE_CLI.
8. `managed_identity`, of a machine: with AZURE_MSI_ENDPOINT or AZURE_IDENTITY_ENDPOINT, or where
   AZURE_CREDENTIAL_TYPE says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from tideline.errors import ConfigError
from tideline.secret_values import note_secrets
from tideline.storage.remote.identity import check_implicit_identity, is_switched_on

_TYPE = "AZURE_CREDENTIAL_TYPE"
_ANY_TYPE = "auto"
_NOBODY = "AZURE_SKIP_SIGNATURE"
_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
_SIGNATURES = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
_CLIENT_SECRETS = ("AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET")
_TOKENS = ("AZURE_STORAGE_TOKEN",)
CREDENTIAL_TYPES = {
    "access_key": _KEYS,
    "sas_token": _SIGNATURES,
    "workload_identity": ("AZURE_FEDERATED_TOKEN_FILE",),
    "client_secret": _CLIENT_SECRETS,
    "bearer_token": _TOKENS,
    "azure_cli": ("AZURE_USE_AZURE_CLI",),
    "managed_identity": ("AZURE_MSI_ENDPOINT", "AZURE_IDENTITY_ENDPOINT"),
}


def client_credentials() -> Mapping[str, Any]:
    """What an obstore client must be given beyond what it reads in the environment.

    Raises ConfigError when the environment has no credentials, and in a process that has no
    identity of its own.
    """
    kind = credential_type()
    if kind is None:
        return {"skip_signature": True}
    return {"credential_type": kind, **({} if _named_type() else {"skip_signature": False})}


def credential_type() -> str | None:
    """One of `CREDENTIAL_TYPES`; None where requests are not signed. Raises as
    `client_credentials`."""
    check_implicit_identity()
    given = os.environ.get
    note_secrets(given(name) for name in (*_KEYS, *_CLIENT_SECRETS, *_TOKENS))
    for name in _SIGNATURES:
        signature = given(name)
        note_secrets([signature, *parse_qs(signature or "").get("sig", ())])
    if wanted := _named_type():
        if wanted not in CREDENTIAL_TYPES:
            raise ConfigError(f"{_TYPE} is one of {', '.join(CREDENTIAL_TYPES)}", value=wanted)
        return wanted
    for kind, names in CREDENTIAL_TYPES.items():
        if kind == "azure_cli" and is_switched_on(_NOBODY):
            return None
        is_given = is_switched_on if kind == "azure_cli" else given
        if any(map(is_given, names)):
            return kind
    raise ConfigError(
        "no credentials for Azure in the environment: set AZURE_STORAGE_ACCOUNT_KEY or "
        "AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or "
        f"give the pod a workload identity; {_TYPE}=managed_identity takes that of the machine"
    )


def _named_type() -> str | None:
    """The type that the environment names, known or not."""
    named = (os.environ.get(_TYPE) or _ANY_TYPE).lower()
    return None if named == _ANY_TYPE else named
