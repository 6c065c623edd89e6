"""Ingest operations against real tables: rows, checkpoint, bad files, races and deaths."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tideline.hudi.index.uniqueness import described
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.ingest_table import FILES_KEY
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import (
    CreateTable,
    Operation,
    RollBack,
    TableTarget,
)
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.files.listing import FileFormat
from tideline.testing.file_feed import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    target = TableTarget(
        name="feed",
        location=Location(f"file://{tmp_path}/table"),
        record_key=("id",),
        ordering=("ts",),
    )
    return Feed(tmp_path, spark, target)


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, ColumnType.parse(kind)) for name, kind in types.items())


def test_batches_become_commits_and_nothing_goes_in_twice(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n2,1,b\n", 10)
    feed.land("2.csv", "id,ts,v\n2,2,bb\n3,1,c\n", 20)
    feed.land("3.csv", "id,ts,v\n1,0,too old\n4,1,d\n", 30)
    first = feed.run(files_max=2)
    assert (first.outcome, first.source_files, first.rows_inserted) == (Outcome.SUCCEEDED, 2, 3)
    second = feed.run(files_max=2)
    assert (second.source_files, second.rows_inserted) == (1, 1)
    assert feed.next_batch().range.names == ()
    assert feed.rows() == [(1, "a"), (2, "bb"), (3, "c"), (4, "d")]
    last = feed.table().timeline().completed().last()
    assert last is not None
    extra = feed.table().hoodie_table.timelines.read_commit(last).extra_metadata
    assert extra[FILES_KEY] == '["3.csv"]'


@pytest.mark.slow
def test_of_equal_ordering_values_the_later_file_and_the_later_row_win(feed: Feed) -> None:
    feed.land("b.csv", "id,ts,v\n1,5,first\n2,5,x\n2,5,later row\n", 10)
    feed.land("a.csv", "id,ts,v\n1,5,later file\n", 20)
    feed.run()
    assert feed.rows() == [(1, "later file"), (2, "later row")]


@pytest.mark.slow
def test_a_file_that_arrives_late_with_an_old_time_is_not_lost(feed: Feed) -> None:
    feed.land("new.csv", "id,ts,v\n1,1,a\n", 1_000_000)
    feed.run()
    feed.land("old.csv", "id,ts,v\n2,1,b\n", 10)
    feed.run()
    assert feed.rows() == [(1, "a"), (2, "b")]


def test_a_plan_that_another_process_overtook_does_nothing(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    stale = feed.plan(write_operation="insert")
    feed.run(write_operation="insert")
    result = feed.execute(stale)
    assert result.outcome is Outcome.NOTHING
    assert "generation 1, planned with 0" in result.message
    assert feed.rows() == [(1, "a")]


@pytest.mark.slow
def test_a_file_that_changed_after_the_plan_waits_for_the_next(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.land("2.csv", "id,ts,v\n2,1,half", 20)
    planned = feed.plan()
    feed.land("2.csv", "id,ts,v\n2,1,whole\n", 30)
    result = feed.execute(planned)
    assert (result.source_files, len(result.notes)) == (1, 1)
    feed.run()
    assert feed.rows() == [(1, "a"), (2, "whole")]


def test_bad_files_are_set_aside_and_the_others_go_in(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.land("2.csv", "id,ts,v\n2,1\n", 20)
    feed.land("3.csv", "id,ts,v\n3,1,c\n", 30)
    result = feed.run()
    assert [(file.path, file.reason) for file in result.skipped] == [
        ("2.csv", "row 1 (line 2): it has 2 values where there are 3 columns")
    ]
    assert (result.outcome, result.source_files) == (Outcome.SUCCEEDED, 2)
    assert [file.path for file in feed.listing().quarantined] == ["2.csv"]
    assert feed.commits() == 1
    feed.land("2.csv", "id,ts,v\n2,1,mended\n", 40)
    feed.run()
    assert feed.rows() == [(1, "a"), (2, "mended"), (3, "c")]


@pytest.mark.slow
def test_only_bad_files_make_no_commit_and_no_second_try(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.run()
    feed.land("2.csv", "id,ts,v\n2\n", 20)
    result = feed.run()
    assert (result.outcome, len(result.skipped)) == (Outcome.NOTHING, 1)
    assert feed.commits() == 1
    assert feed.next_batch().range.names == ()


@pytest.mark.slow
def test_with_the_policy_fail_the_file_is_named_and_nothing_changes(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.run()
    feed.land("2.csv", "id,ts,v\n2\n", 20)
    feed.land("3.csv", "id,ts,v\n3,1,c\n", 30)
    result = feed.run(quarantines=False)
    assert (result.outcome, result.exit_code, result.error) == (Outcome.FAILED, 1, "InvalidData")
    assert "landing/2.csv" in result.message
    assert "row 1 (line 2): it has 1 value where there are 3 columns" in result.message
    assert (feed.commits(), feed.listing().quarantined) == (1, ())


@pytest.mark.slow
def test_a_file_that_does_not_suit_the_table_keeps_no_other_out(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v,n\n1,1,a,5\n", 10)
    feed.run()
    feed.land("key.csv", "id,ts,v,n\n2,1,b,5\n,1,secret,5\n", 20)
    feed.land("header.csv", "ident,ts,v,n\n3,1,c,5\n", 21)
    feed.land("order.csv", "id,ts,v,n\n4,,d,5\n", 22)
    feed.land("type.csv", "id,ts,v,n\n5,1,e,five\n", 23)
    feed.land("good.csv", "id,ts,v,n\n6,1,f,6\n", 24)
    stopped = feed.run(quarantines=False)
    assert (stopped.outcome, feed.commits()) == (Outcome.FAILED, 1)
    assert "landing/header.csv" in stopped.message
    result = feed.run()
    reasons = {file.path: file.reason for file in result.skipped}
    assert reasons == {
        "header.csv": "it has no column id, which the record key is made of (it has "
        "ident, ts, v, n)",
        "key.csv": "row 2 (line 3), column id: the record key is null or empty",
        "order.csv": "row 1 (line 2), column ts: the ordering value is null",
        "type.csv": "row 1 (line 2), column n: 'five' is not of type bigint",
    }
    assert (result.outcome, result.source_files) == (Outcome.SUCCEEDED, 1)
    assert feed.rows() == [(1, "a"), (6, "f")]
    assert feed.next_batch().range.names == ()


@pytest.mark.slow
def test_parquet_files_of_other_types_and_exports_of_tables_are_checked_alone(feed: Feed) -> None:
    feed.file_format = FileFormat.PARQUET
    row: dict[str, list[Any]] = {"id": [1], "ts": [1], "v": ["a"]}
    feed.land_parquet("1.parquet", row, 10)
    feed.run()
    feed.land_parquet("type.parquet", {**row, "id": [2], "v": [[1.5]]}, 20)
    feed.land_parquet("export.parquet", {**row, "id": [3], "_hoodie_commit_time": ["2026"]}, 21)
    feed.land_parquet("key.parquet", {"id": [4, None], "ts": [1, 1], "v": ["d", "x"]}, 22)
    result = feed.run(bad_rows_max=1)
    assert [file.path for file in result.skipped] == ["type.parquet"]
    assert "column v cannot change from string to list" in result.skipped[0].reason
    assert result.rows_set_aside == 1
    assert feed.rows() == [(1, "a"), (3, "a"), (4, "d")]
    (line,) = feed.rows_set_aside()
    assert (line["file"], line["row"], line["line"]) == ("key.parquet", 2, None)
    assert json.loads(line["record"]) == {"id": None, "ts": 1, "v": "x"}


def test_bad_rows_are_set_aside_and_the_others_go_in(feed: Feed) -> None:
    feed.land("0.csv", "id,ts,v\n0,1,z\n", 5)
    feed.run()
    feed.land("1.csv", 'id,ts,v\n1,1,"two\nlines"\n2,x,b\n3,1\n\n,1,"no, key"\n5,1,e\n', 10)
    feed.land("2.csv", "id,ts,v\n6,1\n7,1\n8,1\n9,1\n9,1,i\n", 20)
    feed.land("3.csv", "id,ts,v\n10,1,j\n", 30)
    result = feed.run(bad_rows_max=3)
    assert (result.outcome, result.source_files, result.rows_set_aside) == (
        Outcome.SUCCEEDED, 2, 3
    )  # fmt: skip
    assert [(file.path, file.reason) for file in result.skipped] == [
        ("2.csv", "row 1 (line 2): it has 2 values where there are 3 columns "
         "(and 3 more bad rows); at most 3 are set aside")
    ]  # fmt: skip
    assert feed.rows() == [(0, "z"), (1, "two\nlines"), (5, "e"), (10, "j")]
    found = [
        (row["row"], row["line"], row["column"], row["reason"]) for row in feed.rows_set_aside()
    ]
    assert found == [
        (2, 4, "ts", "'x' is not of type bigint"),
        (3, 5, None, "it has 2 values where there are 3 columns"),
        (4, 7, "id", "the record key is null or empty"),
    ]
    assert feed.rows_set_aside()[1]["record"] == "3,1"
    assert "3 rows of 1.csv set aside in _quarantine/: row 2 (line 4), column ts" in result.notes[0]
    assert feed.listing().set_aside.words == (
        "1 file and 3 rows of 1 other file set aside in _quarantine/"
    )
    # Corrected rows come back in a file of their own.
    feed.land("1-corrected.csv", "id,ts,v\n2,1,b\n3,1,c\n4,1,d\n", 40)
    assert feed.run(bad_rows_max=3).rows_inserted == 3


@pytest.mark.slow
def test_json_rows_are_set_aside_and_absent_fields_are_null(feed: Feed) -> None:
    feed.file_format = FileFormat.JSON
    feed.land("1.json", '{"id": 1, "ts": 1, "v": "a", "n": {"x": 1, "y": "b"}}\n', 10)
    feed.run()
    feed.land("2.json", '{"id": 2, "ts": 1, "n": {"x": 2}}\n{"id": 3, "ts": \n{"ts": 1}\n', 20)
    feed.land("3.json", '{"id": 4, "ts": 1, "n": "text"}\n', 30)
    result = feed.run(bad_rows_max=5)
    assert (result.skipped, result.rows_set_aside) == ((), 3)
    found = [(row["file"], row["row"], row["column"]) for row in feed.rows_set_aside()]
    assert found == [("2.json", 2, None), ("2.json", 3, "id"), ("3.json", 1, "n")]
    assert feed.rows("id", "n.x", "n.y") == [(1, 1, "b"), (2, 2, None)]


@pytest.mark.slow
def test_rows_of_a_transform_are_checked_where_it_keeps_their_place(feed: Feed) -> None:
    query = "select nullif(id, 2) as id, ts, v {} from source"
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.run(transform=query.format(""))
    feed.land("2.csv", "id,ts,v\n2,1,b\n3,1,c\n", 20)
    feed.land("3.csv", "id,ts,v\n4,1,d\n", 30)
    lost = feed.run(transform=query.format(""), bad_rows_max=1)
    assert [file.path for file in lost.skipped] == ["2.csv"]
    assert "null or empty record key" in lost.skipped[0].reason
    assert feed.rows() == [(1, "a"), (4, "d")]
    shutil.rmtree(feed.landing_folder / "_quarantine")
    again = feed.plan(transform=query.format(", _tideline_sequence"), bad_rows_max=1)
    assert feed.execute(again).rows_set_aside == 1
    assert feed.rows() == [(1, "a"), (3, "c"), (4, "d")]


def test_the_checkpoint_knows_its_prefix_and_goes_on_under_a_new_name(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.run(write_operation="insert")
    before = feed.checkpoint()
    assert before is not None
    assert before.address == "../landing"
    feed.land("2.csv", "id,ts,v\n2,1,b\n", 20)
    renamed = feed.plan(name="renamed", write_operation="insert", former_name="landing",
                        generation=1)  # fmt: skip
    assert feed.execute(renamed).source_files == 1, "what the former name took in is in"
    assert feed.rows() == [(1, "a"), (2, "b")]
    after = feed.checkpoint("renamed")
    assert after is not None
    assert (after.generation, after.took_over) == (2, "landing")
    assert feed.execute(renamed).outcome is Outcome.NOTHING


@pytest.mark.slow
def test_a_condition_deletes_and_a_later_report_inserts_again(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,here\n2,1,here\n", 10)
    feed.run(delete_when="v = 'gone'")
    feed.land("2.csv", "id,ts,v\n1,2,gone\n", 20)
    assert feed.run(delete_when="v = 'gone'").rows_deleted == 1
    assert feed.rows() == [(2, "here")]
    feed.land("3.csv", "id,ts,v\n1,3,back\n", 30)
    feed.run(delete_when="v = 'gone'")
    assert feed.rows() == [(1, "back"), (2, "here")]


@pytest.mark.slow
def test_a_delete_feed_deletes_and_without_a_table_says_so(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n2,1,b\n", 10)
    early = feed.run(write_operation="delete", name="removals")
    assert (early.outcome, early.exit_code) == (Outcome.FAILED, 1)
    assert "nothing to delete from" in early.message
    feed.run()
    removals = replace(feed.target, name="feed")
    operation = feed.plan(write_operation="delete", name="removals")
    assert feed.execute(replace(operation, table=removals)).rows_deleted == 2
    assert feed.rows() == []


def test_two_ingests_of_one_table_carry_each_others_checkpoint(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.run(name="one")
    feed.run(name="two")
    checkpoints = current_checkpoints(feed.table(), "two")
    assert {name: item.generation for name, item in checkpoints.items()} == {"one": 1, "two": 1}


@pytest.mark.slow
def test_columns_may_come_and_stay_away(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.run()
    feed.land("2.csv", "id,ts,v,extra\n2,1,b,7\n", 20)
    feed.run()
    feed.land("3.csv", "v,id,ts\nc,3,1\n", 30)
    feed.run()
    assert feed.rows("id", "v", "extra") == [("1", "a", None), ("2", "b", 7), ("3", "c", None)]


def test_a_declared_schema_settles_the_types_before_any_batch(feed: Feed) -> None:
    schema = columns(id="long", ts="int", v="string")
    feed.target = replace(feed.target, schema=schema)
    created = feed.execute(Operation("feed-create-1", feed.target, CreateTable()))
    assert created.outcome is Outcome.SUCCEEDED
    again = feed.execute(Operation("feed-create-1", feed.target, CreateTable()))
    assert again.outcome is Outcome.NOTHING
    feed.land("1.csv", "id,ts,v\n1,1,007\n", 10)
    feed.run()
    assert feed.rows() == [(1, "007")]


def test_a_first_batch_without_rows_asks_for_a_schema(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n", 10)
    result = feed.run()
    assert (result.outcome, result.exit_code) == (Outcome.FAILED, 1)
    assert "declare spec.schema" in result.message
    assert open_table(feed.target) is None


def test_a_batch_that_a_transform_empties_is_still_taken_in(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    query = "select * from source where v <> 'noise'"
    feed.run(transform=query)
    feed.land("2.csv", "id,ts,v\n2,1,noise\n", 20)
    result = feed.run(transform=query)
    assert (result.outcome, result.rows_inserted) == (Outcome.SUCCEEDED, 0)
    assert feed.next_batch().range.names == ()


@pytest.mark.slow
def test_what_a_transform_reads_keeps_the_types_of_its_first_batch(feed: Feed) -> None:
    query = "select id, ts, concat(code, '!') as v from source"
    feed.land("1.csv", "id,ts,code\n1,1,x1\n", 10)
    feed.run(transform=query)
    feed.land("2.csv", "id,ts,code\n2,1,007\n", 20)
    feed.run(transform=query)
    assert feed.rows() == [(1, "x1!"), (2, "007!")]


def test_a_transform_that_does_not_fit_is_a_usage_error(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    result = feed.run(transform="select nothing from source")
    assert (result.exit_code, result.error) == (2, "ConfigError")


@pytest.mark.slow
def test_once_remembers_that_the_prefix_was_drained(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.land("2.csv", "id,ts,v\n2,1,b\n", 20)
    feed.run(files_max=1, once_number=0)
    first = feed.checkpoint()
    assert first is not None
    assert first.drained is None
    feed.run(files_max=1, once_number=0)
    second = feed.checkpoint()
    assert second is not None
    assert second.drained == 0


def test_a_run_that_dies_between_plan_and_commit_loses_nothing(feed: Feed) -> None:
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)

    def dying(_: Iterable[Any]) -> SparkSession:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute_operation(feed.plan(), session_factory=dying)
    feed.run()
    assert feed.rows() == [(1, "a")]


def test_rolling_back_where_nothing_failed_is_nothing(feed: Feed) -> None:
    rollback = Operation("feed-rollback-1", feed.target, RollBack(("20260101000000000",)))
    assert feed.execute(rollback).outcome is Outcome.NOTHING
    feed.land("1.csv", "id,ts,v\n1,1,a\n", 10)
    feed.run()
    assert feed.execute(rollback).outcome is Outcome.NOTHING


@pytest.mark.slow
def test_json_lines_with_missing_fields_and_parquet_go_in_the_same_way(feed: Feed) -> None:
    feed.file_format = FileFormat.JSON
    feed.land("1.json", '{"id": 1, "ts": 1, "v": "a", "n": {"x": 1}}\n{"id": 2, "ts": 1}\n', 10)
    feed.run()
    feed.land("2.json", '{"id": 3, "ts": 1}\n', 20)
    feed.run()
    assert feed.rows() == [(1, "a"), (2, None), (3, None)]


@pytest.mark.slow
def test_what_a_spec_says_of_keys_is_kept_in_a_table_that_exists(feed: Feed) -> None:
    create = replace(feed.target, partition_by=("city",))
    feed.target = replace(
        create, write_properties={"hoodie.index.type": "GLOBAL_SIMPLE"}, unique_in_table=True
    )
    feed.execute(Operation("feed-create", create, CreateTable()))
    feed.land("0.csv", "id,ts,city\nx,1,rome\n", 5)
    assert feed.run(delete_when="no_such_column").outcome is Outcome.FAILED
    feed.land("1.csv", "id,ts,city\n1,1,rome\n2,1,rome\n", 10)
    first = feed.run()
    assert "its keys are unique in the whole table (GLOBAL_SIMPLE)" in " ".join(first.notes)
    assert not any("tideline declare" in note for note in first.notes)
    hoodie = feed.table().hoodie_table
    assert described(hoodie) == "unique in the whole table (tideline.index.type=GLOBAL_SIMPLE)"
    # A write that names no index moves the row now.
    feed.target = create
    feed.land("2.csv", "id,ts,city\n1,2,oslo\n", 20)
    assert feed.run().notes == ()
    assert feed.rows("id", "city") == [("1", "oslo"), ("2", "rome"), ("x", "rome")]
