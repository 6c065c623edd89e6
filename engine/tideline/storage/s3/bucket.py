"""Creating the bucket of a new table, where its location allows it.

obstore knows objects only, so this one request goes through the `minio` package, which speaks to
any S3 endpoint. Credentials come from the environment, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tideline.distribution import installation
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.storage.egress.client_certificate import ClientCertificate
from tideline.storage.egress.client_files import ClientFiles
from tideline.storage.object_store import ObjectStore
from tideline.storage.refusals import MissingBucketError
from tideline.storage.remote.client import authorities_of
from tideline.storage.remote.identity import IdentityError
from tideline.storage.s3.identity import (
    IdentitySource,
    S3Identity,
    implicit_identity,
    profile_credentials,
)
from tideline.storage.store_kind import bucket_and_prefix

_CONNECT_TIMEOUT_S = 3.0
_READ_TIMEOUT_S = 10.0
_IS_THERE = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")


def create_missing_bucket(store: ObjectStore, options: Mapping[str, str]) -> bool:
    """Create the bucket of a store on S3 if it is missing; says whether it did.

    Raises ConfigError without the package it needs, StorageUnavailableError when the store refuses.
    """
    try:
        store.list_directory()
    except MissingBucketError:
        _create(store.uri, options)
        return True
    return False


def _create(uri: str, options: Mapping[str, str]) -> None:
    try:
        from minio.error import MinioException, S3Error
        from urllib3.exceptions import HTTPError
    except ImportError as error:
        raise ConfigError(
            f"creating a bucket needs the package minio: {installation('minio')}, "
            "or create the bucket",
            path=uri,
        ) from error
    bucket = bucket_and_prefix(uri)[0]
    region = options.get("region", "us-east-1")
    try:
        _client(options).make_bucket(bucket_name=bucket, location=region)
    except S3Error as error:
        if error.code in _IS_THERE:
            return
        raise _refused(uri, error.code or "no reason given") from None
    except IdentityError as error:
        raise _refused(uri, f"there are no credentials: {error}") from None
    except (MinioException, HTTPError, OSError) as error:
        raise _refused(uri, type(error).__name__) from None
    except ValueError as error:
        raise ConfigError(f"cannot create the bucket: {error}", path=uri) from None


def _client(options: Mapping[str, str]) -> Any:
    from minio import Minio
    from urllib3 import PoolManager, Retry, Timeout

    region = options.get("region", "us-east-1")
    endpoint = urlsplit(options.get("endpoint") or f"https://s3.{region}.amazonaws.com")
    if endpoint.path.strip("/"):
        raise ValueError("the endpoint has a path: create it with the tools of that service")
    ca_bundle = options.get("ca_bundle")
    files = ClientFiles.of(options)
    shown = None if files is None else ClientCertificate.of_files(files)
    return Minio(
        endpoint=endpoint.netloc,
        secure=endpoint.scheme == "https",
        region=region,
        credentials=_provider(implicit_identity(), region, ca_bundle),
        http_client=PoolManager(
            timeout=Timeout(connect=_CONNECT_TIMEOUT_S, read=_READ_TIMEOUT_S),
            retries=Retry(total=3, backoff_factor=0.2, status_forcelist=[500, 502, 503, 504]),
            cert_reqs="CERT_REQUIRED",
            ca_certs=ca_bundle,
            ssl_context=None if shown is None else shown.context(authorities_of(ca_bundle)),
        ),
    )


def _provider(identity: S3Identity, region: str, ca_bundle: str | None) -> Any:
    """The same credentials as other requests have, in the words of the package minio.

    Raises IdentityError when a web identity is refused.
    """
    from minio.credentials import providers

    authorities = None if ca_bundle is None else Path(ca_bundle).read_bytes()
    match identity.source:
        case IdentitySource.KEYS:
            return providers.EnvAWSProvider()
        case IdentitySource.NOBODY:
            return None
        case IdentitySource.WEB_IDENTITY:
            found = identity.exchange(region, authorities)()
        case IdentitySource.PROFILE:
            found = profile_credentials(identity.profile)()
        case IdentitySource.CONTAINER | IdentitySource.INSTANCE:
            return providers.IamAwsProvider()
    return providers.StaticProvider(
        access_key=found["access_key_id"],
        secret_key=found["secret_access_key"],
        session_token=found["token"],
    )


def _refused(uri: str, why: str) -> StorageUnavailableError:
    return StorageUnavailableError(f"cannot create the bucket: {why}", path=uri)
