"""Which tables of a LakeSource become tables of the lake, and what their LakeTables are called.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.postgres.shared_slot import SlotTable
from tideline_operator.decide.catalog_plan import is_chosen, name_apart
from tideline_operator.resources.lake_source import INGEST, LakeSource, PostgresTables

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_NOT_PLAIN = "its name has other characters than letters, digits, _ and -"


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The tables to take in, by name. Those in `left` match and cannot be read, each with the
    reason."""

    wanted: tuple[SlotTable, ...]
    left: Mapping[str, str]


def position_of(checkpoints: Mapping[str, Checkpoint]) -> PostgresPosition | None:
    """How far a table of a LakeSource has read; None where it has read nothing."""
    found = checkpoints.get(INGEST)
    position = None if found is None else found.position
    return position if isinstance(position, PostgresPosition) else None


def plan_source(spec: PostgresTables, found: Iterable[SlotTable]) -> SourcePlan:
    """Which of the tables that were found are to be taken in."""
    wanted: list[SlotTable] = []
    left: dict[str, str] = {}
    for table in sorted(found):
        if not is_chosen(table.full_name, spec.include, spec.exclude):
            continue
        if not (_PLAIN.fullmatch(table.schema) and _PLAIN.fullmatch(table.name)):
            left[table.full_name] = _NOT_PLAIN
        elif table.obstacle:
            left[table.full_name] = table.obstacle
        else:
            wanted.append(table)
    return SourcePlan(tuple(wanted), left)


def table_name(source: LakeSource, table: SlotTable, taken: Iterable[str]) -> str:
    """The name of the LakeTable of a table: `shop-public-orders`, with a digest at its end where
    that is too long or taken."""
    words = (source.metadata.name, table.schema, table.name)
    return name_apart(words, (str(source.metadata), table.full_name), frozenset(taken))
