"""What LakeStores of each kind of store are called, and which keys of their Secret are credentials.

The keys are called as the variables that have the same in the environment of a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tideline.storage.azure.kind import AZURE
from tideline.storage.gcs.kind import GCS
from tideline.storage.s3.kind import S3

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


@dataclass(frozen=True, slots=True)
class StoreFamily:
    """LakeStores of one kind. `advice` says how a table names one of them.

    Of the keys in a Secret `required` are always there, of `optional` some. What is in `files` is
    given to pods as a file, which the named variable names.
    """

    title: str
    advice: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    @property
    def variables(self) -> str:
        """Which variables of a process have the credentials, in words."""
        if self.required:
            return " and ".join(self.required)
        return f"such as {[*(name for _, name in self.files), *self.optional][0]}"


FAMILIES: Mapping[str, StoreFamily] = {
    S3.scheme: StoreFamily(
        "S3",
        "name one without gcs and azure",
        required=(ACCESS_KEY_ID, SECRET_ACCESS_KEY),
        optional=(SESSION_TOKEN,),
    ),
    GCS.scheme: StoreFamily(
        "Google Cloud Storage",
        "name one with spec.gcs",
        files=((GOOGLE_KEY, "GOOGLE_APPLICATION_CREDENTIALS"),),
    ),
    AZURE.scheme: StoreFamily(
        "Azure",
        "name one with spec.azure",
        optional=(ACCOUNT_KEY, SIGNATURE, *CLIENT, AUTHORITY_HOST),
    ),
}
"""By the scheme of locations in the store."""
