"""A source of files: where they land and how they are read."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from tideline.ingest.column_type import Column
from tideline.ingest.sources.files.after_ingest import AfterIngest
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.read_options import unknown_option
from tideline_operator.resources.field import CelRule, described, no_credentials_in
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.sources.column import SourceColumnSpec
from tideline_operator.resources.sources.place_finder import (
    LOCATION_LENGTH_MAX,
    PlaceFinder,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where files land and how they are read."""

    format: FileFormat = described("parquet, csv (with a header line) or json (one per line).")
    path: str = described(
        "Landing prefix: s3://bucket/prefix/, or a folder, relative to the YAML file.",
        length_max=LOCATION_LENGTH_MAX,
    )
    store_ref: str | None = described(
        "LakeStore of the landing prefix when it is not the table's.", default=None, length_max=63
    )
    options: Mapping[str, str] = described(
        "Spark's read options for the format, such as sep or timestampFormat. Never credentials. "
        "Csv is read as RFC 4180 has it (quotes doubled, line breaks inside quotes); with "
        'multiLine: "false" large files are read by several tasks, and have no such line breaks.',
        default_factory=dict,
        length_max=1024,
        items_max=50,
        may_be_empty=True,
    )
    schema: tuple[SourceColumnSpec, ...] = described(
        "Columns of the files, for csv and json; inferred otherwise.",
        default=(),
        items_max=2000,
        item_key="name",
    )
    moved_from: str | None = described(
        "The former path, where the files of the landing prefix were moved: the ingest continues "
        "from its checkpoint. Without it another path is refused.",
        default=None,
        length_max=LOCATION_LENGTH_MAX,
    )
    taken: AfterIngest = described(
        "What becomes of files whose rows are in the table, after the commit: Keep leaves them, "
        "Move puts them into movedTo, Remove deletes them. No other ingest may read this landing "
        "prefix then. What a restore undoes can only be ingested again where the files are kept.",
        default=AfterIngest.KEEP,
    )
    moved_to: str | None = described(
        "Where taken: Move puts files, under their paths in the landing prefix: a folder outside "
        "of it, in the same store.",
        default=None,
        length_max=LOCATION_LENGTH_MAX,
    )
    names_ascend: bool = described(
        "Whether files are named in the order in which they land, such as by their time: a look "
        "then lists only names close to, or after, those of files that were ingested. A file with "
        "an earlier name is found by a full look.",
        default=False,
    )
    full_look_every: Duration = described(
        "With namesAscend: how often the whole landing prefix is listed.",
        default=Duration(3_600_000),
        length_max=16,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        no_credentials_in("options"),
        CelRule(
            "(has(self.movedTo)) == (has(self.taken) && self.taken == 'Move')",
            "is required with taken: Move, and only then allowed",
            field="movedTo",
        ),
    )

    @property
    def partial_looks(self) -> Duration | None:
        """How long looks may be partial after a full one; None where all are full."""
        return self.full_look_every if self.names_ascend else None

    def faults(self) -> Iterator[tuple[str, str]]:
        """Read options are Spark's, and a folder is given where files are moved."""
        for name in self.options:
            problem = unknown_option(self.format, name)
            if problem is not None:
                yield f"options.{name}", problem
        if (self.moved_to is not None) != (self.taken is AfterIngest.MOVE):
            yield "movedTo", "is required with taken: Move, and only then allowed"


def resolve_files(source: Source, places: PlaceFinder) -> DeclaredFiles:
    """The source with its places. Raises ConfigError naming the field."""
    landing = places.find(source.path, source.store_ref, "path")
    places.keep_apart("path", source.path, landing)
    moved_to = None
    if source.moved_to is not None:
        moved_to = places.find(source.moved_to, source.store_ref, "movedTo")
        places.keep_apart("movedTo", source.moved_to, moved_to, (landing, "the landing prefix"))
        if moved_to.uri.partition("://")[0] != landing.uri.partition("://")[0]:
            message = "files are moved within one store: write a path like that of source.path"
            raise places.refuse("movedTo", message)
    return DeclaredFiles(
        landing,
        source.format,
        options=dict(source.options),
        schema=tuple(Column(column.name, column.type, column.nullable) for column in source.schema),
        after_ingest=source.taken,
        moved_to=moved_to,
    )


def former_files(source: Source, places: PlaceFinder) -> DeclaredFiles | None:
    """Where the source was before it was moved; None where it was not."""
    if source.moved_from is None:
        return None
    landing = places.find(source.moved_from, source.store_ref, "movedFrom")
    return DeclaredFiles(landing, source.format)
