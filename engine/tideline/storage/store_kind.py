"""What the code must be told of a kind of store: one declaration, in the store's own folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tideline.errors import ConfigError, InvalidDataError
from tideline.secret_values import holds_secret
from tideline.storage.object_store import ObjectStore, checked_prefix

Options = Mapping[str, str]

_NO_NAME = re.compile(r"^\.\.?$|[?#%\\\s]")
"""A bucket's name is a part of a URL, where these would name another place."""


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A kind of store.

    - `scheme` is that of its URIs; `aliases` mean the same. `spelled` gives the one form of a URI
      from the whole text, what stands behind the scheme, and options. Raises ConfigError.
      `plain` gives what is behind `scheme://` in the form by which places that a table names are
      compared; it takes any text.
    - `option_names` are what a location may say of it, never a credential; `checked` gives them as
      they are kept. Raises ConfigError.
    - `opened` opens a URI with options and a connection, None for that of the environment.
      Nothing is requested yet.
    - `is_remote`: other machines reach it. `server` is the URL that requests of a URI go to.
    - `create_missing` creates what holds a new table where that is missing and the options allow
      it, and says whether it did.
    - `hadoop_scheme` is that of Spark's URIs, `hadoop_plain_scheme` where it is another one without
      TLS; None where Spark cannot reach the store. It does by the `connector` of that name
      (`spark.session.connectors`), if it needs one; `hadoop_settings` are what that needs for a
      URI. `${env.NAME}` in them is a variable of the process that reads them, so that no secret is
      in a setting.
    """

    scheme: str
    spelled: Callable[[str, str, Options], str]
    opened: Callable[[str, Options, Any], ObjectStore]
    aliases: tuple[str, ...] = ()
    plain: Callable[[str], str] = lambda rest: rest.strip("/")
    option_names: tuple[str, ...] = ()
    checked: Callable[[Mapping[str, str | bool]], dict[str, str]] = lambda _: {}
    is_remote: bool = False
    server: Callable[[str, Options], str | None] = lambda *_: None
    create_missing: Callable[[str, Options], bool] = lambda *_: False
    hadoop_scheme: str | None = None
    hadoop_plain_scheme: str | None = None
    connector: str | None = None
    hadoop_settings: Callable[[str, Options], dict[str, str]] = lambda *_: {}


def bucket_uri(scheme: str, rest: str) -> str:
    """The one form of `scheme://name/path`. Raises ConfigError."""
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    if "@" in bucket or holds_secret(prefix):
        raise ConfigError(f"credentials do not belong in a {scheme}:// URI: use the environment")
    if not rest.startswith("//") or not bucket or _NO_NAME.search(bucket):
        raise ConfigError(f"write {scheme}://name/path", value=f"{scheme}:{rest}")
    path = "/".join(segment for segment in prefix.split("/") if segment)
    try:
        return f"{scheme}://{bucket}" + (f"/{checked_prefix(path)}" if path else "")
    except InvalidDataError as error:
        raise ConfigError(error.message, value=f"{scheme}:{rest}") from error


def bucket_and_prefix(uri: str) -> tuple[str, str]:
    """The name and the path of a URI in the form that `bucket_uri` gives."""
    bucket, _, prefix = uri.partition("://")[2].partition("/")
    return bucket, prefix
