"""An object store on Google Cloud Storage.

An object has a generation, a number that no other state of it ever had. It is the condition of
every create (0) and of every replacement. Listings show none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import obstore.store
from obstore.exceptions import BaseError

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.storage.gcs.identity import client_credentials, given_credentials
from tideline.storage.object_store import ObjectInfo, UnsupportedRequestError
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.connection import StoreConnection, settings_at
from tideline.storage.remote.failure import StoreWords
from tideline.storage.remote.store import RemoteStore

_SERVICE_URL = "https://storage.googleapis.com"


@dataclass(frozen=True, slots=True)
class GcsEndpoint:
    """Where buckets are served; `url` None means Google's own endpoint."""

    url: str | None = None
    allow_http: bool = False
    ca_bundle: str | None = None

    @property
    def client_files(self) -> None:
        """None: certificates are shown to S3 alone."""
        return None

    @property
    def service_url(self) -> str:
        return self.url or _SERVICE_URL

    @property
    def services(self) -> tuple[str, ...]:
        return (self.service_url,)

    def server(self, bucket: str) -> str:  # noqa: ARG002
        """The URL that requests go to: buckets are in paths."""
        return self.service_url


def _open_client(
    bucket: str,
    endpoint: GcsEndpoint,
    limits: RequestLimits,
    *,
    data: bool,
    using: StoreConnection | None = None,
) -> Any:
    settings = settings_at(endpoint, endpoint.service_url, limits, data=data, using=using)
    credentials = client_credentials() if using is None else given_credentials(using.credentials)
    try:
        # The URL always: left out, it would be read from the environment, or from a key.
        return obstore.store.GCSStore(
            bucket,
            base_url=endpoint.service_url,
            **cast(Any, credentials),
            **cast(Any, settings),
        )
    except (BaseError, ValueError):
        raise ConfigError(
            "cannot set up access to Google Cloud Storage: check the service account's key "
            "and the other variables named GOOGLE_... of the environment",
            value=endpoint.service_url,
        ) from None


class GcsStore(RemoteStore):
    """`gs://<bucket>[/<prefix>]`."""

    scheme = "gs"
    words = StoreWords(
        missing_bucket=frozenset({"NoSuchBucket"}),
        create="create it first (gcloud storage buckets create)",
        wrong_request={"InvalidBucketName": "the bucket name is not valid"},
    )

    open_client = staticmethod(_open_client)

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: GcsEndpoint | None = None,
        limits: RequestLimits | None = None,
        connection: StoreConnection | None = None,
    ) -> None:
        super().__init__(
            bucket,
            prefix,
            endpoint=endpoint or GcsEndpoint(),
            limits=limits,
            connection=connection,
        )

    def copy_within(self, path: str, target: RemoteStore, target_path: str) -> bool:
        """As everywhere. A copy whose answer is an error with 200 is a success for the client."""
        if not super().copy_within(path, target, target_path):
            return False
        made, source = target.head(target_path), self.head(path)
        if made is None or source is None or made.size_bytes != source.size_bytes:
            message = f"cannot copy at {self.endpoint_url}: the answer says success, and it is not"
            raise StorageUnavailableError(message, path=self._uri(path))
        return True

    def _if_version(self, version: str) -> Any:
        return {"version": version}

    def _version(self, result: Mapping[str, Any]) -> str:
        generation = result["version"]
        if not generation:
            raise UnsupportedRequestError(
                f"the server at {self.endpoint_url} sends no generation", path=self.uri
            )
        return str(generation)

    def _info(self, item: Mapping[str, Any]) -> ObjectInfo:
        # Its ETag is a digest of the bytes, no version.
        return replace(super()._info(item), version=item["version"])
