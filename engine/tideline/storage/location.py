"""Where a store is: a value that can be compared, pickled and shipped to a worker.

URIs are kept in one form, without percent-encoding, as Hadoop and Spark write them:
`file:///absolute/path`, `s3://bucket/prefix`, `memory://name/prefix`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tideline.errors import ConfigError, InvalidDataError
from tideline.secret_values import sounds_secret
from tideline.storage.local.store import LocalStore
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import ObjectStore, checked_prefix

if TYPE_CHECKING:
    from tideline.storage.s3.client import S3Connection, S3Endpoint

OPTION_NAMES = ("endpoint", "region", "path_style", "allow_http", "ca_bundle", "create_bucket")
_AWS_REGION = re.compile(r"[A-Za-z0-9_-]+")
_SWITCHES = ("path_style", "allow_http", "create_bucket")


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A store's URI and the options to reach it; `options` are sorted and only kept for S3."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, str | bool] | None = None,
    ) -> StoreLocation:
        """Parse a path or URI: a plain path, `file:`, `s3://`, `s3a://`, `s3n://`, `memory://`.

        Options: `endpoint` (URL), `region` (us-east-1), `path_style` (true), `allow_http` (false),
        `ca_bundle` (file path), `create_bucket` (false). They matter for S3 alone. Raises
        ConfigError for anything else, above all for credentials, which only ever come from the
        environment.
        """
        options = _checked_options(storage_options or {})
        text = os.fspath(uri)
        if not text:
            raise ConfigError("the location is empty")
        scheme, separator, rest = text.partition(":")
        if not separator or "/" in scheme:
            return cls(_file_uri(text))
        match scheme.lower():
            case "file":
                return cls(_file_uri(_local_part(text, rest)))
            case "s3" | "s3a" | "s3n":
                found = cls(_bucket_uri("s3", rest), options)
                found.server()
                return found
            case "memory":
                return cls(_bucket_uri("memory", rest))
        raise ConfigError("unknown storage scheme: use a path, file://, s3://", value=f"{scheme}:")

    @property
    def scheme(self) -> str:
        """`file`, `s3` or `memory`."""
        return self.uri.partition(":")[0]

    @property
    def creates_bucket(self) -> bool:
        """Whether creating a table here may create the bucket as well."""
        return dict(self.options).get("create_bucket") == "true"

    def open(self, connection: S3Connection | None = None) -> ObjectStore:
        """A store on this location; nothing is requested from it yet.

        On S3 with the credentials of `connection`, or else those of the environment.
        """
        if self.scheme == "file":
            return LocalStore(self.uri.removeprefix("file://"))
        bucket, _, prefix = self.uri.partition("://")[2].partition("/")
        if self.scheme == "memory":
            return MemoryStore(bucket, prefix)
        # With HTTP and TLS: a sixth of the start of a command, wasted on local tables.
        from tideline.storage.s3.store import S3Store

        return S3Store(bucket, prefix, endpoint=self._endpoint(), connection=connection)

    def server(self) -> str | None:
        """The URL that requests go to; None where there is no server."""
        if self.scheme != "s3":
            return None
        return self._endpoint().server(self.uri.removeprefix("s3://").partition("/")[0])

    def child(self, path: str) -> StoreLocation:
        """The location of the directory `path` below this one."""
        below = checked_prefix(path)
        return StoreLocation(_join(self.uri, below), self.options) if below else self

    def spark_uri(self, path: str = "") -> str:
        """What Spark and Hadoop call `path` here: `file:/...` or `s3a://...`.

        Raises ConfigError for a memory location, which Spark cannot reach.
        """
        joined = _join(self.uri, path) if path else self.uri
        if self.scheme == "file":
            return "file:" + joined.removeprefix("file://")
        if self.scheme == "s3":
            return "s3a:" + joined.removeprefix("s3:")
        raise ConfigError("Spark cannot read a memory:// location", value=self.uri)

    def _endpoint(self) -> S3Endpoint:
        from tideline.storage.s3.client import S3Endpoint

        options = dict(self.options)
        return S3Endpoint(
            url=options.get("endpoint"),
            region=options.get("region", "us-east-1"),
            path_style=options.get("path_style", "true") == "true",
            allow_http=options.get("allow_http") == "true",
            ca_bundle=options.get("ca_bundle"),
        )


def _join(uri: str, path: str) -> str:
    return f"{uri.removesuffix('/')}/{path}"


def _file_uri(path: str) -> str:
    # Not resolve(): a table keeps the name its user gave it, symbolic links included.
    return "file:///" + os.path.normpath(Path.cwd() / path).lstrip("/")


def _local_part(text: str, rest: str) -> str:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise ConfigError("a file URI names no host: write file:///path", value=text)
        rest = slash + path
    if not rest.startswith("/"):
        raise ConfigError("a file URI needs an absolute path", value=text)
    return rest


def _bucket_uri(scheme: str, rest: str) -> str:
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    if "@" in bucket:
        raise ConfigError(f"credentials do not belong in a {scheme}:// URI: use the environment")
    if not rest.startswith("//") or not bucket:
        raise ConfigError(f"Write {scheme}://name/path", value=f"{scheme}:{rest}")
    path = "/".join(segment for segment in prefix.split("/") if segment)
    try:
        return f"{scheme}://{bucket}" + (f"/{checked_prefix(path)}" if path else "")
    except InvalidDataError as error:
        raise ConfigError(error.message, value=f"{scheme}:{rest}") from error


def _checked_options(given: Mapping[str, str | bool]) -> tuple[tuple[str, str], ...]:
    options: dict[str, str] = {}
    for name, value in given.items():
        if name not in OPTION_NAMES:
            if sounds_secret(name):
                raise ConfigError(
                    f"storage option {name!r} looks like a credential: "
                    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment instead"
                )
            raise ConfigError(
                f"unknown storage option {name!r}: choose from {', '.join(OPTION_NAMES)}"
            )
        options[name] = _switch(name, value) if name in _SWITCHES else str(value)
    if "endpoint" in options:
        options["endpoint"] = _endpoint(options["endpoint"], options.get("allow_http") == "true")
    elif not _AWS_REGION.fullmatch(options.get("region", "us-east-1")):
        # It becomes a part of the name of the server.
        raise ConfigError("the region must be one of AWS where no endpoint is named",
                          value=options["region"])  # fmt: skip
    return tuple(sorted(options.items()))


def _switch(name: str, value: str | bool) -> str:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"storage option {name!r} is true or false", value=value)
    return text


def _endpoint(value: str, allow_http: bool) -> str:
    parts = urlsplit(value)
    if "@" in parts.netloc:
        raise ConfigError("the endpoint must not carry credentials: use the environment")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ConfigError("the endpoint must be a URL like https://host:9000", value=value)
    if parts.scheme == "http" and not allow_http:
        message = "an http endpoint needs --allow-http (the storage option allow_http=true)"
        raise ConfigError(message, value=value)
    return value.rstrip("/")
