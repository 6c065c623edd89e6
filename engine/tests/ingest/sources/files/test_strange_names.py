"""Files whose names Spark does not open, and files that hold no rows: the others go in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.spark.source_files.bad_input import find_bad_input
from tideline.spark.source_files.intake import Intake
from tideline.spark.source_files.sources import (
    SourceSettings,
    UnreadableFilesError,
    read_files,
    types_of,
)
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

KNOWN = types_of(pa.schema({"id": pa.string(), "v": pa.int64()}))


def at_fault(spark: SparkSession, folder: Path, file_format: str, **how: Any) -> dict[str, str]:
    """Reasons of the files that are left out until the others are read."""
    settings = SourceSettings(StoreLocation.of(str(folder)), file_format, **how)
    bad: dict[str, str] = {}

    def compute(rows: DataFrame) -> None:
        rows.write.format("noop").mode("overwrite").save()

    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    while rest := [path for path in paths if path not in bad]:
        found = find_bad_input(Intake(spark, settings), rest, rows_max=None, try_rows=compute).files
        if not found:
            break
        bad |= found
    return bad


@pytest.mark.parametrize("file_format", ["csv", "json", "parquet"])
def test_a_colon_in_a_name_is_named_and_in_a_folder_does_no_harm(
    file_format: str, spark: SparkSession, tmp_path: Path
) -> None:
    bodies = {"csv": "id,v\n1,1\n", "json": '{"id": "1", "v": 1}\n'}
    for name in ("03:04", "at=03:04/good", "also good"):
        path = tmp_path / f"{name}.{file_format}"
        path.parent.mkdir(exist_ok=True)
        if file_format == "parquet":
            pq.write_table(pa.table({"id": ["1"], "v": [1]}), path)
        else:
            path.write_text(bodies[file_format])
    reasons = at_fault(spark, tmp_path, file_format)
    assert reasons == {
        f"03:04.{file_format}": "its name has a colon, and Spark opens no such file: rename it"
    }
    good = [f"also good.{file_format}", f"at=03:04/good.{file_format}"]
    settings = SourceSettings(StoreLocation.of(str(tmp_path)), file_format)
    assert read_files(spark, good, settings).count() == 2


def test_files_without_an_object_or_a_header_say_what_was_expected(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "json").mkdir()
    for name, text in {"a": "hello\nworld\n", "b": "\n\n", "c": "{}\n"}.items():
        (tmp_path / f"json/{name}.json").write_text(text)
    expected = (
        "no line of it is a JSON object with a value: one object a line is expected, or one list "
        'of objects with the read option multiLine: "true"'
    )
    assert at_fault(spark, tmp_path / "json", "json") == {
        f"{name}.json": expected for name in "abc"
    }
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv/blank.csv").write_text("\n\n\n")
    (tmp_path / "csv/good.csv").write_text("id,v\n1,1\n")
    (tmp_path / "csv/other.csv").write_text("id;v\n1;1\n")
    reasons = at_fault(spark, tmp_path / "csv", "csv", known=KNOWN)
    assert reasons["blank.csv"] == "it has no column: its first line is expected to name them"
    assert reasons["other.csv"] == (
        "line 1 names one column, 'id;v': if ';' separates its columns, name it in the read option "
        "sep"
    )
    assert set(reasons) == {"blank.csv", "other.csv"}
    # Where the separator is named it is that one.
    own = at_fault(spark, tmp_path / "csv", "csv", known=KNOWN, options={"sep": ","})
    assert "_: rename it, in an ingest with a transform" in own["other.csv"]
    assert own["other.csv"].endswith(": id;v")


def test_json_that_is_not_utf8_is_called_so(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes('{"id": "M\xfcller", "v": 1}\n'.encode("latin-1"))
    (tmp_path / "good.json").write_text('{"id": "M\xfcller \ufffd", "v": 1}\n')
    reasons = at_fault(spark, tmp_path, "json", known=KNOWN)
    assert reasons == {"latin.json": "row 1 (line 1), column id: it is not UTF-8"}


def test_a_colon_stops_the_read_by_name(spark: SparkSession, tmp_path: Path) -> None:
    settings = SourceSettings(StoreLocation.of(str(tmp_path)), "csv")
    with pytest.raises(UnreadableFilesError) as raised:
        read_files(spark, ["a:b.csv", "c.csv"], settings)
    assert set(raised.value.reasons) == {"a:b.csv"}


def test_a_header_that_leaves_names_out_is_read_by_the_names_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "pandas.csv").write_text(",id,v\n0,1,a\n1,2,b\n")
    (tmp_path / "separator.csv").write_text("id,v,\n3,c,\n")
    settings = SourceSettings(StoreLocation.of(str(tmp_path)), "csv")
    rows = read_files(spark, ["pandas.csv", "separator.csv"], settings)
    assert sorted(row.v for row in rows.collect()) == ["a", "b", "c"]
    assert rows.columns[:3] == ["_c0", "id", "v"] and "_c2" not in rows.columns
