"""S3, and whatever speaks its protocol, as a kind of store.

Options: `endpoint` (URL), `region` (us-east-1), `path_style` (true), `allow_http` (false),
`ca_bundle`, `client_certificate` and `client_key` (file paths), `create_bucket` (false), and those
of `request_headers`: `sse`, `sse_kms_key_id`, `sse_bucket_key`, `requester_pays` (false),
`checksum_algorithm`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tideline.errors import ConfigError
from tideline.storage.egress.client_files import CERTIFICATE, KEY, ClientFiles
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.client import checked_endpoint, checked_switch
from tideline.storage.s3.directory_bucket import is_directory_bucket, zonal_service
from tideline.storage.s3.request_headers import VARIABLES, RequestHeaders, checked_headers
from tideline.storage.store_kind import Options, StoreKind, bucket_and_prefix, bucket_uri

if TYPE_CHECKING:
    from tideline.storage.s3.client import S3Endpoint

OPTION_NAMES = (
    "endpoint", "region", "path_style", "allow_http", "ca_bundle", CERTIFICATE, KEY,
    "create_bucket", *VARIABLES,
)  # fmt: skip
_REGION = "us-east-1"
_AWS_REGION = re.compile(r"[A-Za-z0-9_-]+")
_SWITCHES = ("path_style", "allow_http", "create_bucket")


def _opened(uri: str, options: Options, connection: Any) -> ObjectStore:
    # With HTTP and TLS: a sixth of the start of a command, wasted on local tables.
    from tideline.storage.s3.store import S3Store

    bucket, prefix = bucket_and_prefix(uri)
    return S3Store(bucket, prefix, endpoint=_endpoint(options), connection=connection)


def _server(uri: str, options: Options) -> str | None:
    return _endpoint(options).server(bucket_and_prefix(uri)[0])


def _create_missing(uri: str, options: Options) -> bool:
    if options.get("create_bucket") != "true":
        return False
    if is_directory_bucket(bucket_and_prefix(uri)[0]):
        raise ConfigError("a directory bucket is not created here: create it first", path=uri)
    # It needs a client of its own.
    from tideline.storage.s3.bucket import create_missing_bucket

    return create_missing_bucket(_opened(uri, options, None), options)


def _hadoop_settings(uri: str, options: Options) -> dict[str, str]:
    """Raises ConfigError when the environment has no credentials."""
    from tideline.storage.s3.identity import S3Identity

    region = options.get("region", _REGION)
    bucket, path_style = bucket_and_prefix(uri)[0], options.get("path_style", "true")
    # Always set: the SDK would take an endpoint left out from the environment.
    endpoint = options.get("endpoint") or f"https://s3.{region}.amazonaws.com"
    if is_directory_bucket(bucket):
        endpoint, path_style = zonal_service(bucket, region), "false"
    settings = {
        "endpoint": endpoint,
        "endpoint.region": region,
        "path.style.access": path_style,
        "connection.ssl.enabled": str(endpoint.startswith("https:")).lower(),
        "aws.credentials.provider": S3Identity.of(os.environ).source.s3a_provider,
        **RequestHeaders.of(options).s3a_settings(),
    }
    return {f"fs.s3a.bucket.{bucket}.{name}": text for name, text in settings.items()}


def _endpoint(options: Options) -> S3Endpoint:
    from tideline.storage.s3.client import S3Endpoint

    return S3Endpoint(
        url=options.get("endpoint"),
        region=options.get("region", _REGION),
        path_style=options.get("path_style", "true") == "true",
        allow_http=options.get("allow_http") == "true",
        ca_bundle=options.get("ca_bundle"),
        client_files=ClientFiles.of(options),
        headers=RequestHeaders.of(options),
    )


def _checked(given: Mapping[str, str | bool]) -> dict[str, str]:
    options = {
        name: checked_switch(name, value) if name in _SWITCHES else str(value)
        for name, value in given.items()
    }
    options |= checked_headers(options)
    if "endpoint" in options:
        options["endpoint"] = checked_endpoint(options["endpoint"], options)
    elif not _AWS_REGION.fullmatch(options.get("region", _REGION)):
        # It becomes a part of the name of the server.
        raise ConfigError("the region must be one of AWS where no endpoint is named",
                          value=options["region"])  # fmt: skip
    if CERTIFICATE in options and options.get("endpoint", "").startswith("http:"):
        message = "client_certificate needs an endpoint with TLS (https)"
        raise ConfigError(message, value=options["endpoint"])
    if KEY in options and CERTIFICATE not in options:
        raise ConfigError("client_key goes with client_certificate", value=options[KEY])
    return options


S3 = StoreKind(
    "s3",
    lambda _, rest, __: bucket_uri("s3", rest),
    _opened,
    aliases=("s3a", "s3n"),
    option_names=OPTION_NAMES,
    checked=_checked,
    is_remote=True,
    server=_server,
    create_missing=_create_missing,
    hadoop_scheme="s3a",
    connector="s3",
    hadoop_settings=_hadoop_settings,
)
