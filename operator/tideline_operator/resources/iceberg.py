"""The Iceberg part of a LakeTable: where a catalog keeps the table, and its maintenance.

Options that Iceberg's own procedures take have Iceberg's names.
"""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from tideline_operator.resources.field import CelRule, described, no_credentials_in
from tideline_operator.resources.ingest import COLUMN_PATTERN
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.sync import THRIFT

ORPHAN_AGE_MS_MIN = 86_400_000
_NOT_ITS_ADDRESS = (
    "a Hive metastore, and nothing else, has an address as thrift://host:9083, or several with "
    "commas; without Kerberos, TLS and HTTP"
)
_HOLDS_PASSWORD = r"[a-z0-9+.-]+://[^/@]*:[^/@]*@.*"
_UUID_PATTERN = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_SORT_PATTERN = COLUMN_PATTERN + r"( (asc|desc|ASC|DESC))?( (nulls|NULLS) (first|last|FIRST|LAST))?"


class CatalogType(Enum):
    """Kinds of catalogs."""

    REST = "rest"
    SQL = "sql"
    GLUE = "glue"
    HIVE = "hive"


class RewriteStrategy(Enum):
    """How rows are laid out in new files."""

    BINPACK = "Binpack"
    SORT = "Sort"
    ZORDER = "ZOrder"


