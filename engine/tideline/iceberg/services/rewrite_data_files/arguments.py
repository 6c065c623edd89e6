"""What to rewrite, how, and in which files, from texts as operations carry them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tideline.formats.filter import ALL_ROWS, Filter
from tideline.formats.filter_parser import parse_filter
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions

STRATEGY = "strategy"
SORT_ORDER = "sort_order"
WHERE = "where"
ARGUMENTS = frozenset({STRATEGY, SORT_ORDER, WHERE})


@dataclass(frozen=True, slots=True)
class RewriteArguments:
    """The options of a rewrite, and the rows whose files it is about."""

    options: RewriteOptions
    where: Filter

    @classmethod
    def of(cls, settings: Mapping[str, str], metadata: TableMetadata) -> Self:
        """Iceberg's options of `rewrite_data_files` and its arguments. Raises ConfigError."""
        arguments = {name: settings.get(name) for name in ARGUMENTS}
        options = {name: settings[name] for name in settings if name not in ARGUMENTS}
        return cls.asked(options, metadata, **arguments)

    @classmethod
    def asked(
        cls,
        options: Mapping[str, str],
        metadata: TableMetadata,
        *,
        strategy: str | None = None,
        sort_order: str | None = None,
        where: str | None = None,
    ) -> Self:
        """The same, each by its name."""
        parsed = RewriteOptions.parse(
            options, properties=metadata.properties, strategy=strategy, sort_order=sort_order
        )
        return cls(parsed, parse_filter(where) if where else ALL_ROWS)
