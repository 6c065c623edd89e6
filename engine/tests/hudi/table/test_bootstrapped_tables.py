"""Bootstrapped tables: skeletons take their columns from source files, by position."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.hfile import encode_hfile
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.look import look_at
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.table.bootstrap_index import INDEX_PATH
from tideline.hudi.table.table_config import BOOTSTRAP_BASE_PATH
from tideline.lake_table import LakeTable
from tideline.storage.named_places import SETTING
from tideline.testing.hand_written_table import HandWrittenTable
from tideline.testing.table_audit import merged_rows

GROUP = "11111111-2222-3333-4444-555555555555"
OTHER = "21111111-2222-3333-4444-555555555555"
SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int32()), ("day", pa.date32())])
TIME = "00000000000001"
KEYS = ["a", "b", "c", "d", "e"]


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name,
            "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}  # fmt: skip


INFO = record("Info", bootstrapBasePath="string")
STATUS = record("Status", path=record("Path", uri="string"), length="long")
ENTRY = record("Entry", bootstrapPartitionPath="string", bootstrapFileStatus=STATUS)


def container(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    stream = BytesIO()
    fastavro.writer(stream, schema, [value])
    return stream.getvalue()


def write_index(
    table: HandWrittenTable, base: str, sources: dict[str, Path], scheme: str = "file:"
) -> None:
    """The source of each file group of the partition day=2024-01-01."""
    day = "day=2024-01-01"
    entries = []
    for file_id, path in sorted(sources.items()):
        status = {"path": {"uri": f"{scheme}{path}"}, "length": path.stat().st_size}
        entry = {"bootstrapPartitionPath": day, "bootstrapFileStatus": status}
        entries.append((f"part={day};fileid={file_id}".encode(), container(ENTRY, entry)))
    info = {"INDEX_INFO": container(INFO, {"bootstrapBasePath": base})}
    file = table.path(INDEX_PATH)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encode_hfile(entries, info))


def source_of(folder: Path) -> Path:
    return folder / "old" / "day=2024-01-01" / "part.parquet"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HandWrittenTable:
    """One skeleton of five rows, and a file of commit 2 with a row of its own. Its sources are
    where configuration lets them be."""
    monkeypatch.setenv(SETTING, str(tmp_path / "old"))
    source = source_of(tmp_path)
    source.parent.mkdir(parents=True)
    # The source has neither the day nor large row groups.
    rows = pa.table({"n": pa.array(range(5), pa.int32()), "id": KEYS})
    pq.write_table(rows, source, row_group_size=2)
    made = HandWrittenTable.create(
        tmp_path / "table", SCHEMA, partition_by=("day",), hive_style=True
    )
    day = "day=2024-01-01"
    skeleton = pa.table({"id": KEYS})
    (path,) = made.commit(TIME, {(day, GROUP): skeleton})
    stored = pq.read_table(made.path(path), partitioning=None)
    pq.write_table(stored.drop(["id"]), made.path(path), row_group_size=3)
    whole = pa.table(
        [["x"], pa.array([9], pa.int32()), pa.array([19_724], pa.date32())], schema=SCHEMA
    )
    made.commit("2", {(day, OTHER): whole})
    write_index(made, str(tmp_path / "old"), {GROUP: source})
    made.set_properties({BOOTSTRAP_BASE_PATH: str(tmp_path / "old")})
    return made


def numbers(table: HandWrittenTable) -> list[tuple[str, str, int, str]]:
    rows = merged_rows(table.open()).to_pylist()
    return [(row["_hoodie_record_key"], row["id"], row["n"], str(row["day"])) for row in rows]


ALL = [*((key, key, n, "2024-01-01") for n, key in enumerate(KEYS)), ("x", "x", 9, "2024-01-02")]


def test_columns_are_joined_by_position_and_folders_give_theirs(table: HandWrittenTable) -> None:
    assert numbers(table) == ALL


def test_small_batches_of_both_files_are_cut_alike(
    table: HandWrittenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline.formats.row_batches._BATCH_BYTES", 1)
    monkeypatch.setattr("tideline.formats.row_batches._BATCH_ROWS_MIN", 1)
    assert numbers(table) == ALL


def test_a_condition_on_either_file_leaves_rows_of_the_other_with_theirs(
    table: HandWrittenTable,
) -> None:
    """Of five rows the skeleton has row groups of three, the source of two."""
    lake = LakeTable.open(table.open().location.uri)
    for condition in (pc.field("_hoodie_record_key") == "d", pc.field("n") == 3):
        rows = lake.to_arrow(["_hoodie_record_key", "id", "n"], condition)
        assert rows.to_pylist() == [{"_hoodie_record_key": "d", "id": "d", "n": 3}]


def test_a_view_knows_the_source_of_each_skeleton(table: HandWrittenTable, tmp_path: Path) -> None:
    opened = table.open()
    view = opened.files.read_view(opened.timeline())
    (skeleton, whole) = view.latest_base_files("day=2024-01-01")
    assert (skeleton.is_skeleton, whole.is_skeleton) == (True, False)
    assert (skeleton.is_plain, whole.is_plain) == (False, True)
    assert skeleton.source is not None
    assert whole.source is None
    assert skeleton.source.uri == f"file:{source_of(tmp_path)}"
    assert skeleton.source.moved == "old/day=2024-01-01/part.parquet"
    assert dict(skeleton.source.values) == {"day": "2024-01-01"}


def test_sources_that_moved_with_the_table_are_found_below_it(
    table: HandWrittenTable, tmp_path: Path
) -> None:
    (tmp_path / "old").rename(tmp_path / "table" / "old")
    assert numbers(table) == ALL


def test_a_missing_source_is_named(table: HandWrittenTable, tmp_path: Path) -> None:
    source_of(tmp_path).unlink()
    with pytest.raises(CorruptTableError, match=r"source .* is missing.*part\.parquet"):
        numbers(table)


def test_a_source_that_was_written_again_is_refused(
    table: HandWrittenTable, tmp_path: Path
) -> None:
    rows = pa.table({"n": pa.array(range(4), pa.int32()), "id": KEYS[:4]})
    pq.write_table(rows, source_of(tmp_path))
    with pytest.raises(CorruptTableError, match="bytes, and had"):
        numbers(table)
    write_index(table, str(tmp_path / "old"), {GROUP: source_of(tmp_path)})
    with pytest.raises(CorruptTableError, match="source file has 4 rows, its skeleton 5"):
        numbers(table)


def test_a_source_that_is_no_file_of_its_format_is_named(
    table: HandWrittenTable, tmp_path: Path
) -> None:
    source_of(tmp_path).write_bytes(b"none")
    write_index(table, str(tmp_path / "old"), {GROUP: source_of(tmp_path)})
    with pytest.raises(CorruptTableError, match=r"no parquet file.*part\.parquet"):
        numbers(table)


def test_a_skeleton_that_no_index_knows_is_not_read_as_rows_of_nulls(
    table: HandWrittenTable,
) -> None:
    table.path(INDEX_PATH).unlink()
    with pytest.raises(CorruptTableError, match="no index names the source"):
        numbers(table)


def test_a_broken_index_is_named(table: HandWrittenTable) -> None:
    table.path(INDEX_PATH).write_bytes(b"none")
    with pytest.raises(CorruptTableError, match=r"\.bootstrap"):
        numbers(table)


@pytest.mark.parametrize("scheme", ["s3://bucket", "hdfs://host"])
def test_a_table_leads_to_no_other_kind_of_store(
    table: HandWrittenTable, tmp_path: Path, scheme: str
) -> None:
    write_index(table, str(tmp_path / "old"), {GROUP: source_of(tmp_path)}, scheme)
    with pytest.raises(UnsupportedTableError, match=rf"not the table's own.*{scheme}/.*parquet"):
        numbers(table)


@pytest.mark.parametrize("setting", ["", "s3://bucket", "{0}/other", "{0}/ol"])
def test_a_source_that_configuration_does_not_name_is_not_read(
    table: HandWrittenTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(SETTING, setting.format(tmp_path))
    with pytest.raises(UnsupportedTableError, match=rf"{SETTING} .*part\.parquet"):
        numbers(table)


def test_a_link_takes_no_source_out_of_the_folder_that_configuration_names(
    table: HandWrittenTable, tmp_path: Path
) -> None:
    source = source_of(tmp_path)
    source.rename(tmp_path / "stranger.parquet")
    source.symlink_to(tmp_path / "stranger.parquet")
    with pytest.raises(UnsupportedTableError, match=r"leads out of the folder.*stranger"):
        numbers(table)


def test_nothing_is_changed(table: HandWrittenTable) -> None:
    capabilities = look_at(table.location)
    allowed = {candidate for candidate in Permission if capabilities.may(candidate) is None}
    assert allowed == {Permission.READ, Permission.MERGE_LOGS, Permission.CHECK}
    for permission in set(Permission) - allowed:
        with pytest.raises(
            UnsupportedTableError, match="bootstrapped tables are read, not changed"
        ):
            admit(table.open(), permission)
