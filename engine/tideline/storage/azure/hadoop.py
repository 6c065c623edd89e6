"""What Hadoop's connector (ABFS) needs for a location on Azure: its server, and whose credentials
sign.

No secret is a setting: `${env.NAME}` is a variable of the process that reads it, of the driver or
of an executor. Hadoop replaces it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from tideline.errors import ConfigError
from tideline.storage.azure.identity import CREDENTIAL_TYPES, credential_type

_PROVIDERS = "org.apache.hadoop.fs.azurebfs.oauth2"
_PUBLIC_AUTHORITY = "https://login.microsoftonline.com"


def abfs_settings(host: str, endpoint: str | None) -> dict[str, str]:
    """Those of the account at `host` (`account.dfs.core.windows.net`), behind another server than
    Azure's where `endpoint` (URL) names one.

    Raises ConfigError when the environment has no credentials, or such as Hadoop does not take.
    """
    kind = credential_type()
    settings = _SETTINGS_OF.get(kind or "")
    if settings is None:
        raise ConfigError(
            f"Spark does not read Azure with {_WORDS.get(kind, kind)}: set "
            "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID, "
            "AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or give the pod a workload identity",
            value=host,
        )
    found = {f"fs.azure.{name}.{host}": text for name, text in settings().items()}
    return found | (_server_settings(endpoint) if endpoint else {})


def _server_settings(endpoint: str) -> dict[str, str]:
    """Of all accounts: Hadoop reads these by no other name."""
    url = urlsplit(endpoint)
    return {
        "fs.azure.abfs.endpoint": url.netloc,
        "fs.azure.always.use.https": str(url.scheme == "https").lower(),
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
    }


def _of_key() -> Mapping[str, str]:
    return {
        "account.auth.type": "SharedKey",
        "account.key": _variable(*CREDENTIAL_TYPES["access_key"]),
    }


def _of_signature() -> Mapping[str, str]:
    return {
        "account.auth.type": "SAS",
        "sas.fixed.token": _variable(*CREDENTIAL_TYPES["sas_token"]),
    }


def _of_workload() -> Mapping[str, str]:
    return {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": f"{_PROVIDERS}.WorkloadIdentityTokenProvider",
        "account.oauth2.msi.authority": _authority(),
        "account.oauth2.msi.tenant": _named("AZURE_TENANT_ID"),
        "account.oauth2.client.id": _named("AZURE_CLIENT_ID"),
        "account.oauth2.token.file": _named(*CREDENTIAL_TYPES["workload_identity"]),
    }


def _of_client() -> Mapping[str, str]:
    return {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": f"{_PROVIDERS}.ClientCredsTokenProvider",
        "account.oauth2.client.endpoint": (
            f"{_authority()}{_named('AZURE_TENANT_ID')}/oauth2/v2.0/token"
        ),
        "account.oauth2.client.id": _named("AZURE_CLIENT_ID"),
        "account.oauth2.client.secret": _variable(*CREDENTIAL_TYPES["client_secret"]),
    }


def _of_machine() -> Mapping[str, str]:
    client = os.environ.get("AZURE_CLIENT_ID")
    return {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": f"{_PROVIDERS}.MsiTokenProvider",
        **({"account.oauth2.client.id": client} if client else {}),
    }


_SETTINGS_OF: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "access_key": _of_key,
    "sas_token": _of_signature,
    "workload_identity": _of_workload,
    "client_secret": _of_client,
    "managed_identity": _of_machine,
}
_WORDS = {
    None: "requests that nobody signs",
    "bearer_token": "a token as it is",
    "azure_cli": "the login of Azure's command line",
}


def _authority() -> str:
    given = os.environ.get("AZURE_AUTHORITY_HOST") or _PUBLIC_AUTHORITY
    return given if given.endswith("/") else f"{given}/"


def _variable(*names: str) -> str:
    """The first of the variables that is set, by its name."""
    return f"${{env.{_set_one(*names)}}}"


def _named(*names: str) -> str:
    """The value of the first of the variables that is set; no secret."""
    return os.environ[_set_one(*names)]


def _set_one(*names: str) -> str:
    """Raises ConfigError when none of the variables is set."""
    found = next((name for name in names if os.environ.get(name)), None)
    if found is None:
        raise ConfigError(f"{names[0]} is not in the environment: set it")
    return found
