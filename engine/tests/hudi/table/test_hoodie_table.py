"""An open table: its files, its replaced groups and its schema, from what lies in the store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.clock import SystemClock
from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import encode_container
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import write_partition_metadata
from tideline.hudi.table.schema import arrow_to_avro, with_meta_fields
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock

CREATED = pa.schema([("id", pa.string()), ("day", pa.string())])
NEWER = CREATED.append(pa.field("n", pa.int64()))


def at(number: int) -> InstantTime:
    return InstantTime(f"202501010000{number:05d}")


def base(file_id: str, number: int) -> str:
    return f"{file_id}_0-1-2_{at(number)}.parquet"


def schema_json(schema: pa.Schema) -> str:
    return json.dumps(arrow_to_avro(schema, name="r", namespace="n"))


def make_table(folder: Path, **changes: object) -> HoodieTable:
    location = StoreLocation.of(folder)
    definition = TableDefinition("orders", ("id",), ("day",), schema=CREATED, table_version=6)
    create_table(location.open(), definition, SystemClock())
    table = open_table(location)
    if changes:
        table.properties.update({key: str(value) for key, value in changes.items()})
    return table


def test_the_next_time_is_above_a_timeline_from_the_future(tmp_path: Path) -> None:
    made = make_table(tmp_path)
    table = open_table(made.location, FakeClock(1_700_000_000_000))
    assert table.instants.next_time() == InstantTime("20231114221320001")
    table.timelines.create_requested(InstantTime("20990101000000000"), Action.ROLLBACK)
    assert table.instants.next_time() == InstantTime("20990101000000001")
    assert table.instants.next_time(ActiveTimeline()) == InstantTime("20231114221320001")


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    return make_table(tmp_path)


def commit(
    table: HoodieTable,
    number: int,
    metadata: CommitMetadata | None = None,
    action: Action = Action.COMMIT,
) -> None:
    requested = table.timelines.create_requested(at(number), action)
    inflight = table.timelines.to_inflight(requested)
    table.timelines.complete(inflight, (metadata or CommitMetadata()).encode())


def with_schema(schema: pa.Schema) -> CommitMetadata:
    return CommitMetadata(extra_metadata={"schema": schema_json(schema)})


def put_base(table: HoodieTable, partition: str, file_id: str, number: int) -> str:
    write_partition_metadata(table.store, partition, at(number))
    path = f"{partition}/{base(file_id, number)}"
    table.store.put(path, b"PAR1")
    return path


def test_opening_a_folder_without_a_table_says_so(tmp_path: Path) -> None:
    with pytest.raises(ObjectNotFoundError, match="no Hudi table here"):
        open_table(StoreLocation.of(tmp_path / "missing"))


def test_a_new_table_is_empty(table: HoodieTable) -> None:
    timeline = table.timeline()
    assert len(timeline) == 0
    assert table.files.partitions() == ()
    assert table.files.view(timeline).partitions == ()
    assert table.commits.replaced_groups(timeline) == {}
    assert table.schemas.newest(timeline) == CREATED


@pytest.mark.parametrize("partition", ["p", "a=1/b=2", "größe=日/x y", "2024-01-05 18%3A00%3A00"])
def test_files_are_found_in_partitions_of_any_name(table: HoodieTable, partition: str) -> None:
    path = put_base(table, partition, "aaaaaaaa-0", 10)
    commit(table, 10)
    assert table.files.partitions() == (partition,)
    for view in (
        table.files.view(table.timeline()),
        table.files.view(table.timeline(), [partition]),
    ):
        (base_file,) = view.latest_base_files(partition)
        assert base_file.path == path
        assert base_file.size_bytes == 4


def test_a_directory_without_partition_metadata_is_listed_only_when_asked_for(
    table: HoodieTable,
) -> None:
    put_base(table, "p", "aaaaaaaa-0", 10)
    table.store.put(f"q/{base('bbbbbbbb-0', 10)}", b"PAR1")
    assert list(table.files.listing()) == ["p"]
    assert list(table.files.listing(["q", "p", "absent"])) == ["absent", "p", "q"]
    assert table.files.listing(["q"])["q"] == ((base("bbbbbbbb-0", 10), 4),)
    assert {item.partition for item in table.files.base_files()} == {"p", "q"}


def test_many_partitions_are_listed_like_few(table: HoodieTable) -> None:
    names = [f"p{number:03d}" for number in range(40)]
    for name in names[:35]:
        put_base(table, name, "aaaaaaaa-0", 10)
    many = table.files.listing(names)
    assert sorted(many) == names
    few = {name: table.files.listing([name])[name] for name in names}
    assert {name: sorted(files) for name, files in many.items()} == {
        name: sorted(files) for name, files in few.items()
    }


def test_the_tables_own_metadata_is_never_data(table: HoodieTable) -> None:
    table.store.put(f".hoodie/metadata/files/{base('aaaaaaaa-0', 10)}", b"HFILE")
    table.store.put(".hoodie/metadata/files/.hoodie_partition_metadata", b"")
    assert table.files.partitions() == ()
    assert table.files.base_files() == ()


def test_completed_replacecommits_replace_and_pending_ones_do_not(table: HoodieTable) -> None:
    put_base(table, "p", "aaaaaaaa-0", 10)
    commit(table, 10)
    metadata = CommitMetadata(partition_to_replace_file_ids={"p": ("aaaaaaaa-0",)})
    requested = table.timelines.create_requested(at(20), Action.REPLACECOMMIT)
    inflight = table.timelines.to_inflight(requested)
    assert len(table.files.view(table.timeline()).latest_base_files("p")) == 1
    table.timelines.complete(inflight, metadata.encode())
    timeline = table.timeline()
    assert table.commits.replaced_groups(timeline) == {FileGroupId("p", "aaaaaaaa-0"): at(20)}
    assert table.files.view(timeline).latest_base_files("p") == ()


def test_an_unreadable_replacecommit_is_corrupt_and_named(table: HoodieTable) -> None:
    table.store.put(f".hoodie/{at(20)}.replacecommit", b'{"partitionTo')
    with pytest.raises(CorruptTableError) as caught:
        table.files.view(table.timeline())
    assert caught.value.path == f".hoodie/{at(20)}.replacecommit"


def test_groups_in_a_pending_clustering_plan_take_no_inserts(table: HoodieTable) -> None:
    for file_id in ("aaaaaaaa-0", "bbbbbbbb-0"):
        put_base(table, "p", file_id, 10)
    commit(table, 10)
    plan = {
        "operationType": "CLUSTER",
        "clusteringPlan": {
            "inputGroups": [{"slices": [{"fileId": "aaaaaaaa-0", "partitionPath": "p"}]}]
        },
    }
    body = encode_container("HoodieRequestedReplaceMetadata", plan)
    clustering = table.timelines.create_requested(at(20), Action.REPLACECOMMIT, body)
    table.timelines.create_requested(at(30), Action.REPLACECOMMIT)
    view = table.files.view(table.timeline())
    assert view.pending_clustering == {FileGroupId("p", "aaaaaaaa-0"): at(20)}
    assert len(view.latest_base_files("p")) == 2
    assert [item.file_id for item in view.small_files("p", 100)] == ["bbbbbbbb-0"]
    inflight = table.timelines.to_inflight(clustering)
    assert table.files.view(table.timeline()).pending_clustering
    table.timelines.complete(inflight, CommitMetadata().encode())
    assert table.files.view(table.timeline()).pending_clustering == {}


def test_a_pending_plan_that_cannot_be_read_is_corrupt_and_named(table: HoodieTable) -> None:
    table.timelines.create_requested(at(20), Action.REPLACECOMMIT, b"Obj\x01 cut sh")
    with pytest.raises(CorruptTableError) as caught:
        table.files.view(table.timeline())
    assert caught.value.path == f".hoodie/{at(20)}.replacecommit.requested"


def test_an_instant_rolled_back_in_between_plans_nothing(table: HoodieTable) -> None:
    requested = table.timelines.create_requested(at(20), Action.COMPACTION, b"gone")
    timeline = table.timeline()
    table.timelines.remove(requested)
    assert table.files.view(timeline).pending_compaction == {}


def test_the_schema_is_that_of_the_newest_completed_commit_that_has_one(
    table: HoodieTable,
) -> None:
    commit(table, 10, with_schema(with_meta_fields(NEWER)))
    commit(table, 20)
    commit(table, 30, with_schema(CREATED), Action.ROLLBACK)
    table.timelines.create_requested(at(40), Action.COMMIT)
    assert table.schemas.newest(table.timeline()) == NEWER
    assert table.schemas.newest(table.timeline().before(at(10))) == CREATED


def test_without_any_recorded_schema_a_footer_has_it(tmp_path: Path) -> None:
    location = StoreLocation.of(tmp_path)
    create_table(
        location.open(), TableDefinition("orders", ("id",), table_version=6), SystemClock()
    )
    table = open_table(location)
    assert table.schemas.newest(table.timeline()) is None
    for number, schema in ((10, CREATED), (20, NEWER), (30, NEWER)):
        stats = (WriteStat(path=base("aaaaaaaa-0", number)),)
        commit(table, number, CommitMetadata(partition_to_write_stats={"": stats}))
        pq.write_table(
            with_meta_fields(schema).empty_table(), tmp_path / base("aaaaaaaa-0", number)
        )
    (tmp_path / base("aaaaaaaa-0", 30)).unlink()
    assert table.schemas.newest(table.timeline()) == NEWER
    undecodable = b"PAR1" + b"\xff" * 40 + (40).to_bytes(4, "little") + b"PAR1"
    for content in (b"PAR1", undecodable):
        (tmp_path / base("aaaaaaaa-0", 20)).write_bytes(content)
        with pytest.raises(CorruptTableError, match="not a parquet file"):
            table.schemas.newest(table.timeline())


def test_partition_columns_that_files_leave_out_come_last(tmp_path: Path) -> None:
    table = make_table(tmp_path, **{"hoodie.datasource.write.drop.partition.columns": "true"})
    commit(table, 10, with_schema(pa.schema([("id", pa.string())])))
    assert table.schemas.newest(table.timeline()) == CREATED


def test_a_broken_schema_names_the_table(tmp_path: Path) -> None:
    table = make_table(tmp_path, **{"hoodie.table.create.schema": "{"})
    with pytest.raises(
        CorruptTableError, match="Avro schema is truncated or cannot be read"
    ) as caught:
        table.schemas.newest(table.timeline())
    assert caught.value.table == table.uri


def test_services_that_move_no_rows_need_no_arrow() -> None:
    code = (
        "import sys, tideline.hudi.metadata_table.disable, tideline.hudi.table.markers;"
        "assert not {'pyarrow', 'pyspark'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
