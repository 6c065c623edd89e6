"""Options of `format("tideline")`, as one value.

`as_of` for a snapshot; or `after` and `until` for an incremental read; `changes=true` for what
commits in that range did to rows, `deletes=true` for what they did in all. A stream takes `after`
and `changes`, and how much a batch has at most, `maxCommitsPerTrigger` and `maxBytesPerTrigger`.
Storage options are those of `StoreLocation` (`endpoint`, `region`, `path_style`, `allow_http`,
`ca_bundle`, and the others of the store's kind).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from tideline.errors import ConfigError
from tideline.hudi.open_table import open_table
from tideline.hudi.read.batch_limit import BatchLimit
from tideline.hudi.read.incremental import plan_incremental
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.storage.kinds import option_names
from tideline.storage.location import StoreLocation

_PATH = "path"
_RANGE = ("as_of", "after", "until")
_CHANGES, _DELETES = "changes", "deletes"
_COMMITS_MAX, _BYTES_MAX = "maxCommitsPerTrigger", "maxBytesPerTrigger"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read; times as they were written."""

    location: StoreLocation
    as_of: str | None
    after: str | None
    until: str | None
    changes: bool
    deletes: bool
    limit: BatchLimit

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Raises ConfigError for unknown options and for those that exclude each other."""
        given = {name.lower(): text for name, text in options.items()}
        known = (_PATH, *_RANGE, _CHANGES, _DELETES, _COMMITS_MAX, _BYTES_MAX, *option_names())
        unknown = sorted(set(given) - {name.lower() for name in known})
        if unknown:
            raise ConfigError(f"unknown option; there are {', '.join(known)}", value=unknown[0])
        if _PATH not in given:
            raise ConfigError('name the table: spark.read.format("tideline").load(uri)')
        stored = {name: given[name] for name in option_names() if name in given}
        as_of, after, until = (given.get(name) for name in _RANGE)
        changes, deletes = _is_true(given, _CHANGES), _is_true(given, _DELETES)
        location = StoreLocation.of(given[_PATH], stored)
        limit = BatchLimit(_count(given, _COMMITS_MAX), _count(given, _BYTES_MAX))
        made = cls(location, as_of, after, until, changes, deletes, limit)
        made._refuse_contradictions()
        return made

    def open(self) -> HoodieTable:
        """The table, opened."""
        return open_table(self.location)

    def refuse_limits(self) -> None:
        """Raise ConfigError for the limits of a stream: a read that is none has all of its
        range."""
        if self.limit.is_set:
            raise ConfigError(
                f"`{_COMMITS_MAX}` and `{_BYTES_MAX}` are for streams; end a read with `until`"
            )

    def scan(self, table: HoodieTable) -> TableScan:
        """The snapshot or the incremental read."""
        if self.after is None:
            return plan_snapshot(table, self.as_of)
        return plan_incremental(table, self.after, self.until)

    def _refuse_contradictions(self) -> None:
        if self.deletes and (self.changes or self.after is None):
            raise ConfigError("`deletes` is for incremental reads: give `after`, and no `changes`")
        if self.as_of is not None and self.changes:
            raise ConfigError("`as_of` is for snapshots; changes are `after` and `until`")
        if self.as_of is not None and self.after is not None:
            raise ConfigError(
                "`as_of` is for snapshots and `after` for incremental reads: choose one"
            )
        if self.until is not None and self.after is None and not self.changes:
            raise ConfigError("`until` needs `after`; for a snapshot use `as_of`")


def _is_true(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ConfigError(f"`{name}` is true or false", value=text)
    return text == "true"


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise ConfigError(f"`{name}` is a whole number above zero", value=text)
    return int(text)


def require_columns(table: HoodieTable, known: pa.Schema, asked: StructType) -> None:
    """Raise ConfigError for columns that a read does not have."""
    unknown = [name for name in asked.names if name not in known.names]
    if unknown:
        raise ConfigError("the table has no such columns", table=table.uri, value=unknown)
