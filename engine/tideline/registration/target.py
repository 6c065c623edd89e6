"""In which metastores a table is registered, as settings name them. Pure.

`tideline.sync` names the kinds of metastores, and each kind has settings of its own. What a table's
properties say is followed but for addresses: anybody who may write to the table's folder may write
one there. They come from the caller, or from this process's environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.hudi.table.table_config import SYNC, TableConfig
from tideline.registration.table_name import TableName
from tideline.trust.foreign_words import quoted

HIVE, GLUE = "hive", "glue"
_NAME = re.compile(r"[a-z0-9_]{1,128}")


@dataclass(frozen=True, slots=True)
class SyncTarget:
    """A kind of metastore, the name that a table has there, and the address that the caller gives,
    None for that of the environment."""

    kind: str
    name: TableName
    address: str | None = None

    @classmethod
    def of(
        cls,
        kind: str,
        config: TableConfig,
        *,
        database: str | None = None,
        name: str | None = None,
        address: str | None = None,
    ) -> SyncTarget:
        """A target as people name it: the database is that of the table's properties unless given,
        or `default`, the name that of the table.

        Raises ConfigError for names that no metastore has.
        """
        chosen = TableName(
            (database or config.database or "default").lower(), (name or config.name).lower()
        )
        for what, text in (("database", chosen.database), ("table", chosen.name)):
            if not _NAME.fullmatch(text):
                message = (
                    f"the name of a {what} in a metastore has letters, digits and _, 128 at most: "
                    "give it another one"
                )
                raise ConfigError(message, table=config.table_uri, value=quoted(text))
        return cls(kind, chosen, address)

    def __str__(self) -> str:
        return f"{self.name} in {self.kind}"


def setting_name(kind: str, what: str) -> str:
    """The setting `what` of a kind of metastore."""
    return f"{SYNC}.{kind}.{what}"


def targets_in(
    config: TableConfig, given: Mapping[str, str] | None = None
) -> tuple[SyncTarget, ...]:
    """The targets that a table's properties name, with settings over them. Raises ConfigError."""
    own = given or {}
    named = {**config.properties, **own}
    kinds = (word.strip().lower() for word in named.get(SYNC, "").split(","))
    return tuple(
        SyncTarget.of(
            kind,
            config,
            database=named.get(setting_name(kind, "database")),
            name=named.get(setting_name(kind, "name")),
            address=own.get(setting_name(kind, "uri")),
        )
        for kind in dict.fromkeys(filter(None, kinds))
    )


def chosen_targets(
    config: TableConfig,
    *,
    hive: str | None,
    glue: str | None,
    database: str | None,
    name: str | None,
) -> tuple[SyncTarget, ...]:
    """The targets that somebody names, or else those of the table's properties.

    Raises ConfigError where nothing is named, and as `SyncTarget.of`.
    """
    given = {kind: address for kind, address in ((HIVE, hive), (GLUE, glue)) if address is not None}
    if given:
        return tuple(
            SyncTarget.of(kind, config, database=database, name=name, address=address)
            for kind, address in given.items()
        )
    found = targets_in(config)
    if not found:
        message = (
            "name a metastore (--hive thrift://host:9083, --glue REGION), or set tideline.sync in "
            "the table's properties"
        )
        raise ConfigError(message, table=config.table_uri)
    if database or name:
        kinds = (target.kind for target in found)
        return tuple(SyncTarget.of(kind, config, database=database, name=name) for kind in kinds)
    return found
