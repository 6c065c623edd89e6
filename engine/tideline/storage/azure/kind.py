"""Azure Blob Storage as a kind of store.

A location is `abfss://container@account.dfs.core.windows.net/path`, as Hadoop and Spark write it;
`az://container/path` is the same in the account of the options, or of the environment.

Options: `azure_account`, `azure_endpoint` (URL), `allow_http` (false), `ca_bundle` (file path).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tideline.errors import ConfigError, InvalidDataError
from tideline.secret_values import holds_secret
from tideline.storage.object_store import ObjectStore, checked_prefix
from tideline.storage.remote.client import checked_endpoint, checked_switch
from tideline.storage.store_kind import Options, StoreKind, bucket_and_prefix

if TYPE_CHECKING:
    from tideline.storage.azure.store import AzureEndpoint

_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER = re.compile(r"\$?[a-z0-9][a-z0-9-]{1,62}")
_CLOUDS = ("core.windows.net", "core.usgovcloudapi.net", "core.chinacloudapi.cn")
_HOST = re.compile(rf"([a-z0-9]{{3,24}})\.(?:dfs|blob)\.({'|'.join(map(re.escape, _CLOUDS))})")
_VARIABLES = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")


def _spelled(text: str, rest: str, options: Options) -> str:
    authority, _, path = rest.removeprefix("//").partition("/")
    container, separator, host = authority.partition("@")
    is_name = _CONTAINER.fullmatch(container) is not None
    if ":" in container or holds_secret(path) or ("@" in rest and not is_name):
        # Not repeated: it may be a key, or a shared access signature.
        raise ConfigError("credentials do not belong in a location of Azure: use the environment")
    if not rest.startswith("//") or not is_name:
        raise ConfigError("write abfss://container@account.dfs.core.windows.net/path", value=text)
    if separator:
        found = _HOST.fullmatch(host.lower())
        if found is None:
            raise ConfigError(
                "the location names no account of Azure: write "
                "abfss://container@account.dfs.core.windows.net/path, and a server of its own as "
                "the option azure_endpoint",
                value=text,
            )
        account, cloud = found.groups()
    else:
        account, cloud = _given_account(options, text), _CLOUDS[0]
    segments = "/".join(segment for segment in path.split("/") if segment)
    try:
        below = checked_prefix(segments)
    except InvalidDataError as error:
        raise ConfigError(error.message, value=text) from error
    place = f"abfss://{container}@{account}.dfs.{cloud}"
    return f"{place}/{below}" if below else place


def _plain(rest: str) -> str:
    authority, slash, path = rest.strip("/").partition("/")
    container, at, host = authority.partition("@")
    return f"{container}{at}{host.lower().replace('.blob.', '.dfs.', 1)}{slash}{path}"


def _given_account(options: Options, text: str) -> str:
    """The account of a location that names none. Raises ConfigError without one."""
    names = (options.get("azure_account"), *map(os.environ.get, _VARIABLES))
    account = next(filter(None, names), None)
    if account is None:
        raise ConfigError(
            "the location names no account of Azure: write "
            "abfss://container@account.dfs.core.windows.net/path, or set --azure-account or "
            "AZURE_STORAGE_ACCOUNT_NAME",
            value=text,
        )
    return _checked_account(account)


def _checked_account(account: str) -> str:
    if not _ACCOUNT.fullmatch(account):
        message = "an account of Azure has 3 to 24 lower-case letters and digits"
        raise ConfigError(message, value=account)
    return account


def _opened(uri: str, options: Options, connection: Any) -> ObjectStore:
    # With HTTP and TLS, as for S3.
    from tideline.storage.azure.store import AzureStore

    authority, prefix = bucket_and_prefix(uri)
    return AzureStore(authority, prefix, endpoint=_endpoint(uri, options), connection=connection)


def _endpoint(uri: str, options: Options) -> AzureEndpoint:
    from tideline.storage.azure.store import AzureEndpoint

    host = bucket_and_prefix(uri)[0].partition("@")[2]
    account, _, cloud = host.partition(".dfs.")
    return AzureEndpoint(
        account=account,
        cloud=cloud,
        url=options.get("azure_endpoint"),
        allow_http=options.get("allow_http") == "true",
        ca_bundle=options.get("ca_bundle"),
    )


def _hadoop_settings(uri: str, options: Options) -> dict[str, str]:
    # With the identities, as for S3.
    from tideline.storage.azure.hadoop import abfs_settings

    host = bucket_and_prefix(uri)[0].partition("@")[2]
    return abfs_settings(host, options.get("azure_endpoint"))


def _checked(given: Mapping[str, str | bool]) -> dict[str, str]:
    options = {name: str(value) for name, value in given.items()}
    if "allow_http" in options:
        options["allow_http"] = checked_switch("allow_http", options["allow_http"])
    if "azure_endpoint" in options:
        options["azure_endpoint"] = checked_endpoint(options["azure_endpoint"], options)
    if "azure_account" in options:
        _checked_account(options["azure_account"])
    return options


AZURE = StoreKind(
    "abfss",
    _spelled,
    _opened,
    aliases=("abfs", "az", "wasb", "wasbs"),
    plain=_plain,
    option_names=("azure_account", "azure_endpoint", "allow_http", "ca_bundle"),
    checked=_checked,
    is_remote=True,
    server=lambda uri, options: _endpoint(uri, options).service_url,
    hadoop_scheme="abfss",
    hadoop_plain_scheme="abfs",
    connector="azure",
    hadoop_settings=_hadoop_settings,
)
