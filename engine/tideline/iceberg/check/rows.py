"""Do data files and deletion vectors hold what manifests say of their rows? Needs Arrow.

Footers of parquet files and whole deletion vectors are read, rows are not. Bounds are compared for
whole numbers, booleans and text, whose order in statistics is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.check_finding import Finding, error, note
from tideline.errors import (
    CorruptTableError,
    ObjectNotFoundError,
    StorageUnavailableError,
    UnsupportedTableError,
)
from tideline.iceberg.check.files import ADVICE
from tideline.iceberg.check.inspection import Inspection
from tideline.iceberg.data.file_rows import stored_vector
from tideline.iceberg.data.name_mapping import MappedField, parse_name_mapping, schema_with_ids
from tideline.iceberg.data.parquet_rows import faults_of_file, open_parquet, stored_columns
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.manifest.manifest_reading import in_parallel
from tideline.iceberg.metadata.single_value import decode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.wording import counted

NAME = "rows"
Mapped: TypeAlias = Sequence[MappedField] | None


def check_rows(seen: Inspection, files: Iterable[DataFile]) -> Iterator[Finding]:
    """Findings about files; those that are missing are left out."""
    mapping = _mapping(seen.metadata)
    for found in in_parallel(lambda file: list(_findings(seen, file, mapping)), files):
        yield from found


def _mapping(metadata: TableMetadata) -> Mapped:
    try:
        mapping = metadata.name_mapping()
    except CorruptTableError:
        # Found with the metadata.
        return None
    return None if mapping is None else parse_name_mapping(mapping)


def _findings(seen: Inspection, file: DataFile, mapping: Mapped) -> Iterator[Finding]:
    path = file.file_path
    try:
        if file.is_deletion_vector:
            yield from _vector(seen, file)
        elif file.file_format == "PARQUET" and file.key_metadata is None:
            yield from _footer(seen, file, mapping)
    except ObjectNotFoundError:
        return
    except UnsupportedTableError as unknown:
        yield note(NAME, f"not looked into: {unknown.message}", path=path)
    except StorageUnavailableError:
        raise
    except (CorruptTableError, ValueError, OSError) as broken:
        # Arrow reports broken footers as ArrowInvalid, UnicodeDecodeError or OSError.
        message = f"cannot be read: {' '.join(str(broken).split())}"
        yield error(NAME, message, path=path, advice=ADVICE)


def _vector(seen: Inspection, file: DataFile) -> Iterator[Finding]:
    positions = stored_vector(seen.io, file, file.referenced_data_file or "")
    if len(positions) != file.record_count:
        message = f"a deletion vector deletes {counted(len(positions), 'row')}"
        message += f", its manifest says {file.record_count:,}"
        yield error(NAME, message, path=file.file_path)


def _footer(seen: Inspection, file: DataFile, mapping: Mapped) -> Iterator[Finding]:
    path, size_bytes = file.file_path, file.file_size_bytes
    with faults_of_file(path), closing(open_parquet(seen.io, path, size_bytes)) as parquet:
        footer, stored = parquet.metadata, parquet.schema_arrow
    if footer.num_rows != file.record_count:
        message = f"holds {counted(footer.num_rows, 'row')}, its manifest says "
        yield error(NAME, f"{message}{file.record_count:,}", path=file.file_path, advice=ADVICE)
        return
    schema = schema_with_ids(stored, mapping, path=path)
    for name, problem in _wrong_metrics(seen.metadata, file, footer, schema):
        message = f"the manifest's {problem} of column {name} is wrong: filtered reads pass it over"
        yield error(NAME, message, path=file.file_path)


def _wrong_metrics(
    metadata: TableMetadata, file: DataFile, footer: pq.FileMetaData, schema: pa.Schema
) -> Iterator[tuple[str, str]]:
    """Columns whose rows, as the footer has them, the manifest rules out."""
    for column in stored_columns(footer, schema, metadata.schema().fields):
        field, number = column.field, column.field.field_id
        chunks = [
            footer.row_group(group).column(column.number).statistics
            for group in range(footer.num_row_groups)
        ]
        if _are_nulls_wrong(file, number, chunks):
            yield field.name, "number of nulls"
        if not column.has_trusted_statistics:
            continue
        lower, upper = (
            None if bound is None else decode_value(field.type, bound)
            for bound in (_bound(file.lower_bounds, number), _bound(file.upper_bounds, number))
        )
        yield from ((field.name, problem) for problem in _outside(chunks, lower, upper))


def _are_nulls_wrong(file: DataFile, number: int, chunks: Sequence[Any]) -> bool:
    """Whether a column is wrongly said to have no nulls, or nothing else."""
    counted_nulls = [chunk.null_count for chunk in chunks if chunk and chunk.has_null_count]
    nulls = sum(counted_nulls)
    stated = (file.null_value_counts or {}).get(number)
    if stated is None:
        return False
    values = (file.value_counts or {}).get(number)
    is_known = len(counted_nulls) == len(chunks)
    has_others = is_known and nulls < file.record_count
    return (stated == 0 and nulls > 0) or (values is not None and stated >= values and has_others)


def _bound(bounds: Mapping[int, bytes] | None, identity: int) -> bytes | None:
    return (bounds or {}).get(identity)


def _outside(chunks: Sequence[Any], lower: Any, upper: Any) -> Iterator[str]:
    known = [chunk for chunk in chunks if chunk is not None and chunk.has_min_max]
    if not known:
        return
    if lower is not None and min(chunk.min for chunk in known) < lower:
        yield "lower bound"
    if upper is not None and max(chunk.max for chunk in known) > upper:
        yield "upper bound"
