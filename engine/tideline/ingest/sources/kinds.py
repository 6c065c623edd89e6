"""The kinds of sources: a new one is a folder here, and a line in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from tideline.errors import ConfigError
from tideline.ingest.sources.files.arrived import FileRange
from tideline.ingest.sources.files.declared import DeclaredFiles, landing_uri
from tideline.ingest.sources.files.listing import FileListing
from tideline.ingest.sources.files.look import describe_quarantine
from tideline.ingest.sources.files.position import KIND, FilesPosition
from tideline.ingest.sources.files.replay import replay_files
from tideline.ingest.sources.kafka import position as kafka_position
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.offsets import KafkaOffsets
from tideline.ingest.sources.kafka.records import KafkaRange
from tideline.ingest.sources.kafka.replay import replay_topics
from tideline.ingest.sources.kafka.streamer import metadata_for_streamer, position_of_streamer
from tideline.ingest.sources.known_rows import RowsAtOf
from tideline.ingest.sources.postgres import position as postgres_position
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.look import PostgresLook
from tideline.ingest.sources.postgres.ranges import PostgresRange
from tideline.ingest.sources.replay import ReplayOf
from tideline.ingest.sources.source import Available, Declared, Position, Range, Source
from tideline.storage.object_store import ObjectStore

KIND_KEY = "kind"
"""In stored JSON. Files, which were the first kind, are not named."""


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source. `reader` is where the function is that makes a Source of a declared one,
    `module:name`: it is loaded where rows move, for a planner has neither Arrow nor Spark.

    `uri_of` gives the URI of the source that a checkpoint of a table names by its address.
    `describe_set_aside` says what waits for a person there, where that is a store. `replay` gives
    what a table has read of it, where a source can be read again; `rows_at` is where the function
    is that gives the rows of a position, where a source has them. `position_names_source` says that
    a position is enough to know whether it is of what is there, whatever the address.
    """

    name: str
    declared: type[Declared]
    available: type[Available]
    range: type[Range]
    position: type[Position]
    reader: str
    uri_of: Callable[[str, str], str] = lambda address, _: address
    describe_set_aside: Callable[[ObjectStore], str | None] | None = None
    position_of_others: Callable[[Declared, Mapping[str, str]], Position | None] | None = None
    metadata_for_others: Callable[[Declared, Position, str], Mapping[str, str]] = lambda *_: {}
    replay: ReplayOf | None = None
    rows_at: str = ""
    position_names_source: bool = False

    def open(self, declared: Declared) -> Source:
        """What reads the source."""
        return cast(Source, _loaded(self.reader)(declared))

    @property
    def rows_at_of(self) -> RowsAtOf | None:
        """What gives the rows of a position; None where the kind has none."""
        return cast(RowsAtOf, _loaded(self.rows_at)) if self.rows_at else None


def _loaded(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    return cast(Callable[..., Any], getattr(import_module(module), name))


FILES = SourceKind(
    name=KIND,
    declared=DeclaredFiles,
    available=FileListing,
    range=FileRange,
    position=FilesPosition,
    reader="tideline.ingest.sources.files.reader:FilesSource",
    uri_of=landing_uri,
    describe_set_aside=describe_quarantine,
    replay=replay_files,
)

KAFKA = SourceKind(
    name=kafka_position.KIND,
    declared=DeclaredKafka,
    available=KafkaOffsets,
    range=KafkaRange,
    position=kafka_position.KafkaPosition,
    reader="tideline.ingest.sources.kafka.reader:KafkaSource",
    position_of_others=position_of_streamer,
    metadata_for_others=metadata_for_streamer,
    replay=replay_topics,
    position_names_source=True,
)

POSTGRES = SourceKind(
    name=postgres_position.KIND,
    declared=DeclaredPostgres,
    available=PostgresLook,
    range=PostgresRange,
    position=postgres_position.PostgresPosition,
    reader="tideline.ingest.sources.postgres.reader:PostgresSource",
    rows_at="tideline.ingest.sources.postgres.rows_at:rows_at",
)

KINDS = {kind.name: kind for kind in (FILES, KAFKA, POSTGRES)}


def kind_named(name: str) -> SourceKind:
    """Raises ConfigError where this release has no such kind."""
    if name not in KINDS:
        raise ConfigError(
            f"this release knows no source of this kind, but {', '.join(KINDS)}", value=name
        )
    return KINDS[name]


def stored_kind(name: str) -> dict[str, str]:
    """How stored JSON names a kind."""
    return {} if name == FILES.name else {KIND_KEY: name}


def kind_of_stored(content: Mapping[str, Any]) -> SourceKind:
    """The kind that stored JSON names. Raises ConfigError as `kind_named`."""
    return kind_named(str(content.get(KIND_KEY, FILES.name)))
