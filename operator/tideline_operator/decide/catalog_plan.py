"""Which tables of a LakeCatalog are maintained, and what their LakeTables are called. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tideline.iceberg.table.found_table import FoundTable
from tideline_operator.resources.lake_catalog import LakeCatalog, LakeCatalogSpec
from tideline_operator.resources.metadata import NAME_LENGTH_MAX

TABLES_MAX = 5_000
TOO_MANY = f"a LakeCatalog maintains at most {TABLES_MAX:,} tables: narrow include"
_DIGEST_LENGTH = 8


@dataclass(frozen=True, slots=True)
class CatalogPlan:
    """The tables to maintain, by name. Those in `left` were not excluded and cannot be maintained,
    each with the reason."""

    wanted: tuple[FoundTable, ...]
    excluded: int
    left: Mapping[str, str]

    @property
    def found(self) -> int:
        """All tables of the catalog."""
        return len(self.wanted) + self.excluded + len(self.left)


def plan_catalog(spec: LakeCatalogSpec, found: Iterable[FoundTable]) -> CatalogPlan:
    """Which of the tables that were found are to be maintained."""
    wanted: list[FoundTable] = []
    left: dict[str, str] = {}
    excluded = 0
    for table in sorted(found):
        if not is_included(spec, table.name):
            excluded += 1
        elif table.obstacle:
            left[table.name] = table.obstacle
        elif len(wanted) == TABLES_MAX:
            left[table.name] = TOO_MANY
        else:
            wanted.append(table)
    return CatalogPlan(tuple(wanted), excluded, left)


def is_included(spec: LakeCatalogSpec, name: str) -> bool:
    """Whether the patterns of a LakeCatalog take a table."""
    return is_chosen(name, spec.include, spec.exclude)


def is_chosen(name: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """Whether patterns take a table; without any to include all are."""
    wanted = tuple(include)
    is_wanted = not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)
    return is_wanted and not any(fnmatchcase(name, pattern) for pattern in exclude)


def resource_name(catalog: LakeCatalog, table: FoundTable, taken: Container[str]) -> str:
    """The name of the LakeTable of a table: `lake-sales-orders`, with a digest at its end where
    that is too long, taken, or another table's as well."""
    place = catalog.place().spec
    told_apart = (str(catalog.metadata), place.location, str(place.catalog), *table.parts)
    return name_apart((catalog.metadata.name, *table.parts), told_apart, taken)


def name_apart(words: tuple[str, ...], told_apart: tuple[str, ...], taken: Container[str]) -> str:
    """These words as a name, with a digest of what tells it apart where it is too long or taken."""
    plain = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")
    if len(plain) <= NAME_LENGTH_MAX and plain not in taken:
        return plain
    digest = hashlib.sha256("\n".join(told_apart).encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{plain[: NAME_LENGTH_MAX - _DIGEST_LENGTH - 1].strip('-')}-{digest}"
