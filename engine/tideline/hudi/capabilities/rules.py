"""What may be done with a table: one set of rules for reports, writes, services and repairs. Pure.

1. What cannot be read is refused altogether; of a table whose layout is read but not written,
   all that changes it.
2. Rows that need custom merging code are never merged here; operations that merge nothing continue.
3. Base files of another format than Parquet are read, not written: what writes rows is refused, and
   a change of the version, which compacts. The same goes for columns of Hudi's own types.
4. A bootstrapped table is not changed: some of its rows lie in files of others.
5. A table that logs changes (CDC) is not written: the log would lack what we write. What only moves
   or drops whole files logs nothing in Hudi either.
6. Rows are not rewritten where keys or partition columns are not understood.
7. Another lock provider keeps everything away that takes the lock.
8. Nothing that makes instants is done in a zone that is visibly not UTC and not declared.
9. A bucket index fixes where rows lie: what would move them otherwise is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.refusal import Refusal
from tideline.hudi.index.bucket_layout import HAS_BUCKETS, BucketEngine, BucketLayout
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.own_type import own_type_of
from tideline.hudi.table.partial_updates import PartialUpdates
from tideline.hudi.table.table_config import (
    BASE_FILE_FORMAT,
    CDC_ENABLED,
    DROP_PARTITION_COLUMNS,
    PARQUET,
    PROPERTIES_PATH,
    SLASH_SEPARATED_DATES,
    TIMEZONE,
    TableConfig,
)
from tideline.hudi.timeline.known_zone import KnownZone
from tideline.settings.gate import dangers_stored
from tideline.settings.setting import Risk

HUDI_INDEX_TYPE = "hoodie.index.type"
ZONE_PLACES = "an option, a property of the table (tideline declare), or timezone of the LakeTable"
_WITH_HUDI = "leave it to the engine that writes the table"
_UPGRADE_FIRST = "upgrade it to version 6 first: tideline upgrade --to 6"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules are applied to. None but as `config`: unknown, or not looked up."""

    config: TableConfig
    zone: KnownZone | None = None
    layout: BucketLayout | None = None
    schema_json: str | None = None


def refusal_of(permission: Permission, facts: Facts) -> Refusal | None:
    """Why the permission is refused; None when nothing known speaks against it.

    Raises CorruptTableError for properties that cannot be.
    """
    for rule in _RULES:
        refusal = rule(permission, facts)
        if refusal is not None:
            return refusal
    return None


def refusals_of(facts: Facts) -> dict[Permission, Refusal]:
    """All operations that are refused."""
    found = ((permission, refusal_of(permission, facts)) for permission in Permission)
    return {permission: refusal for permission, refusal in found if refusal is not None}


def _unreadable(_: Permission, facts: Facts) -> Refusal | None:
    return _refused(facts.config.check_readable)


def _not_changed(permission: Permission, facts: Facts) -> Refusal | None:
    if not permission.changes_table or permission is Permission.UPGRADE:
        return None
    return _refused(facts.config.check_writable, remedy=_UPGRADE_FIRST)


def _in_other_format(permission: Permission, facts: Facts) -> Refusal | None:
    found = facts.config.base_file_format
    if found == PARQUET or not permission.may_write_rows:
        return None
    return Refusal(
        f"base files in {found} are read, not written",
        PROPERTIES_PATH,
        f"{BASE_FILE_FORMAT}={found}",
        remedy=_WITH_HUDI,
    )


def _in_hudis_types(permission: Permission, facts: Facts) -> Refusal | None:
    if facts.schema_json is None or not permission.may_write_rows:
        return None
    found = own_type_of(facts.schema_json)
    if found is None:
        return None
    column, own_type = found
    return Refusal(
        f"columns of Hudi's type {own_type} are read, not written", value=column, remedy=_WITH_HUDI
    )


def _bootstrapped(permission: Permission, facts: Facts) -> Refusal | None:
    found = facts.config.bootstrap_base_path
    if found is None or not permission.changes_table:
        return None
    return Refusal(
        "bootstrapped tables are read, not changed", PROPERTIES_PATH, found, remedy=_WITH_HUDI
    )


def _unmerged(permission: Permission, facts: Facts) -> Refusal | None:
    config = facts.config
    if permission.merges_rows:
        refusal = _refused(lambda: _merging(config), remedy=_WITH_HUDI)
        if refusal is not None:
            return refusal
    merges = permission.merges_rows and permission.changes_table
    return _endangered(config, Risk.MERGING) if merges else None


