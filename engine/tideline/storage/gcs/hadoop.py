"""What Hadoop's connector to Google Cloud Storage needs: its server, and whose credentials sign.

No secret is a setting: keys are in the files that the environment names, in a driver and in its
executors. All buckets have the same settings.
"""

from __future__ import annotations

import os

from tideline.errors import ConfigError
from tideline.storage.gcs.identity import CredentialSource, FoundCredentials, find_credentials

_TOKEN_SERVER = "https://oauth2.googleapis.com/token"


def gcs_settings(endpoint: str | None, ca_bundle: str | None) -> dict[str, str]:
    """Those of the environment's credentials, at another server than Google's where `endpoint`
    (URL) names one.

    Raises ConfigError when the environment has no credentials, or such as the connector does not
    take, and for another server with a `ca_bundle`: it has a list of authorities of its own.
    """
    if ca_bundle is not None and (endpoint or "").startswith("https:"):
        raise ConfigError(
            "Spark's connector to Google Cloud Storage trusts no ca_bundle: this server is read "
            "without Spark alone",
            value=endpoint,
        )
    settings = _of_credentials(find_credentials())
    return settings | ({"fs.gs.storage.root.url": f"{endpoint}/"} if endpoint else {})


def _of_credentials(found: FoundCredentials) -> dict[str, str]:
    signed = {
        "fs.gs.auth.service.account.enable": "true",
        "fs.gs.auth.null.enable": "false",
        # Never one that a key names.
        "fs.gs.token.server.url": _TOKEN_SERVER,
    }
    match found.source:
        case CredentialSource.NOBODY:
            # Both: it asks a metadata service for a token otherwise.
            return {
                "fs.gs.auth.service.account.enable": "false",
                "fs.gs.auth.null.enable": "true",
            }
        case CredentialSource.MACHINE if not os.environ.get("GCE_METADATA_HOST"):
            return signed
        case CredentialSource.KEY_FILE:
            return {**signed, "fs.gs.auth.service.account.json.keyfile": found.value}
    raise ConfigError(
        f"Spark does not read Google Cloud Storage with {found.source.value}: set "
        "GOOGLE_APPLICATION_CREDENTIALS to the file of a service account's key, or give the pod "
        "or the machine a service account"
    )
