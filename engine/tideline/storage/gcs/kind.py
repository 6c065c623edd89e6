"""Google Cloud Storage as a kind of store.

Options: `gcs_endpoint` (URL), `allow_http` (false), `ca_bundle` (file path).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.client import checked_endpoint, checked_switch
from tideline.storage.store_kind import Options, StoreKind, bucket_and_prefix, bucket_uri

if TYPE_CHECKING:
    from tideline.storage.gcs.store import GcsEndpoint


def _opened(uri: str, options: Options, connection: Any) -> ObjectStore:
    # With HTTP and TLS, as for S3.
    from tideline.storage.gcs.store import GcsStore

    bucket, prefix = bucket_and_prefix(uri)
    return GcsStore(bucket, prefix, endpoint=_endpoint(options), connection=connection)


def _endpoint(options: Options) -> GcsEndpoint:
    from tideline.storage.gcs.store import GcsEndpoint

    return GcsEndpoint(
        url=options.get("gcs_endpoint"),
        allow_http=options.get("allow_http") == "true",
        ca_bundle=options.get("ca_bundle"),
    )


def _hadoop_settings(_: str, options: Options) -> dict[str, str]:
    # With the identities, as for S3.
    from tideline.storage.gcs.hadoop import gcs_settings

    return gcs_settings(options.get("gcs_endpoint"), options.get("ca_bundle"))


def _checked(given: Mapping[str, str | bool]) -> dict[str, str]:
    options = {name: str(value) for name, value in given.items()}
    if "allow_http" in options:
        options["allow_http"] = checked_switch("allow_http", options["allow_http"])
    if "gcs_endpoint" in options:
        options["gcs_endpoint"] = checked_endpoint(options["gcs_endpoint"], options)
    return options


GCS = StoreKind(
    "gs",
    lambda _, rest, __: bucket_uri("gs", rest),
    _opened,
    aliases=("gcs",),
    option_names=("gcs_endpoint", "allow_http", "ca_bundle"),
    checked=_checked,
    is_remote=True,
    server=lambda _, options: _endpoint(options).service_url,
    hadoop_scheme="gs",
    connector="gcs",
    hadoop_settings=_hadoop_settings,
)
