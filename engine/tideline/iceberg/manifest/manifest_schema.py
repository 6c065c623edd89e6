"""The fields of manifests and manifest lists, version by version (spec, "Manifests")."""

from __future__ import annotations

from tideline.iceberg.metadata.field_type import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    FieldType,
    ListType,
    MapType,
    NestedField,
    Primitive,
    StructType,
)

BINARY = Primitive("binary")
METRICS_IDS = frozenset({108, 109, 110, 137, 125, 128, 131, 132})
"""Data file fields that planning without a filter can do without: maps, keys, split offsets."""
NAN_COUNTS_ID = 137


def _field(field_id: int, name: str, type_: FieldType, *, required: bool = False) -> NestedField:
    return NestedField(field_id, name, type_, required=required)


def _counts(field_id: int, name: str, value: FieldType = LONG) -> NestedField:
    """A map from field ids; the ids of its parts follow from its own, as the spec lists them."""
    key_id, value_id = _MAP_PARTS[field_id]
    return _field(field_id, name, MapType(key_id, INT, value_id, value, value_required=True))


_MAP_PARTS = {
    108: (117, 118),
    109: (119, 120),
    110: (121, 122),
    137: (138, 139),
    125: (126, 127),
    128: (129, 130),
}


def entry_struct(partition: StructType, format_version: int) -> StructType:
    """A manifest's entries."""
    data_file = _data_file(partition, format_version)
    fields = [_field(0, "status", INT, required=True)]
    fields.append(_field(1, "snapshot_id", LONG, required=format_version == 1))
    if format_version > 1:
        fields += (_field(3, "sequence_number", LONG), _field(4, "file_sequence_number", LONG))
    fields.append(_field(2, "data_file", data_file, required=True))
    return StructType(tuple(fields))


def _data_file(partition: StructType, format_version: int) -> StructType:
    fields: list[NestedField] = []
    if format_version > 1:
        fields.append(_field(134, "content", INT, required=True))
    fields += (
        _field(100, "file_path", STRING, required=True),
        _field(101, "file_format", STRING, required=True),
        _field(102, "partition", partition, required=True),
        _field(103, "record_count", LONG, required=True),
        _field(104, "file_size_in_bytes", LONG, required=True),
    )
    if format_version == 1:
        fields.append(_field(105, "block_size_in_bytes", LONG, required=True))
    fields += (
        _counts(108, "column_sizes"),
        _counts(109, "value_counts"),
        _counts(110, "null_value_counts"),
        _counts(137, "nan_value_counts"),
        _counts(125, "lower_bounds", BINARY),
        _counts(128, "upper_bounds", BINARY),
        _field(131, "key_metadata", BINARY),
        _field(132, "split_offsets", ListType(133, LONG, element_required=True)),
    )
    if format_version > 1:
        fields.append(_field(135, "equality_ids", ListType(136, INT, element_required=True)))
    fields.append(_field(140, "sort_order_id", INT))
    if format_version > 2:
        fields.append(_field(142, "first_row_id", LONG))
    if format_version > 1:
        fields.append(_field(143, "referenced_data_file", STRING))
    if format_version > 2:
        fields += (_field(144, "content_offset", LONG), _field(145, "content_size_in_bytes", LONG))
    return StructType(tuple(fields))


_SUMMARY = StructType(
    (
        _field(509, "contains_null", BOOLEAN, required=True),
        _field(518, "contains_nan", BOOLEAN),
        _field(510, "lower_bound", BINARY),
        _field(511, "upper_bound", BINARY),
    )
)


def manifest_file_struct(format_version: int) -> StructType:
    """A manifest list's entries."""
    is_required = format_version > 1
    fields = [
        _field(500, "manifest_path", STRING, required=True),
        _field(501, "manifest_length", LONG, required=True),
        _field(502, "partition_spec_id", INT, required=True),
    ]
    if format_version > 1:
        fields += (
            _field(517, "content", INT, required=True),
            _field(515, "sequence_number", LONG, required=True),
            _field(516, "min_sequence_number", LONG, required=True),
        )
    fields += (
        _field(503, "added_snapshot_id", LONG, required=True),
        _field(504, "added_files_count", INT, required=is_required),
        _field(505, "existing_files_count", INT, required=is_required),
        _field(506, "deleted_files_count", INT, required=is_required),
        _field(512, "added_rows_count", LONG, required=is_required),
        _field(513, "existing_rows_count", LONG, required=is_required),
        _field(514, "deleted_rows_count", LONG, required=is_required),
        _field(507, "partitions", ListType(508, _SUMMARY, element_required=True)),
        _field(519, "key_metadata", BINARY),
    )
    if format_version > 2:
        fields.append(_field(520, "first_row_id", LONG))
    return StructType(tuple(fields))
