"""Opening an obstore client: endpoint, time limits and credentials.

Credentials come from the environment, unless a `StoreConnection` brings others.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import obstore.store
from obstore.exceptions import BaseError

from tideline.errors import ConfigError
from tideline.secret_values import note_secrets
from tideline.storage.egress.client_certificate import ClientCertificate
from tideline.storage.egress.client_files import ClientFiles
from tideline.storage.egress.route import HostPort
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.connection import (
    Keyless,
    SecretKeys,
    StoreConnection,
    handed_over,
    settings_at,
    shows_certificate,
    trusted_authorities,
)
from tideline.storage.s3.directory_bucket import is_directory_bucket, zonal_url
from tideline.storage.s3.identity import S3Identity, implicit_identity
from tideline.storage.s3.request_headers import RequestHeaders

_HOST_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """Where the bucket is served; `url` None means Amazon's own endpoint of the region."""

    url: str | None = None
    region: str = "us-east-1"
    path_style: bool = True
    allow_http: bool = False
    ca_bundle: str | None = None
    client_files: ClientFiles | None = None
    headers: RequestHeaders = field(default_factory=RequestHeaders)

    @property
    def service_url(self) -> str:
        """The URL of the service, without the bucket."""
        return self.url or f"https://s3.{self.region}.amazonaws.com"

    def client_for(self, url: str) -> ClientCertificate | None:
        """What is shown to the server of a URL: an STS may be at the same one. Raises
        ConfigError."""
        files = self.client_files
        is_same = HostPort.of_url(url) == HostPort.of_url(self.service_url)
        return ClientCertificate.of_files(files) if files is not None and is_same else None

    @property
    def services(self) -> tuple[str, ...]:
        return (f"{self.service_url} ({self.region})",)

    def server(self, bucket: str) -> str:
        """The URL that requests for `bucket` go to. Raises ConfigError for a bucket that would name
        another server, since tables and catalogs name buckets, for a host name that cannot be, and
        for what a directory bucket does not take.
        """
        if is_directory_bucket(bucket):
            return zonal_url(bucket, self.region, endpoint=self.url, headers=self.headers)
        if self.path_style:
            return self.service_url
        if not _HOST_PART.fullmatch(bucket):
            raise ConfigError("the bucket cannot be a part of a host name", value=bucket)
        scheme, _, host = self.service_url.partition("://")
        if _is_number(host):
            raise ConfigError(
                "an endpoint that is an IP address has no host names of buckets: set path_style "
                "(pathStyle of a LakeStore) to true",
                value=self.service_url,
            )
        return f"{scheme}://{bucket}.{host}"


def _is_number(host: str) -> bool:
    """Whether a host, with a port or without, is an IP address."""
    if host.startswith("["):
        return True
    try:
        ipaddress.ip_address(host.partition("/")[0].partition(":")[0])
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True, repr=False)
class S3Credentials(SecretKeys):
    """A key pair, with a token where it is temporary."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


def open_client(
    bucket: str,
    endpoint: S3Endpoint,
    limits: RequestLimits,
    *,
    data: bool,
    using: StoreConnection | None = None,
) -> Any:
    """An obstore client, with generous time limits when it is for `data`.

    Raises ConfigError when there are no credentials or `ca_bundle` cannot be read.
    """
    authorities = trusted_authorities(endpoint, using)
    url = endpoint.server(bucket)
    credentials: Mapping[str, Any]
    if using is None:
        credentials = implicit_identity().client_settings(
            endpoint.region, authorities, client=endpoint.client_for
        )
    else:
        credentials = _given(using, endpoint.region, authorities)
    settings = settings_at(endpoint, url, limits, data=data, using=using)
    if shows_certificate(endpoint, using):
        url = url.replace("https://", "http://", 1)
    in_directory = is_directory_bucket(bucket)
    try:
        # Both endpoint settings: either of them, left out, would be read from the environment.
        return obstore.store.S3Store(
            bucket,
            endpoint=url,
            aws_endpoint_url_s3=url,
            region=endpoint.region,
            virtual_hosted_style_request=in_directory or not endpoint.path_style,
            s3_express=in_directory,
            conditional_put="etag",
            **cast(Any, endpoint.headers.client_settings()),
            **cast(Any, credentials),
            **cast(Any, settings),
        )
    except (BaseError, ValueError) as error:
        raise ConfigError(f"cannot set up S3 access: {type(error).__name__}", value=url) from None


def _given(using: StoreConnection, region: str, authorities: bytes | None) -> Mapping[str, Any]:
    credentials = using.credentials
    if callable(credentials):
        return {"credential_provider": credentials}
    if credentials is Keyless.ANONYMOUS:
        return {"skip_signature": True}
    if credentials is Keyless.AMBIENT:
        # The client would fetch credentials by way of the egress proxy.
        itself = using.egress is None
        identity = S3Identity.of(os.environ)
        return identity.client_settings(region, authorities, fetches_itself=itself)
    assert isinstance(credentials, S3Credentials)
    note_secrets([credentials.secret_access_key, credentials.session_token])
    return handed_over(
        {
            "access_key_id": credentials.access_key_id,
            "secret_access_key": credentials.secret_access_key,
            "token": credentials.session_token,
        }
    )
