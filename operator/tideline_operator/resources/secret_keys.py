"""Which keys of the Secret that a LakeStore names are its credentials, by the kind of store.

They are called as the variables that have the same in the environment of a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreSecretKeys:
    """`required` are always there, of `optional` some. What is in `files` is given to pods as a
    file, which the named variable names."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()


ACCESS_KEY_ID = "AWS_ACCESS_KEY_ID"
SECRET_ACCESS_KEY = "AWS_SECRET_ACCESS_KEY"
SESSION_TOKEN = "AWS_SESSION_TOKEN"
GOOGLE_KEY = "GOOGLE_SERVICE_ACCOUNT_KEY"
ACCOUNT_KEY = "AZURE_STORAGE_ACCOUNT_KEY"
SIGNATURE = "AZURE_STORAGE_SAS_TOKEN"
CLIENT = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
AUTHORITY_HOST = "AZURE_AUTHORITY_HOST"
CERTIFICATE_KEYS = ("tls.crt", "tls.key")
"""Of a Secret with a certificate that is shown to a store: the certificate, its key."""

SECRET_KEYS: Mapping[str, StoreSecretKeys] = {
    "s3": StoreSecretKeys((ACCESS_KEY_ID, SECRET_ACCESS_KEY), (SESSION_TOKEN,)),
    "gs": StoreSecretKeys(files=((GOOGLE_KEY, "GOOGLE_APPLICATION_CREDENTIALS"),)),
    "abfss": StoreSecretKeys(optional=(ACCOUNT_KEY, SIGNATURE, *CLIENT, AUTHORITY_HOST)),
}
"""By the scheme of locations in the store."""
