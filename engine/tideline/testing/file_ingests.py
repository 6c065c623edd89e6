"""Ingests of files, for tests: the work of an operation, and what its checkpoint becomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tideline.ingest.column_type import Column
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.after_ingest import AfterIngest
from tideline.ingest.sources.files.arrived import ArrivedFile, FileRange
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileFormat, FileListing
from tideline.ingest.sources.files.position import TAKEN_MAX


def ingest_of_files(
    name: str,
    landing: Location,
    file_format: FileFormat,
    files: tuple[ArrivedFile, ...],
    generation: int,
    *,
    options: Mapping[str, str] | None = None,
    source_schema: tuple[Column, ...] = (),
    after_ingest: AfterIngest = AfterIngest.KEEP,
    moved_to: Location | None = None,
    start: str = "",
    **settings: Any,
) -> IngestRange:
    """The work of taking files in; `settings` are fields of IngestRange."""
    declared = DeclaredFiles(
        landing, file_format, options or {}, source_schema, after_ingest, moved_to
    )
    return IngestRange(name, declared, FileRange(files, start), generation, **settings)


def checkpoint_after(
    checkpoint: Checkpoint | None,
    landing: FileListing,
    taken: Iterable[ArrivedFile],
    *,
    taken_max: int = TAKEN_MAX,
) -> Checkpoint:
    """The checkpoint after files went in, as an ingest writes it."""
    before = None if checkpoint is None else checkpoint.position
    position = landing.advance(before, FileRange(tuple(taken)), taken_max=taken_max)
    return replace(
        checkpoint or Checkpoint(0, position),
        generation=(checkpoint.generation if checkpoint else 0) + 1,
        position=position,
        look_after=landing.look_after(position),
    )
