"""Whose credentials sign requests to Google Cloud Storage, found as Google's own tools find them.

1. A token as it is: GOOGLE_BEARER_TOKEN. The client takes it before any key that it is given.
2. A service account's key: GOOGLE_SERVICE_ACCOUNT_KEY, or the file GOOGLE_SERVICE_ACCOUNT.
3. The file GOOGLE_APPLICATION_CREDENTIALS: such a key, or a user's consent.
4. Nobody, with GOOGLE_SKIP_SIGNATURE.
5. What `gcloud auth application-default login` left in the home folder.
6. The service account of the machine, or of the pod by GKE's workload identity, from the metadata
   service; not asked with NO_GCE_CHECK.

Credentials of another provider that Google is to exchange (`external_account`) are refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tideline.errors import ConfigError
from tideline.secret_values import note_secrets
from tideline.storage.gcs.machine_token import MachineToken, machine_token_url
from tideline.storage.remote.connection import Keyless, SecretKeys, Signer
from tideline.storage.remote.identity import check_implicit_identity, is_switched_on

_KEY = "GOOGLE_SERVICE_ACCOUNT_KEY"
_FILES = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_APPLICATION_CREDENTIALS")
_TOKEN = "GOOGLE_BEARER_TOKEN"
_NOBODY = "GOOGLE_SKIP_SIGNATURE"
_OF_GCLOUD = ".config/gcloud/application_default_credentials.json"
_SECRETS = ("private_key", "client_secret", "refresh_token")
_UNSIGNED = '{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}'
_SIGNED = {"skip_signature": False}
"""Left out, it would be read from the environment."""
_TYPES = ("service_account", "authorized_user")


class CredentialSource(Enum):
    """Where credentials come from, in words."""

    TOKEN = f"the token of {_TOKEN}"
    KEY = f"the key in {_KEY}"
    KEY_FILE = "the file of a service account's key"
    USER_FILE = "the file of a user's consent"
    NOBODY = "nobody: requests are not signed"
    MACHINE = "the service account of the machine"


@dataclass(frozen=True, slots=True, repr=False)
class FoundCredentials:
    """`value` is the token, the key, the path of the file, or the URL of the metadata service."""

    source: CredentialSource
    value: str = ""


def client_credentials() -> Mapping[str, Any]:
    """What an obstore client must be given beyond what it reads in the environment.

    Raises as `find_credentials`.
    """
    found = find_credentials()
    match found.source:
        case CredentialSource.TOKEN:
            handed = {"token": found.value, "expires_at": None}
            return {"credential_provider": lambda: handed, **_SIGNED}
        case CredentialSource.KEY:
            return {"service_account_key": found.value, **_SIGNED}
        case CredentialSource.KEY_FILE | CredentialSource.USER_FILE:
            return {"application_credentials": found.value, **_SIGNED}
        case CredentialSource.NOBODY:
            # With `skip_signature` a client asks for a token all the same when it writes.
            return {"service_account_key": _UNSIGNED}
        case CredentialSource.MACHINE:
            return {"credential_provider": MachineToken(found.value), **_SIGNED}


def find_credentials() -> FoundCredentials:
    """The first that the environment has.

    Raises ConfigError when it has none, or such as are not usable, and in a process that has no
    identity of its own.
    """
    check_implicit_identity()
    given = os.environ.get
    if token := given(_TOKEN):
        note_secrets([token])
        return FoundCredentials(CredentialSource.TOKEN, token)
    if key := given(_KEY):
        _check(key, _KEY)
        return FoundCredentials(CredentialSource.KEY, key)
    for name in _FILES:
        if path := given(name):
            return _found_file(path, name)
    if is_switched_on(_NOBODY):
        return FoundCredentials(CredentialSource.NOBODY)
    left = Path.home() / _OF_GCLOUD
    if left.is_file():
        return _found_file(str(left), str(left))
    if url := machine_token_url(os.environ):
        return FoundCredentials(CredentialSource.MACHINE, url)
    raise ConfigError(
        "no credentials for Google Cloud Storage in the environment: set "
        "GOOGLE_APPLICATION_CREDENTIALS, or give the pod or the machine a service account"
    )


@dataclass(frozen=True, slots=True, repr=False)
class GoogleKey(SecretKeys):
    """The key of a service account, as JSON."""

    text: str

    @classmethod
    def of(cls, text: str, name: str) -> GoogleKey:
        """Raises ConfigError for what is no such key; shows nothing of it."""
        _check(text, name, (_TYPES[0],))
        return cls(text)


def given_credentials(credentials: SecretKeys | Keyless | Signer) -> Mapping[str, Any]:
    """A client's settings for the credentials of a connection. A key signs its tokens itself, so
    that no other server is asked. Raises ConfigError."""
    if credentials is Keyless.ANONYMOUS:
        return {"service_account_key": _UNSIGNED}
    if isinstance(credentials, GoogleKey):
        note_secrets([credentials.text])
        if os.environ.get(_TOKEN):
            # The client would sign with it, whatever it is given.
            raise ConfigError(f"{_TOKEN} is in the environment: it would stand in for the key")
        return {"service_account_key": credentials.text, **_SIGNED}
    raise ConfigError("the credentials are none of Google Cloud Storage")


def _found_file(path: str, name: str) -> FoundCredentials:
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"cannot read {name}: {reason}", path=path) from None
    is_key = _check(text, name) == _TYPES[0]
    return FoundCredentials(
        CredentialSource.KEY_FILE if is_key else CredentialSource.USER_FILE, path
    )


def _check(text: str, name: str, types: tuple[str, ...] = _TYPES) -> str:
    """The type of a credential. Raises ConfigError for what is none that a client takes; shows
    nothing of it."""
    note_secrets([text])
    try:
        found = json.loads(text)
        kind = found.get("type", _TYPES[0])
        note_secrets([str(found[secret]) for secret in _SECRETS if secret in found])
    except (ValueError, AttributeError, RecursionError):
        raise ConfigError(f"{name} is not a key of Google in JSON") from None
    if kind not in types:
        raise ConfigError(
            f"{name} has credentials of a type that is not supported: give a service account's "
            "key, or use the workload identity of GKE",
            value=kind if isinstance(kind, str) and kind.isidentifier() else "",
        )
    return str(kind)