class OrphanMode(Enum):
    """What happens to files that nothing refers to."""

    ADVISE = "Advise"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCredentials:
    """Where a catalog's credentials are."""

    secret_name: str = described(
        "Secret in the same namespace. Each of its keys is an environment variable of PyIceberg, "
        "such as PYICEBERG_CATALOG__LAKE__TOKEN for a catalog that is named lake. `tideline run` "
        "reads its own environment instead.",
        length_max=253,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogConnection:
    """A catalog, and how it is reached."""

    type: CatalogType = described(
        "A REST catalog, the tables of an SQL database, AWS's Glue Data Catalog, or a Hive "
        "metastore."
    )
    name: str = described(
        "Name of the catalog: an SQL catalog stores it with its tables, and environment variables "
        "contain it.",
        default="lake",
        pattern=r"[A-Za-z][A-Za-z0-9_]*",
        pattern_meaning="letters, digits and _",
        length_max=63,
    )
    uri: str | None = described(
        "Address of the catalog, without credentials; Glue's says its region, such as "
        "https://glue.eu-central-1.amazonaws.com, that of a Hive metastore is thrift://host:9083, "
        "or several with commas between them. An address that contains a password belongs in the "
        "credentials.",
        default=None,
        length_max=1024,
    )
    warehouse: str | None = described("The catalog's warehouse.", default=None, length_max=1024)
    credentials: CatalogCredentials | None = described("Credentials for the catalog.", default=None)

    @property
    def properties(self) -> dict[str, str]:
        """What opens it, but for its name and credentials."""
        given = {"type": self.type.value, "uri": self.uri, "warehouse": self.warehouse}
        return {name: text for name, text in given.items() if text is not None}

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            f"!has(self.uri) || !self.uri.matches(r'^({_HOLDS_PASSWORD})$')",
            "credentials belong in a Secret",
            field="uri",
        ),
        CelRule(
            f"!has(self.uri) || (self.type == 'hive') == self.uri.matches(r'^({THRIFT})$')",
            _NOT_ITS_ADDRESS,
            field="uri",
        ),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """No password in the address, and one of its kind."""
        if self.uri is None:
            return
        if re.fullmatch(_HOLDS_PASSWORD, self.uri):
            yield "uri", "credentials belong in the environment or in a Secret"
        elif (self.type is CatalogType.HIVE) != bool(re.fullmatch(THRIFT, self.uri)):
            yield "uri", _NOT_ITS_ADDRESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog(CatalogConnection):
    """A catalog, and the name of the table in it."""

    table: str = described(
        "The table as namespace.name.",
        pattern=r"[^.\s]+(\.[^.\s]+)+",
        pattern_meaning="the namespace, a dot and the name",
        length_max=512,
        immutable=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialProgress:
    """Committing a rewrite in parts."""

    enabled: bool = described("Whether finished parts are committed on their own.", default=False)
    max_commits: int = described("Commits at most.", default=10, minimum=1, maximum=1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteDataFiles:
    """Rewriting of small files, and of files with many deletes, into files of the right size."""

    enabled: bool = described("Whether data files are rewritten.", default=True)
    strategy: RewriteStrategy = described(
        "How rows are laid out in the new files.", default=RewriteStrategy.BINPACK
    )
    sort_by: tuple[str, ...] = described(
        "Columns to sort or z-order by; `a desc nulls last` is possible where rows are sorted. "
        "Without them Sort uses the table's own sort order.",
        default=(),
        pattern=_SORT_PATTERN,
        pattern_meaning="a column name, and where rows are sorted asc or desc, nulls first or last",
        length_max=255,
        items_max=20,
    )
    target_file_size: str | None = described(
        "Size of the new files, such as 512Mi; the table's write.target-file-size-bytes otherwise.",
        default=None,
        pattern=r"[1-9][0-9]{0,11}(k|M|G|Ki|Mi|Gi)?",
        pattern_meaning="a size such as 512Mi",
        length_max=16,
    )
    min_input_files: int = described(
        "Files of the wrong size in a partition that are worth rewriting.",
        default=5,
        minimum=1,
        maximum=1_000_000,
    )
    filter: str | None = described(
        "Condition on the table's columns, such as `day >= '2026-01-01'`: only files that may "
        "hold such rows are looked at.",
        default=None,
        length_max=4096,
    )
    partial_progress: PartialProgress = described(
        "Committing in parts.", default_factory=PartialProgress
    )
    options: Mapping[str, str] = described(
        "Further options of Iceberg's rewrite_data_files by their names there; they override the "
        "fields here.",
        default_factory=dict,
        length_max=64,
        items_max=40,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "self.strategy != 'ZOrder' || (has(self.sortBy) && self.sortBy.size() > 1)",
            "is required for ZOrder: at least two columns",
            field="sortBy",
        ),
        CelRule(
            "self.strategy == 'Sort' || !has(self.sortBy) || "
            "self.sortBy.all(c, !c.contains(' ')) && "
            "(self.strategy != 'Binpack' || self.sortBy.size() == 0)",
            "Binpack takes no columns, and ZOrder only their names",
            field="sortBy",
        ),
        no_credentials_in("options"),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """Each strategy has its columns."""
        is_zorder = self.strategy is RewriteStrategy.ZORDER
        if is_zorder and len(self.sort_by) < 2:
            yield "sortBy", "is required for ZOrder: at least two columns"
        is_binpack = self.strategy is RewriteStrategy.BINPACK
        has_order = any(" " in column for column in self.sort_by)
        if (is_binpack and self.sort_by) or (is_zorder and has_order):
            yield "sortBy", "Binpack takes no columns, and ZOrder only their names"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshots:
    """Removal of old snapshots, and of the files that only they need."""

    enabled: bool = described("Whether snapshots expire.", default=True)
    older_than: Duration | None = described(
        "Age at which a snapshot expires; without it the table's "
        "history.expire.max-snapshot-age-ms, which is 5d unless set.",
        default=None,
        length_max=16,
    )
    retain_last: int | None = described(
        "Snapshots that each branch keeps at any age; without it the table's "
        "history.expire.min-snapshots-to-keep, which is 1 unless set.",
        default=None,
        minimum=1,
        maximum=1_000_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphanFiles:
    """Removal of files in the table's folders that no snapshot refers to."""

    enabled: bool = described("Whether orphan files are looked for.", default=True)
    mode: OrphanMode = described(
        "Advise only counts them and says how many, Auto deletes them.", default=OrphanMode.ADVISE
    )
    older_than: Duration = described(
        "Age at which a file without references counts as an orphan, at least 24h: a writer may "
        "still be about to commit a younger one.",
        default=Duration(259_200_000),
        length_max=16,
    )
    every: Duration = described(
        "How often they are looked for, which lists all files of the table.",
        default=Duration(604_800_000),
        length_max=16,
    )
    dropped_tables: tuple[str, ...] = described(
        "UUIDs of Iceberg tables that were in the same folder before and were dropped: their files "
        "are orphans. Nothing is removed while metadata of another table is there, which may have "
        "been renamed.",
        default=(),
        pattern=_UUID_PATTERN,
        pattern_meaning="a UUID",
        length_max=36,
        items_max=20,
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """Only their age distinguishes files of writers under way from orphans."""
        if self.older_than.ms < ORPHAN_AGE_MS_MIN:
            yield "olderThan", f"'{self.older_than}'; allowed: at least 24h"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifests:
    """Merging of small manifests, ordered by partition."""

    enabled: bool = described("Whether manifests are rewritten.", default=True)
    min_manifests: int = described(
        "Small manifests that are worth rewriting.", default=20, minimum=2, maximum=1_000_000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePositionDeletes:
    """Merging of small position delete files, and removal of those that apply to nothing."""

    enabled: bool = described("Whether position deletes are rewritten.", default=True)
    options: Mapping[str, str] = described(
        "Options of Iceberg's rewrite_position_delete_files by their names there.",
        default_factory=dict,
        length_max=64,
        items_max=40,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (no_credentials_in("options"),)
