"""Where the files may be that a table names: at its own place, and where configuration says.

Anybody who may write to a table's folder may write its metadata, and the process that reads it has
credentials and a machine of its own. So of the locations in it are read:

1. those below the table's own place;
2. those below a place that the process's configuration declares, in `TIDELINE_EXTRA_LOCATIONS` or
   by a parameter;
3. on an object store those in the bucket of the table: its credentials are for that bucket, and
   and their owner may read there anyway.

A folder of this machine is never one by 3, nor is another bucket or another kind of store. What a
table says of itself, as `write.data.path` does, declares nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tideline.errors import ConfigError
from tideline.storage.azure.kind import AZURE
from tideline.storage.kinds import KINDS, kind_of
from tideline.storage.local.kind import LOCAL

SETTING: Final = "TIDELINE_EXTRA_LOCATIONS"


@dataclass(frozen=True, slots=True)
class NamedPlaces:
    """The place of one table and the declared ones, each in the spelling of `normalised`."""

    own: str
    declared: tuple[str, ...] = ()

    @classmethod
    def of(cls, own: str, declared: Iterable[str]) -> NamedPlaces:
        return cls(normalised(own), tuple(map(normalised, declared)))

    def root_of(self, uri: str) -> str | None:
        """The place that a location is read below: the table's own, a declared one, or the bucket
        of either; None for a location that is not read."""
        plain = normalised(uri)
        if ".." in plain.split("/"):
            return None
        if is_below(plain, self.own):
            return self.own
        around = [place for place in self.declared if is_below(plain, place)]
        if around:
            return max(around, key=len)
        bucket = _bucket(self.own)
        return bucket if bucket is not None and is_below(plain, bucket) else None


def declared_places() -> tuple[str, ...]:
    """What the setting declares: locations, separated by commas.

    Raises ConfigError for one that is no absolute location.
    """
    given = (text.strip() for text in os.environ.get(SETTING, "").split(","))
    return tuple(checked_place(text) for text in given if text)


def checked_place(text: str) -> str:
    """A declared place in the spelling of `normalised`. Raises ConfigError for what is none."""
    place = normalised(text)
    scheme, separator, rest = place.partition("://")
    if not separator or scheme not in KINDS or not rest or ".." in rest.split("/"):
        message = f"{SETTING}: allowed: locations such as s3://bucket/folder or file:///folder"
        raise ConfigError(message, value=text)
    if scheme == AZURE.scheme and "@" not in rest.partition("/")[0]:
        # Nothing is ever below it.
        message = f"{SETTING}: write abfss://container@account.dfs.core.windows.net/folder"
        raise ConfigError(message, value=text)
    return place


def is_declared(uri: str) -> bool:
    """Whether the setting declares a location, or a folder around it. Raises ConfigError."""
    plain = normalised(uri)
    is_up = ".." in plain.split("/")
    return not is_up and any(is_below(plain, place) for place in declared_places())


def not_named(what: str) -> str:
    """The message for a location that is not read."""
    return (
        f"{what} names a location that is not the table's own: it is not read; where it is meant, "
        f"add its folder to {SETTING}"
    )


def is_below(plain: str, place: str) -> bool:
    """Whether a location is or lies below another, both as `normalised` spells them."""
    return plain == place or plain.startswith(f"{place.rstrip('/')}/")


def normalised(uri: str) -> str:
    """One spelling per place: `s3://bucket/path`, `gs://bucket/path`,
    `abfss://container@account.dfs.core.windows.net/path`, `file:///path`, no trailing slash.

    A location without a scheme that is not absolute stays as it is.
    """
    scheme, separator, rest = uri.partition(":")
    if not separator or "/" in scheme:
        scheme, rest = ("file", uri) if uri.startswith("/") else ("", uri)
    if not scheme:
        return uri.rstrip("/")
    kind = kind_of(scheme)
    return (
        f"{scheme.lower()}:{rest}".rstrip("/")
        if kind is None
        else f"{kind.scheme}://{kind.plain(rest)}"
    )


def _bucket(place: str) -> str | None:
    scheme, _, rest = place.partition("://")
    has_buckets = scheme in KINDS and scheme != LOCAL.scheme
    return f"{scheme}://{rest.partition('/')[0]}" if has_buckets else None
