"""May a table be here: is its folder inside, around or the same as another's?

Two tables in one folder delete each other's files, so a new table is refused where one is. Two
halves:

1. `relation` compares two locations as values, for whoever knows both (a controller that declares
   tables, a landing folder beside a table). Endpoints are compared by what they reach, not by how
   they are spelled; what only the network knows, such as an alias of a host, stays unknown.
2. `find_table_conflict` looks into the store, at bounded cost: two requests for each folder above
   the location, and one listing of the first `LISTED_MAX` objects below it. A table further back
   in a huge folder is not noticed; listings of the new table leave it out all the same.

Another creator may be at work in a parent folder at the same moment; nothing excludes that.
"""

from __future__ import annotations

import os
from contextlib import suppress
from enum import Enum
from itertools import islice
from urllib.parse import urlsplit

from tideline.errors import ConfigError, StorageUnavailable
from tideline.storage.location import StoreLocation
from tideline.storage.nested_tables import HUDI, ICEBERG, is_table_metadata_file, nested_tables
from tideline.storage.object_store import ObjectStore
from tideline.table.table_config import PROPERTIES_PATH

LISTED_MAX = 5_000
_METADATA_LISTED_MAX = 1_000
_AWS = ".amazonaws.com"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS = (None, 80, 443)


class Relation(Enum):
    """Where one location is, seen from another."""

    SAME = "the same as"
    INSIDE = "inside"
    AROUND = "around"

    def __str__(self) -> str:
        return self.value


def relation(one: StoreLocation, other: StoreLocation) -> Relation | None:
    """How `one` lies to `other`: the same place, inside it or around it; None for apart. Pure."""
    here, there = _steps(one), _steps(other)
    if here == there:
        return Relation.SAME
    if here[: len(there)] == there:
        return Relation.INSIDE
    return Relation.AROUND if there[: len(here)] == here else None


def same_endpoint(one: str | None, other: str | None) -> bool:
    """Whether two S3 endpoints (URLs, None for that of AWS) reach the same service. Pure."""
    return _endpoint(one) == _endpoint(other)


def find_table_conflict(location: StoreLocation) -> str | None:
    """Which table is at, above or below a location, in words; None when none is seen.

    What may not be read above the location counts as no table. Raises StorageUnavailable when the
    location itself cannot be listed.
    """
    root, path = _split(location)
    store = root.open()
    steps = path.split("/") if path else []
    for count in range(len(steps)):
        above = "/".join(steps[:count])
        with suppress(StorageUnavailable):
            if (found := _table_at(store, above)) is not None:
                return f"inside the {found} table at {_uri(root, above)}"
    listed = (info.path for info in islice(location.open().list(), LISTED_MAX))
    below = nested_tables(f"_/{item}" for item in listed)
    here = below.pop("_", None)
    if here == ICEBERG:
        return f"that of an {ICEBERG} table"
    for nested, format_name in sorted(below.items()):
        return f"around the {format_name} table at {_uri(location, nested.removeprefix('_/'))}"
    return None


def refuse_table_conflict(location: StoreLocation) -> None:
    """Raise ConfigError when another table is at, above or below the location."""
    conflict = find_table_conflict(location)
    if conflict is not None:
        raise ConfigError(f"the location is {conflict}; choose one of its own", table=location.uri)


def _table_at(store: ObjectStore, folder: str) -> str | None:
    prefix = f"{folder}/" if folder else ""
    if store.head(f"{prefix}{PROPERTIES_PATH}") is not None:
        return HUDI
    metadata = f"{prefix}metadata"
    names = islice(store.list(metadata), _METADATA_LISTED_MAX)
    if any(is_table_metadata_file(info.path) for info in names):
        return ICEBERG
    return None


def _split(location: StoreLocation) -> tuple[StoreLocation, str]:
    """The location's outermost root, and its path from there; links of local folders resolved."""
    if location.scheme == "file":
        path = os.path.realpath(location.uri.removeprefix("file://"))
        return StoreLocation("file:///", location.options), path.strip("/")
    scheme, _, rest = location.uri.partition("://")
    bucket, _, path = rest.partition("/")
    return StoreLocation(f"{scheme}://{bucket}", location.options), path


def _uri(root: StoreLocation, path: str) -> str:
    return f"{root.uri.removesuffix('/')}/{path}" if path else root.uri


def _steps(location: StoreLocation) -> tuple[str, ...]:
    """Scheme, service and folders, such that a place has one spelling."""
    scheme, _, rest = location.uri.partition("://")
    service = _endpoint(dict(location.options).get("endpoint")) if scheme == "s3" else ""
    folders = (step for step in rest.split("/") if step)
    bucket = rest.partition("/")[0]
    return (scheme, service.removeprefix(f"{bucket}."), *folders)


def _endpoint(url: str | None) -> str:
    """The host, with its port unless that is a default one.

    Services of Kubernetes have the same name with and without the cluster's domain; names of
    buckets are unique in all regions of AWS.
    """
    if not url:
        return "aws"
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if host.endswith((_AWS, f"{_AWS}.cn")):
        return "aws"
    if host in _LOOPBACK:
        host = "localhost"
    host = host.removesuffix(".cluster.local").removesuffix(".svc")
    return host if parts.port in _DEFAULT_PORTS else f"{host}:{parts.port}"
