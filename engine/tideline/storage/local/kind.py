"""Folders of this machine as a kind of store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tideline.errors import ConfigError
from tideline.storage.local.store import LocalStore
from tideline.storage.object_store import ObjectStore
from tideline.storage.store_kind import Options, StoreKind


def file_uri(path: str) -> str:
    """The URI of a plain path."""
    # Not resolve(): a table keeps the name its user gave it, symbolic links included.
    return "file:///" + os.path.normpath(Path.cwd() / path).lstrip("/")


def _spelled(text: str, rest: str, _: Options) -> str:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise ConfigError("a file URI names no host: write file:///path", value=text)
        rest = slash + path
    if not rest.startswith("/"):
        raise ConfigError("a file URI needs an absolute path", value=text)
    return file_uri(rest)


def _opened(uri: str, _: Options, __: Any) -> ObjectStore:
    return LocalStore(uri.removeprefix("file://"))


LOCAL = StoreKind(
    "file",
    _spelled,
    _opened,
    plain=lambda rest: "/" + "/".join(part for part in rest.split("/") if part),
    hadoop_scheme="file",
)
