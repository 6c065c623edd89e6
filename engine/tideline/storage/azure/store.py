"""An object store on Azure Blob Storage.

Conditional writes are `If-None-Match: *` and `If-Match: <etag>`. An ETag is new with every write.
Names of blobs lose what they look like in a URL: the server takes `a\\b` for `a/b`, and other
clients refuse names that end in a dot. Both are refused here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, cast

import obstore.store
from obstore.exceptions import BaseError

from tideline.errors import ConfigError, InvalidDataError
from tideline.storage.azure.identity import client_credentials
from tideline.storage.azure.keys import given_credentials
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.connection import StoreConnection, settings_at
from tideline.storage.remote.failure import StoreWords
from tideline.storage.remote.store import RemoteStore


@dataclass(frozen=True, slots=True)
class AzureEndpoint:
    """Where the account is served; `url` None means Azure's own endpoint in that `cloud`."""

    account: str
    cloud: str = "core.windows.net"
    url: str | None = None
    allow_http: bool = False
    ca_bundle: str | None = None

    @property
    def client_files(self) -> None:
        """None: certificates are shown to S3 alone."""
        return None

    @property
    def service_url(self) -> str:
        return self.url or f"https://{self.account}.blob.{self.cloud}"

    @property
    def services(self) -> tuple[str, ...]:
        """The account of this endpoint, and all accounts of the server; only the latter where it
        names none."""
        every = f"every account at {self.url or self.cloud}"
        return (f"{self.service_url} ({self.account})", every) if self.account else (every,)

    def server(self, bucket: str) -> str:  # noqa: ARG002
        """The URL that requests go to: containers are in paths."""
        return self.service_url


def _open_client(
    bucket: str,
    endpoint: AzureEndpoint,
    limits: RequestLimits,
    *,
    data: bool,
    using: StoreConnection | None = None,
) -> Any:
    settings = settings_at(endpoint, endpoint.service_url, limits, data=data, using=using)
    credentials = client_credentials() if using is None else given_credentials(using)
    try:
        # The endpoint always: left out, it would be read from the environment.
        return obstore.store.AzureStore(
            container_name=bucket.partition("@")[0],
            account_name=endpoint.account,
            endpoint=endpoint.service_url,
            use_emulator=False,
            use_fabric_endpoint=False,
            **cast(Any, credentials),
            **cast(Any, settings),
        )
    except (BaseError, ValueError):
        raise ConfigError(
            "cannot set up access to Azure: check the account's key and the other variables "
            "named AZURE_... of the environment",
            value=endpoint.service_url,
        ) from None


class AzureStore(RemoteStore):
    """`abfss://<container>@<account>.dfs.<cloud>[/<prefix>]`."""

    scheme = "abfss"
    words = StoreWords(
        missing_bucket=frozenset({"ContainerNotFound"}),
        bucket="container",
        create="create it first (az storage container create)",
        wrong_request={"InvalidResourceName": "the container's name is not valid"},
        refused_keys={
            "AuthenticationFailed": "the key is not that of the account, the signature has ended, "
            "or this machine's clock is off",
        },
    )
    token_name = "tidelinetoken"  # Names of metadata are identifiers.
    copies = False  # It copies after it has answered.
    _lists_may_end_early = False

    open_client = staticmethod(_open_client)

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: AzureEndpoint,
        limits: RequestLimits | None = None,
        connection: StoreConnection | None = None,
    ) -> None:
        super().__init__(bucket, prefix, endpoint=endpoint, limits=limits, connection=connection)

    def elsewhere(self, bucket: str, prefix: str = "") -> Self:
        """Raises ConfigError for another account, which has other credentials."""
        if bucket.partition("@")[2] != self._bucket.partition("@")[2]:
            message = "the location is in another account of Azure: it is not read"
            raise ConfigError(message, value=f"{self.scheme}://{bucket}")
        return super().elsewhere(bucket, prefix)

    def _if_version(self, version: str) -> Any:
        return {"e_tag": version}

    def _key(self, path: str) -> str:
        key = super()._key(path)
        if "\\" in key or any(segment.endswith(".") for segment in key.split("/")):
            message = "Azure keeps no names with a backslash, nor such as end in a dot"
            raise InvalidDataError(message, path=path)
        return key
