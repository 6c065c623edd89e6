"""Where a store is: a value that can be compared, pickled and shipped to a worker.

URIs are kept in one form, without percent-encoding, as Hadoop and Spark write them:
`file:///absolute/path`, `s3://bucket/prefix`, `gs://bucket/prefix`,
`abfss://container@account.dfs.core.windows.net/prefix`, `memory://name/prefix`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideline.errors import ConfigError
from tideline.storage.kinds import KINDS, checked_options, kind_of
from tideline.storage.local.kind import LOCAL, file_uri
from tideline.storage.object_store import ObjectStore, checked_prefix
from tideline.storage.store_kind import StoreKind


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A store's URI and the options to reach it: sorted, and those of its kind of store."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, str | bool] | None = None,
    ) -> StoreLocation:
        """Parse a path or URI: a plain path, `file:`, `s3://`, `gs://`, `abfss://`, `az://`,
        `memory://`, or another spelling of these.

        Options are those of a kind of store (`storage.<kind>.kind`), kept by locations of that
        kind alone. Raises ConfigError for anything else, above all for credentials, which only
        ever come from the environment.
        """
        text, given = os.fspath(uri), storage_options or {}
        scheme, separator, rest = text.partition(":")
        if not separator or "/" in scheme:
            checked_options(LOCAL, given)
            if not text:
                raise ConfigError("the location is empty")
            return cls(file_uri(text))
        kind = kind_of(scheme)
        options = checked_options(kind or LOCAL, given)
        if kind is None:
            message = "unknown storage scheme: use a path, file://, s3://, gs:// or abfss://"
            raise ConfigError(message, value=f"{scheme}:")
        found = cls(kind.spelled(text, rest, options), tuple(sorted(options.items())))
        found.server()
        return found

    @property
    def scheme(self) -> str:
        """The scheme of its kind of store."""
        return self.uri.partition(":")[0]

    @property
    def kind(self) -> StoreKind:
        return KINDS[self.scheme]

    @property
    def creates_bucket(self) -> bool:
        """Whether creating a table here may create the bucket as well."""
        return dict(self.options).get("create_bucket") == "true"

    def open(self, connection: Any = None) -> ObjectStore:
        """A store on this location; nothing is requested from it yet.

        With the credentials of `connection`, which is one of its kind of store, or else those of
        the environment.
        """
        return self.kind.opened(self.uri, dict(self.options), connection)

    def server(self) -> str | None:
        """The URL that requests go to; None where there is no server."""
        return self.kind.server(self.uri, dict(self.options))

    def create_missing(self) -> bool:
        """Create the bucket of a new table if it is missing and may be created; whether it was.

        Raises ConfigError without the package it needs, StorageUnavailableError when the store
        refuses.
        """
        return self.kind.create_missing(self.uri, dict(self.options))

    def hadoop_settings(self) -> dict[str, str]:
        """What Hadoop needs to reach it. Raises ConfigError when the environment has no
        credentials."""
        return self.kind.hadoop_settings(self.uri, dict(self.options))

    def child(self, path: str) -> StoreLocation:
        """The location of the directory `path` below this one."""
        below = checked_prefix(path)
        return StoreLocation(_join(self.uri, below), self.options) if below else self

    def spark_uri(self, path: str = "") -> str:
        """What Spark and Hadoop call `path` here: `file:/...` or `s3a://...`.

        Raises ConfigError for a memory location, which Spark cannot reach.
        """
        scheme = self.kind.hadoop_scheme
        if self.kind.hadoop_plain_scheme and (self.server() or "").startswith("http:"):
            scheme = self.kind.hadoop_plain_scheme
        if scheme is None:
            message = f"Spark cannot read a {self.scheme}:// location"
            raise ConfigError(message, value=self.uri)
        joined = _join(self.uri, path) if path else self.uri
        rest = joined.partition(":")[2]
        return f"{scheme}:{rest if self.kind.is_remote else rest.removeprefix('//')}"


def _join(uri: str, path: str) -> str:
    return f"{uri.removesuffix('/')}/{path}"
