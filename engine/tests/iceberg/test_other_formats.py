"""Files that are not Parquet stay, with their deletes, and keep no other from a rewrite."""

from __future__ import annotations

import json

import pytest

from tideline.cli.main import run
from tideline.iceberg.manifest.manifest_entry import FileContent
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.left_files import Reason, Skipped, unreadable
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import RewriteReport, rewrite_data_files
from tideline.iceberg.services.rewrite_position_deletes.execute import execute_position_deletes
from tideline.iceberg.services.rewrite_position_deletes.plan import delete_rewrite_options
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.iceberg_delete_table import DeleteTable
from tideline.testing.iceberg_values import data_file

VISIBLE = [1, 2, 3, 4, 5, 7, 8, 9, 11, 14]


def mixed(data_format: str = "ORC", delete_format: str = "PARQUET") -> DeleteTable:
    """Each partition has two Parquet files and one of another format; all even ones have deletes,
    which the one of `e` is named for."""
    table = DeleteTable.create()
    table.append("a", [0, 2, 4])
    table.append("b", [6, 8, 10])
    table.append("e", [12, 14], file_format=data_format)
    table.append("c", [1, 3, 5], parity="odd")
    table.append("d", [7, 9], parity="odd")
    table.append("f", [11, 13], parity="odd", file_format=data_format)
    table.delete({"a": [0], "b": [0, 2]})
    table.delete({"e": [0]}, names_file=True, file_format=delete_format)
    table.delete({"f": [1]}, parity="odd")
    assert table.rows() == VISIBLE
    return table


def rewrite(table: DeleteTable, **options: str) -> RewriteReport:
    given = {"rewrite-all": "true"} | {
        name.replace("_", "-"): text for name, text in options.items()
    }
    opened = IcebergTable.open(table.model.location.uri)
    parsed = RewriteOptions.parse(given, properties=opened.metadata.properties)
    return rewrite_data_files(opened, parsed, write_groups_here)


def names(table: DeleteTable) -> set[str]:
    paths = (manifest_entry.data_file.file_path for manifest_entry in table.data())
    return {path.rpartition("/")[2].removesuffix(".parquet") for path in paths}


@pytest.mark.parametrize("delete_format", ["PARQUET", "ORC"])
@pytest.mark.parametrize("data_format", ["ORC", "AVRO"])
def test_others_are_rewritten_and_what_stays_is_named(data_format: str, delete_format: str) -> None:
    table = mixed(data_format, delete_format)
    report = rewrite(table)
    assert (report.files_rewritten, report.files_added) == (4, 2)
    (left,) = report.plan.skipped
    assert (left.reason, left.files) == (Reason.NOT_PARQUET, 2)
    assert set(left.named) == {table.path("e"), table.path("f")}
    assert names(table) >= {"e", "f"}
    assert not names(table) & set("abcd")
    assert table.rows() == VISIBLE
    again = rewrite(table)
    assert again.plan.skipped == report.plan.skipped
    assert table.rows() == VISIBLE


def test_a_parquet_file_with_deletes_in_another_format_stays_too() -> None:
    table = mixed()
    table.delete({"c": [0]}, parity="odd", names_file=True, file_format="AVRO")
    visible = [number for number in VISIBLE if number != 1]
    assert table.rows() == visible
    left = {skipped.reason: skipped.named for skipped in rewrite(table).plan.skipped}
    assert left[Reason.DELETES_NOT_PARQUET] == (table.path("c"),)
    assert names(table) >= {"c", "e", "f"}
    assert table.rows() == visible


def test_deletes_of_what_stays_are_not_dangling() -> None:
    table = mixed()
    assert rewrite(table, remove_dangling_deletes="true").deletes_removed == 0
    assert len(table.deletes()) == 3
    assert table.rows() == VISIBLE
    table.remove("e")
    rewrite(table, remove_dangling_deletes="true")
    assert table.rows() == [number for number in VISIBLE if number != 14]
    # The one that is named for the file is gone, and the one of the partition, which is older than
    # all that is left there.
    assert [delete_file.data_file.partition for delete_file in table.deletes()] == [("odd",)]


@pytest.mark.parametrize("delete_format", ["PARQUET", "ORC"])
def test_position_deletes_of_what_stays_are_rewritten(delete_format: str) -> None:
    table = mixed(delete_format=delete_format)
    operations = table.model.operations()
    run = execute_position_deletes(operations, delete_rewrite_options({"rewrite-all": "true"}, {}))
    is_read = delete_format == "PARQUET"
    assert (run.files_removed, run.files_added) == ((3, 2) if is_read else (2, 2))
    assert bool(run.plan.named) is not is_read
    assert table.rows() == VISIBLE
    rewrite(table)
    assert table.rows() == VISIBLE


def test_the_command_line_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    table = mixed()
    uri = table.model.location.uri
    arguments = ["iceberg", "rewrite", uri, "--option", "rewrite-all=true"]
    assert run([*arguments, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "stay: not in Parquet, and only Parquet is rewritten." in printed
    assert f"  {table.path('e')}\n" in printed
    assert run(arguments) == 0
    printed = capsys.readouterr().out
    assert "Rewrote 4 files" in printed
    assert f"  {table.path('f')}\n" in printed
    assert run([*arguments, "--json"]) == 0
    (left,) = json.loads(capsys.readouterr().out)["plan"]["skipped"]
    assert set(left["named"]) == {table.path("e"), table.path("f")}


PLAIN = data_file("a")
ORC_DELETE = data_file("d", content=FileContent.EQUALITY_DELETES, file_format="ORC")
VECTOR = data_file("v", content=FileContent.POSITION_DELETES, file_format="PUFFIN")


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (FileScanTask(PLAIN, 1), None),
        (FileScanTask(PLAIN, 1, deletion_vector=VECTOR), None),
        (FileScanTask(data_file("a", file_format="AVRO"), 1), Reason.NOT_PARQUET),
        (FileScanTask(PLAIN, 1, (), (ORC_DELETE,)), Reason.DELETES_NOT_PARQUET),
        (FileScanTask(PLAIN, 1, (ORC_DELETE,)), Reason.DELETES_NOT_PARQUET),
        (FileScanTask(data_file("a", key_metadata=b"k"), 1), Reason.ENCRYPTED),
        (FileScanTask(PLAIN, 1, (data_file("d", key_metadata=b"k"),)), Reason.ENCRYPTED),
    ],
)
def test_why_a_file_cannot_be_read(task: FileScanTask, reason: Reason | None) -> None:
    assert unreadable(task) is reason


def test_words_name_a_few() -> None:
    left = Skipped(Reason.NOT_PARQUET, 5, 10, ("a", "b", "c", "d", "e"))
    assert left.words == f"5 files stay: {Reason.NOT_PARQUET.value}: a, b, c, ..."
    assert Skipped(Reason.TOO_LITTLE, 1, 1).words == f"1 file stays: {Reason.TOO_LITTLE.value}"