def _merging(config: TableConfig) -> tuple[MergeMode, PartialUpdates | None]:
    return config.merge_mode, config.partial_updates


def _unlogged(permission: Permission, facts: Facts) -> Refusal | None:
    logs_changes = permission.merges_rows and permission.changes_table
    if not logs_changes or not facts.config.logs_changes:
        return None
    return Refusal(
        "the table keeps a log of its changes (CDC), which Tideline does not write",
        PROPERTIES_PATH,
        f"{CDC_ENABLED}=true",
        remedy=_WITH_HUDI,
    )


def _not_rewritten(permission: Permission, facts: Facts) -> Refusal | None:
    if not permission.writes_rows:
        return None
    config = facts.config
    refusal = _refused(lambda: config.key_generator, remedy=_WITH_HUDI)
    if refusal is not None:
        return refusal
    for key in (DROP_PARTITION_COLUMNS, SLASH_SEPARATED_DATES):
        if config.has_flag(key):
            return Refusal(
                "writing such a table is not supported",
                PROPERTIES_PATH,
                f"{key}=true",
                remedy=_WITH_HUDI,
            )
    if not config.record_key_fields:
        return Refusal("a table without record keys is not written", PROPERTIES_PATH)
    return None


def _locked_otherwise(permission: Permission, facts: Facts) -> Refusal | None:
    return _endangered(facts.config, Risk.LOCKING) if permission.changes_table else None


def _in_no_zone(permission: Permission, facts: Facts) -> Refusal | None:
    known = facts.zone
    if known is None or known.refusal is None or not permission.makes_instants:
        return None
    example = str(known.example.time) if known.example else None
    return Refusal(known.refusal, value=example, declare=TIMEZONE, where=ZONE_PLACES)


def _in_buckets(permission: Permission, facts: Facts) -> Refusal | None:
    layout = facts.layout
    if layout is None:
        return None
    if permission is Permission.CLUSTERING:
        return Refusal(HAS_BUCKETS, value=layout.known_from.value)
    if permission is Permission.WRITE:
        named = layout.mixed and HUDI_INDEX_TYPE in facts.config.properties
        return None if named else unwritable_buckets(layout)
    drops = permission in (Permission.DROP_PARTITIONS, Permission.TTL)
    if drops and layout.engine is BucketEngine.CONSISTENT_HASHING:
        return dropping_rings(layout)
    return None


def unwritable_buckets(layout: BucketLayout) -> Refusal | None:
    """Why no row is written to such buckets, unless settings name another index."""
    if layout.problem:
        return Refusal(f"the rules of its bucket index cannot be followed: {layout.problem}")
    if layout.mixed:
        return Refusal(
            "this table had a bucket index, but some of its file groups belong to no bucket, "
            f"such as the one named here; Hudi cannot write it. Name {HUDI_INDEX_TYPE} (SIMPLE "
            "finds all keys) to write it without buckets from now on",
            path=str(layout.mixed[0]),
            remedy=f"name {HUDI_INDEX_TYPE}=SIMPLE as an option, or as a property of the table",
        )
    return None


def dropping_rings(layout: BucketLayout) -> Refusal:
    """Why partitions with CONSISTENT_HASHING buckets are not dropped."""
    return Refusal(
        "partitions of a table with CONSISTENT_HASHING buckets are dropped by Hudi alone: "
        "what it writes there afterwards goes to file groups named by its hashing metadata",
        path=layout.known_from.value,
    )


def _endangered(config: TableConfig, risk: Risk) -> Refusal | None:
    for found in dangers_stored(config.properties):
        if found.risk is risk:
            value = config.properties[found.name]
            remedy = f"take {found.name} out of the properties if no writer uses it"
            return Refusal(found.message, PROPERTIES_PATH, value, remedy=remedy)
    return None


def _refused(ask: Callable[[], object], *, remedy: str = "") -> Refusal | None:
    try:
        ask()
    except (UnsupportedTableError, ConfigError) as error:
        return Refusal.of(error, remedy=remedy)
    return None


_RULES: tuple[Callable[[Permission, Facts], Refusal | None], ...] = (
    _unreadable,
    _not_changed,
    _in_other_format,
    _in_hudis_types,
    _bootstrapped,
    _not_rewritten,
    _unmerged,
    _unlogged,
    _locked_otherwise,
    _in_no_zone,
    _in_buckets,
)
