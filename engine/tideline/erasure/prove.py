"""The proof of an erasure: which files of a table's folder hold rows that match a condition.

1. Every file in the folder is listed, and those that are no data files are named, as nothing is
   known of what they hold.
2. Each base file and each log is read as it is, whatever version it is of, and whatever became of
   its instant: the file of a rolled back write, or of a group that was replaced, counts. Of its
   columns those of the condition are read.
3. Threads read the next files; Spark, whose condition it is, counts by file, some files at a time.
   Memory depends on the number of threads and the size of a batch or a log's block.

An Iceberg publication lists the same files. Where it has rows of logs in files of its own, these
are read as well, whether a snapshot lists them or their publication died. Manifests that no
snapshot lists are named: they may give bounds of files that are gone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from tideline.erasure.report import HoldingFile, Proof, UnreadFile, Version
from tideline.erasure.stored_rows import StoredFile, StoredRowsReader
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.read_ahead import in_order, reading_threads
from tideline.hudi.services.savepoint.execute import list_savepoints
from tideline.hudi.table.file_group import join_path, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import METADATA_NAMES, is_table_metadata
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.publication.expiry import unlisted_files
from tideline.publication.merged_slices import own_file, stem_of
from tideline.publication.published_files import is_manifest
from tideline.publication.published_table import PublishedTable
from tideline.spark.read.matching import columns_of_condition, count_matching
from tideline.storage.object_store import ObjectInfo

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_ICEBERG_FOLDER = "metadata/"
_ICEBERG_METADATA = (".metadata.json", ".metadata.json.gz", ".avro", "/version-hint.text")
_EMPTY_SIGNS = ("_SUCCESS", ".gitkeep")


def prove(table: HoodieTable, where: str | Column, spark: SparkSession | None) -> Proof:
    """Count the rows that match in every file. Raises ConfigError for what is no condition."""
    timeline = table.timeline()
    files, others = listed(table)
    unread = [*others, *_unlisted_manifests(table)]
    reader = StoredRowsReader.of(table, timeline)
    columns = columns_of_condition(spark, table.location, where, reader.schema)
    reading = _Reading(reader.with_columns(columns), files)
    with closing(reading.rows()) as rows:
        counts = count_matching(spark, table.location, where, reading.reader.schema, rows)
    return Proof(
        holding=tuple(_holding(table, timeline, counts)),
        unread=(*unread, *sorted(reading.unread, key=lambda file: file.path)),
        files_read=len(files),
    )


class _Reading:
    """All files, some at a time, given one after another; `unread` grows while they are."""

    def __init__(self, reader: StoredRowsReader, files: list[StoredFile]) -> None:
        self.reader = reader
        self.unread: list[UnreadFile] = []
        self._files = files if reader.schema.names else []

    def rows(self) -> Generator[tuple[str, pa.RecordBatch]]:
        """Batches, each with the path of its file."""
        return in_order(self._files, self._rows, reading_threads())

    def _rows(self, file: StoredFile) -> Iterator[tuple[str, pa.RecordBatch]]:
        try:
            for batch in self.reader.batches(file, partial(self._miss, file)):
                yield file.path, batch
        except ObjectNotFoundError:
            return  # cleaned since it was listed
        except (CorruptTableError, UnsupportedTableError) as error:
            if self.reader.table.store.head(file.path) is not None:
                self._miss(file, error.message)
        except (ValueError, OSError) as error:
            # Arrow reports broken files as ArrowInvalid, UnicodeDecodeError or OSError.
            self._miss(file, " ".join(str(error).split()))

    def _miss(self, file: StoredFile, reason: str) -> None:
        found = UnreadFile(file.path, reason)
        if found not in self.unread:
            self.unread.append(found)


def listed(table: HoodieTable) -> tuple[list[StoredFile], list[UnreadFile]]:
    """The data files in the folder, and what else there is that may hold rows."""
    files: list[StoredFile] = []
    others = []
    for info in table.files.objects():
        published = own_file(info.path, info.size_bytes)
        if published is not None:
            files.append(published)
            continue
        if is_table_metadata(info.path):
            continue
        file = parse_data_file(*split_path(info.path), info.size_bytes)
        if file is not None:
            files.append(file)
        elif not (_is_sign(info) or _is_of_iceberg(info.path)):
            others.append(UnreadFile(info.path, "it is not a data file of the table"))
    return sorted(files, key=lambda file: file.path), others


def _unlisted_manifests(table: HoodieTable) -> Iterator[UnreadFile]:
    """Those of publications that died or are under way."""
    try:
        place = PublishedTable(table)
        if place.load() is None:
            return
        unlisted = unlisted_files(place)
    except UnsupportedTableError:
        return  # another's Iceberg table
    for info in unlisted:
        if is_manifest(info.path):
            reason = "of a publication that died or is under way; the next erasure takes it"
            yield UnreadFile(info.path, f"a manifest {reason}")


def _is_sign(info: ObjectInfo) -> bool:
    """Whether a file is of those that hold no rows."""
    name = split_path(info.path)[1]
    is_sidecar = name.endswith(".crc") or name in (*METADATA_NAMES, *_EMPTY_SIGNS)
    return is_sidecar or not info.size_bytes


def _is_of_iceberg(path: str) -> bool:
    """Whether it is metadata of a publication, or says by position which rows are not published."""
    if not path.startswith(_ICEBERG_FOLDER):
        return False
    return path.endswith(_ICEBERG_METADATA) or stem_of(path) is not None


def _holding(
    table: HoodieTable, timeline: ActiveTimeline, counts: dict[str, int]
) -> Iterator[HoldingFile]:
    if not counts:
        return
    partitions = {split_path(path)[0] for path in counts if own_file(path, 0) is None}
    view = table.files.view_of(table.files.listing(partitions), timeline)
    versions: dict[str, Version] = {}
    for partition in view.partitions:
        for group in view.all_file_groups(partition):
            for file_slice in group.slices:
                versions |= dict.fromkeys((file.path for file in file_slice.files), Version.OLDER)
        for file_slice in view.latest_slices(partition):
            versions |= dict.fromkeys((file.path for file in file_slice.files), Version.NEWEST)
    kept: dict[str, list[InstantTime]] = {}
    for savepoint in list_savepoints(table):
        for partition, names in savepoint.files.items():
            for name in names:
                kept.setdefault(join_path(partition, name), []).append(savepoint.instant)
    for path, rows in sorted(counts.items()):
        version = versions.get(path, Version.NONE)
        yield HoldingFile(path, rows, version, tuple(kept.get(path, ())))
