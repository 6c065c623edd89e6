"""Credentials of a store from the Secret that its LakeStore names, known as secret from then on."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import parse_qs

from tideline.errors import ConfigError, TidelineError
from tideline.secret_values import note_secrets
from tideline.storage.azure.keys import AzureKeys
from tideline.storage.azure.kind import AZURE
from tideline.storage.egress.client_certificate import ClientCertificate
from tideline.storage.gcs.identity import GoogleKey
from tideline.storage.gcs.kind import GCS
from tideline.storage.remote.connection import SecretKeys
from tideline.storage.s3.client import S3Credentials
from tideline_operator.api_objects import Manifest
from tideline_operator.resources.store_families import (
    ACCESS_KEY_ID,
    ACCOUNT_KEY,
    AUTHORITY_HOST,
    CERTIFICATE_KEYS,
    CLIENT,
    GOOGLE_KEY,
    SECRET_ACCESS_KEY,
    SESSION_TOKEN,
    SIGNATURE,
)

_FIELD = "spec.credentials.secretName"
CLIENT_FIELD = "spec.clientCertificate.secretName"


class SecretProblemError(TidelineError):
    """A Secret that a LakeStore names is missing or lacks a key; `reason` is one word."""

    exit_code = 2

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def store_credentials(secret: Manifest, scheme: str) -> SecretKeys:
    """The credentials of a store whose locations have the scheme. Raises SecretProblemError."""
    if scheme == GCS.scheme:
        return _of_google(secret)
    if scheme == AZURE.scheme:
        return _of_azure(secret)
    key_id, key = (_text(secret, name) for name in (ACCESS_KEY_ID, SECRET_ACCESS_KEY))
    token = _text(secret, SESSION_TOKEN) if _has(secret, SESSION_TOKEN) else None
    note_secrets([key, token])
    return S3Credentials(key_id, key, token)


def shown_certificate(secret: Manifest) -> ClientCertificate:
    """What is shown to a store that demands a certificate. Raises SecretProblemError."""
    name = secret["metadata"]["name"]
    certificate, key = (
        secret_value(secret, key, CLIENT_FIELD).decode() for key in CERTIFICATE_KEYS
    )
    try:
        return ClientCertificate.of_texts(certificate, key, name=f"Secret {name!r}")
    except ConfigError as error:
        message = f"LakeStore: {CLIENT_FIELD}: {error.message}"
        raise SecretProblemError("SecretIncomplete", message) from None


def _of_google(secret: Manifest) -> GoogleKey:
    try:
        return GoogleKey.of(_text(secret, GOOGLE_KEY), GOOGLE_KEY)
    except ConfigError as error:
        raise _incomplete(secret, str(error)) from None


def _of_azure(secret: Manifest) -> AzureKeys:
    """The first that is there: an account's key, a signature, a client's secret."""
    if _has(secret, ACCOUNT_KEY):
        key = _text(secret, ACCOUNT_KEY)
        note_secrets([key])
        try:
            base64.b64decode(key, validate=True)
        except binascii.Error:
            words = (
                f"{ACCOUNT_KEY} is not the key of an account: give it alone, no connection string"
            )
            raise _incomplete(secret, words) from None
        return AzureKeys(account_key=key)
    if _has(secret, SIGNATURE):
        return AzureKeys(signature=_signature(secret))
    if not any(_has(secret, name) for name in CLIENT):
        named = f"{ACCOUNT_KEY}, {SIGNATURE}, nor {', '.join(CLIENT)}"
        raise _incomplete(secret, f"it has neither {named}")
    tenant, client, client_secret = (_text(secret, name) for name in CLIENT)
    host = _text(secret, AUTHORITY_HOST) if _has(secret, AUTHORITY_HOST) else ""
    note_secrets([client_secret])
    return AzureKeys(
        tenant_id=tenant, client_id=client, client_secret=client_secret, authority_host=host
    )


def _signature(secret: Manifest) -> str:
    signature = _text(secret, SIGNATURE)
    signed = parse_qs(signature.removeprefix("?")).get("sig", ())
    note_secrets([signature, *signed])
    if not signed:
        words = (
            f"{SIGNATURE} is not a shared access signature: give what is behind the ? of its URL"
        )
        raise _incomplete(secret, words)
    return signature


def _has(secret: Manifest, name: str) -> bool:
    return bool((secret.get("data") or {}).get(name))


def _text(secret: Manifest, name: str) -> str:
    text = secret_value(secret, name, _FIELD).decode()
    if name != GOOGLE_KEY and not text.isprintable():
        note_secrets([text])
        raise _incomplete(secret, f"{name} has a line break or another character that no key has")
    return text


def _incomplete(secret: Manifest, why: str) -> SecretProblemError:
    name = secret["metadata"]["name"]
    return SecretProblemError("SecretIncomplete", f"LakeStore: {_FIELD}: Secret {name!r}: {why}")


def secret_value(secret: Manifest, key: str, field: str) -> bytes:
    name = secret["metadata"]["name"]
    text = (secret.get("data") or {}).get(key)
    try:
        value = base64.b64decode(text or "", validate=True)
        value.decode()
    except (binascii.Error, ValueError):
        value = b""
    if not value.strip():
        raise SecretProblemError(
            "SecretIncomplete",
            f"LakeStore: {field}: Secret {name!r} has no usable value under the key {key}",
        )
    # The final newline of the file that the value was made from is never part of a key.
    return value.strip()
