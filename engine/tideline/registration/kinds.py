"""The kinds of metastores, and opening one. Each is loaded where it is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from tideline.distribution import with_extra
from tideline.errors import ConfigError
from tideline.registration.metastore import Metastore
from tideline.registration.target import GLUE, HIVE, SyncTarget

HIVE_URI = "TIDELINE_HIVE_URI"
"""The environment variable with the address of Hive's metastore."""
GLUE_URI = "TIDELINE_GLUE_URI"
"""That with the region, or the address, of a Glue catalog."""


def open_metastore(target: SyncTarget) -> Metastore:
    """The metastore of a target; nothing is sent to it yet. Raises ConfigError."""
    opens = _KINDS.get(target.kind)
    if opens is None:
        message = f"no such kind of metastore; there are {', '.join(sorted(_KINDS))}"
        raise ConfigError(message, value=target.kind)
    return opens(target)


def _hive(target: SyncTarget) -> Metastore:
    address = _address(target, HIVE_URI)
    with with_extra("hive", "this metastore needs"):
        from tideline.registration.hive import HiveMetastore
    return HiveMetastore.at(address)


def _glue(target: SyncTarget) -> Metastore:
    from tideline.registration.glue import GlueMetastore

    return GlueMetastore.at(_address(target, GLUE_URI))


def _address(target: SyncTarget, variable: str) -> str:
    """That of the caller, or of this process's environment. Raises ConfigError without any."""
    address = target.address or os.environ.get(variable)
    if not address:
        message = (
            "the metastore's address is not known, and none is taken from a table: set "
            f"{variable}, or name it"
        )
        raise ConfigError(message, value=str(target))
    return address


_KINDS: Mapping[str, Callable[[SyncTarget], Metastore]] = {HIVE: _hive, GLUE: _glue}
