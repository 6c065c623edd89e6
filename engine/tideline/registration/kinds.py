"""The kinds of metastores, and opening one. Each is loaded where it is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from tideline.distribution import with_extra
from tideline.errors import ConfigError
from tideline.registration.metastore import Metastore
from tideline.registration.target import HIVE, SyncTarget

HIVE_URI = "TIDELINE_HIVE_URI"
"""The environment variable with the address of Hive's metastore."""


def open_metastore(target: SyncTarget) -> Metastore:
    """The metastore of a target; nothing is sent to it yet. Raises ConfigError."""
    opens = _KINDS.get(target.kind)
    if opens is None:
        message = f"no such kind of metastore; there are {', '.join(sorted(_KINDS))}"
        raise ConfigError(message, value=target.kind)
    return opens(target)


def _hive(target: SyncTarget) -> Metastore:
    address = target.address or os.environ.get(HIVE_URI)
    if not address:
        message = (
            "the metastore's address is not known, and none is taken from a table: set "
            f"{HIVE_URI}, or name it"
        )
        raise ConfigError(message, value=str(target))
    with with_extra("hive", "this metastore needs"):
        from tideline.registration.hive import HiveMetastore
    return HiveMetastore.at(address)


_KINDS: Mapping[str, Callable[[SyncTarget], Metastore]] = {HIVE: _hive}
