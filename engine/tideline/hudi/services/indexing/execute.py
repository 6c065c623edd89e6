"""Making the missing indexes, one after another, beside writers.

Each is made as `metadata_indexes` makes it: what a death leaves there is not believed, and goes
when the index is made the next time. One that cannot be made now keeps no other from being made; it
is missing the next time as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideline.errors import TidelineError
from tideline.hudi.metadata_indexes.table_indexes import IndexMade, TableIndexes
from tideline.hudi.metadata_table.config import COLUMN_LIST
from tideline.hudi.metadata_table.index_making import NOT_MADE
from tideline.hudi.metadata_table.index_names import needed_by
from tideline.hudi.services.indexing.config import IndexingConfig
from tideline.hudi.services.indexing.plan import missing_indexes
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import SECONDARY_INDEX
from tideline.plain_json import members
from tideline.services.report import ServiceReport, left_undone
from tideline.wording import counted

NAME = "indexing"


@dataclass(frozen=True, slots=True)
class IndexesMade:
    """The indexes that were made, and why others were not."""

    made: tuple[IndexMade, ...]
    failures: tuple[str, ...] = ()

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        words = ", ".join(map(_words, self.made))
        return ServiceReport(f"made {words}", notes=(*left_undone(self.failures), *self.advice))

    @property
    def advice(self) -> tuple[str, ...]:
        """What other writers of the table need."""
        return tuple(index.advice for index in self.made if index.advice is not None)

    def to_json_object(self) -> dict[str, Any]:
        """The audit of the run."""
        made = [members(index, "name", "records") for index in self.made]
        return {"service": NAME, "made": made, **members(self, "failures", "advice")}


def make_missing(
    table: HoodieTable, config: IndexingConfig, given: Mapping[str, str]
) -> IndexesMade:
    """Make what is wanted and missing; `given` are settings over the table's own.

    Where none can be made, raises as `TableIndexes.create`, naming each index and what is in the
    way: ConfigError, ConflictError, CorruptTableError, ObjectNotFoundError, UnsupportedTableError.
    """
    made: list[IndexMade] = []
    failed: dict[str, TidelineError] = {}
    missing = missing_indexes(config, table.properties.reload().metadata_partitions)
    # Behind those that it is made of.
    for name in sorted(missing, key=lambda name: len(needed_by(name))):
        try:
            made.append(TableIndexes(table, _settings(name, given)).create(name))
        except NOT_MADE as error:
            # Another process may have made it meanwhile.
            if name not in table.properties.reload().metadata_partitions:
                failed[name] = error
    failures = tuple(_named(name, error.message) for name, error in failed.items())
    if failed and not made:
        first = next(iter(failed.values()))
        raise type(first)(
            "; ".join(failures),
            table=first.table,
            instant=first.instant,
            path=first.path,
            value=first.value,
        ) from first
    return IndexesMade(tuple(made), failures)


def _settings(name: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """A column list among the settings is that of statistics; a secondary index is named after its
    column."""
    if not name.startswith(SECONDARY_INDEX):
        return given
    return {**given, COLUMN_LIST: name.removeprefix(SECONDARY_INDEX)}


def _named(name: str, message: str) -> str:
    return message if name in message else f"{name}: {message}"


def _words(index: IndexMade) -> str:
    if index.records is None:
        return index.name
    return f"{index.name} ({counted(index.records, 'record')})"
