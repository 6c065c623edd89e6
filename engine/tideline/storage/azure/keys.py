"""Credentials of Azure that are handed over: an account's key, a signature, or a client's secret.

A client's secret is exchanged for a token here and not by obstore: its requests reach nothing but
the store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from tideline.errors import ConfigError
from tideline.secret_values import note_secrets
from tideline.storage.egress.route import Egress
from tideline.storage.remote.connection import Keyless, SecretKeys, StoreConnection, handed_over
from tideline.storage.remote.identity import IdentityError
from tideline.storage.remote.token_request import answer_to_form

_AUTHORITY = "https://login.microsoftonline.com"
_SCOPE = "https://storage.azure.com/.default"
_TENANT = re.compile(r"[A-Za-z0-9.-]{1,128}")
_HOST = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/*")


@dataclass(frozen=True, slots=True, repr=False)
class AzureKeys(SecretKeys):
    """Credentials for an account, by the fields that are not empty: the first of them counts."""

    account_key: str = ""
    signature: str = ""
    tenant_id: str = ""
    client_id: str = ""
    client_secret: str = ""
    authority_host: str = ""


class ClientSecret:
    """Returns a current token when called: a credential provider of obstore."""

    def __init__(self, keys: AzureKeys, authorities: bytes | None, egress: Egress | None) -> None:
        """Raises ConfigError for what is no tenant, and for what is no server."""
        if not _TENANT.fullmatch(keys.tenant_id):
            raise ConfigError("AZURE_TENANT_ID is not the id of a tenant")
        if keys.authority_host and not _HOST.fullmatch(keys.authority_host):
            message = "AZURE_AUTHORITY_HOST is not a server: give it as https://<host>"
            raise ConfigError(message)
        self._keys = keys
        self._authorities = authorities
        self._egress = egress

    def __call__(self) -> dict[str, Any]:
        """Raises IdentityError when the server does not answer or refuses."""
        keys = self._keys
        note_secrets([keys.client_secret])
        host = (keys.authority_host or _AUTHORITY).rstrip("/")
        form = {
            "grant_type": "client_credentials",
            "client_id": keys.client_id,
            "client_secret": keys.client_secret,
            "scope": _SCOPE,
        }
        status, body = answer_to_form(
            f"{host}/{keys.tenant_id}/oauth2/v2.0/token",
            form,
            name=f"Microsoft Entra at {host}",
            authorities=self._authorities,
            egress=self._egress,
        )
        try:
            answer = json.loads(body)
            token, lasts_s = str(answer["access_token"]), float(answer["expires_in"])
            ends = datetime.now(UTC) + timedelta(seconds=lasts_s)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise IdentityError(
                f"Microsoft Entra at {host} gives no token ({status}): check AZURE_TENANT_ID, "
                "AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
            ) from None
        note_secrets([token])
        return {"token": token, "expires_at": ends}


def given_credentials(using: StoreConnection) -> Mapping[str, Any]:
    """A client's settings for the credentials of a connection. Raises ConfigError."""
    keys = using.credentials
    if keys is Keyless.ANONYMOUS:
        return {"skip_signature": True}
    if not isinstance(keys, AzureKeys):
        raise ConfigError("the credentials are none of Azure")
    if keys.account_key:
        note_secrets([keys.account_key])
        found = handed_over({"access_key": keys.account_key})
    elif keys.signature:
        signature = keys.signature.removeprefix("?")
        note_secrets([signature, *parse_qs(signature).get("sig", ())])
        found = handed_over({"sas_token": signature})
    else:
        found = {"credential_provider": ClientSecret(keys, using.ca_certificates, using.egress)}
    return {**found, "skip_signature": False}
