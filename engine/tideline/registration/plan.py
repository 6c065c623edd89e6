"""What has to change in a metastore: the difference of what it has and what a table registers as.
Pure.

What others have put there stays: parameters, comments, the spelling of the location, the type of a
partition column, and `bigint` for timestamps, as which some of Hudi's writers register them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tideline.errors import ConfigError
from tideline.registration.definition import (
    HUDI,
    PROVIDER,
    SCHEMA_PREFIX,
    SPARK_SCHEMA,
    spark_schema_of,
)
from tideline.registration.metastore import (
    RegisteredColumn,
    RegisteredPartition,
    RegisteredTable,
)
from tideline.storage.named_places import normalised
from tideline.trust.foreign_words import quoted

_TABLE_TYPE = "table_type"
_REMEDY = "give another name, or drop it there if it is no longer used"


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """Partitions that have to come, to get another location, and to go."""

    added: tuple[RegisteredPartition, ...] = ()
    moved: tuple[RegisteredPartition, ...] = ()
    dropped: tuple[tuple[str, ...], ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.moved or self.dropped)


def plan_table(seen: RegisteredTable | None, wanted: RegisteredTable) -> RegisteredTable:
    """What the metastore has to have: `wanted`, with what `seen` has of its own.

    Raises ConfigError where `seen` is another table, by its name.
    """
    if seen is None:
        return wanted
    _refuse_other(seen, wanted)
    serde = {**wanted.format.serde_parameters, "path": seen.location}
    return replace(
        seen,
        columns=_planned_columns(seen.columns, wanted.columns),
        format=replace(wanted.format, serde_parameters={**seen.format.serde_parameters, **serde}),
        parameters=_planned_parameters(seen.parameters, wanted.parameters),
    )


def plan_partitions(
    there: Iterable[RegisteredPartition], wanted: Iterable[RegisteredPartition]
) -> PartitionChange:
    """The change from the partitions that are `there` to those `wanted`, in a stable order."""
    known = {partition.values: partition.location for partition in there}
    found = {partition.values: partition for partition in wanted}
    new = [found[values] for values in sorted(found)]
    return PartitionChange(
        tuple(partition for partition in new if partition.values not in known),
        tuple(
            partition
            for partition in new
            if partition.values in known
            and not _is_same_place(known[partition.values], partition.location)
        ),
        tuple(sorted(known.keys() - found.keys())),
    )


def partitions_below(
    location: str, folders: Mapping[tuple[str, ...], str]
) -> tuple[RegisteredPartition, ...]:
    """The partitions of a table at `location`, by the folders of their values."""
    return tuple(
        RegisteredPartition(values, f"{location.rstrip('/')}/{folder}")
        for values, folder in folders.items()
    )


def _refuse_other(seen: RegisteredTable, wanted: RegisteredTable) -> None:
    kind = seen.parameters.get(PROVIDER) or seen.parameters.get(_TABLE_TYPE) or HUDI
    is_view = "VIEW" in seen.kind.upper()
    if is_view or kind.lower() != HUDI:
        what = "a view" if is_view else f"a table of {quoted(kind)}"
        raise ConfigError(f"the metastore has {what} of this name: {_REMEDY}", value=seen.name)
    if not _is_same_place(seen.location, wanted.location):
        message = (
            f"the metastore has another table of this name, at {quoted(seen.location)}: {_REMEDY}"
        )
        raise ConfigError(message, value=seen.name)
    before, now = _names(seen.partition_columns), _names(wanted.partition_columns)
    if before != now:
        message = (
            f"the metastore has this table partitioned by {_listed(before)}, and it is partitioned "
            f"by {_listed(now)}, which no metastore changes: drop it there (its files stay), and "
            "sync again"
        )
        raise ConfigError(message, value=seen.name)


def _planned_columns(
    seen: tuple[RegisteredColumn, ...], wanted: tuple[RegisteredColumn, ...]
) -> tuple[RegisteredColumn, ...]:
    """In the order that they have, new ones behind: Hive compares types by position."""
    known = {column.name.lower(): column for column in seen}
    planned = {column.name: _planned_column(known.get(column.name), column) for column in wanted}
    kept = [planned[name] for name in known if name in planned]
    return (*kept, *(column for name, column in planned.items() if name not in known))


def _planned_column(seen: RegisteredColumn | None, wanted: RegisteredColumn) -> RegisteredColumn:
    if seen is None:
        return wanted
    before = seen.type.lower().replace(" ", "")
    if before == wanted.type or (before, wanted.type) == ("bigint", "timestamp"):
        return seen
    return replace(wanted, comment=seen.comment)


def _planned_parameters(seen: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    if _parsed(spark_schema_of(seen)) == _parsed(spark_schema_of(wanted)):
        of_schema = {name for name in wanted if name.startswith(SCHEMA_PREFIX)}
        return {**seen, **{name: wanted[name] for name in wanted.keys() - of_schema}}
    rest = {name: text for name, text in seen.items() if not name.startswith(SPARK_SCHEMA)}
    return {**rest, **wanted}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_same_place(left: str, right: str) -> bool:
    return normalised(left) == normalised(right)


def _names(columns: Iterable[RegisteredColumn]) -> tuple[str, ...]:
    return tuple(column.name.lower() for column in columns)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
