"""Finding what is at fault in a batch: files by trying parts of it, columns by a row's text."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.spark.source_files.bad_input import narrow
from tideline.spark.source_files.bad_rows import explain_csv, explain_json
from tideline.spark.source_files.sources import SourceSettings, header_names
from tideline.spark.source_files.text_lines import lines_of_rows
from tideline.storage.location import StoreLocation

FILES = [f"{number}.csv" for number in range(16)]


@given(st.sets(st.sampled_from(FILES)))
def test_files_that_fail_alone_are_all_found_and_no_other(bad: set[str]) -> None:
    tried: list[int] = []

    def failure(paths: Sequence[str]) -> str | None:
        tried.append(len(paths))
        return "bad" if bad & set(paths) else None

    assert set(narrow(FILES, failure)) == bad
    assert len(tried) == 1 if not bad else len(tried) <= 2 * len(bad) * 5


@given(st.sets(st.sampled_from(FILES), min_size=2, max_size=2))
def test_of_files_that_only_clash_the_later_one_is_at_fault(pair: set[str]) -> None:
    def failure(paths: Sequence[str]) -> str | None:
        return "clash" if pair <= set(paths) else None

    (found,) = narrow(FILES, failure)
    assert found == max(pair, key=FILES.index)


def test_files_that_name_themselves_are_not_looked_for() -> None:
    def failure(paths: Sequence[str]) -> str | Mapping[str, str] | None:
        return {"3.csv": "torn"} if "3.csv" in paths else None

    assert narrow(FILES, failure) == {"3.csv": "torn"}


@pytest.mark.parametrize(
    ("record", "nulls", "found"),
    [
        ("1,a", {}, ("", "it has 2 values where there are 3 columns")),
        ("1", {}, ("", "it has 1 value where there are 3 columns")),
        ('x,"a,b",', {"id": True, "w": True}, ("id", "'x' is not of type bigint")),
        ("1,a," + "9" * 60, {"w": True}, ("W", f"'{'9' * 37}...' is not of type double")),
        ("1,a,2", {}, ("", "it does not fit its columns")),
    ],
)
def test_the_column_at_fault_in_a_line_of_csv(
    record: str, nulls: dict[str, bool], found: tuple[str, str]
) -> None:
    kinds = {"id": "bigint", "w": "double"}
    assert explain_csv(record, ["id", "v", "W"], nulls, kinds, sep=",", quote='"') == found


@pytest.mark.parametrize(
    ("record", "nulls", "found"),
    [
        ('{"id": "x"}', {"id": True}, ("id", '"x" is not of type bigint')),
        ('{"id": 1, "n": {"x": "y"}}', {}, ("", "a value inside it does not fit its type")),
        ("[1]", {}, ("", "it is not a JSON object")),
        (
            "{",
            {},
            ("", "it is not JSON, and one object a line is expected: Expecting property name"),
        ),
        ("[" * 100_000, {}, ("", "it is not JSON, and one object")),
    ],
)
def test_the_column_at_fault_in_a_line_of_json(
    record: str, nulls: dict[str, bool], found: tuple[str, str]
) -> None:
    column, reason = explain_json(record, nulls, {"id": "bigint"})
    assert column == found[0]
    assert reason.startswith(found[1])


def settings(folder: Path, file_format: str = "csv", **options: str) -> SourceSettings:
    return SourceSettings(StoreLocation.of(str(folder)), file_format, options)


@pytest.mark.parametrize("packed", [False, True])
def test_rows_of_csv_are_found_by_line_behind_breaks_and_blank_lines(
    tmp_path: Path, packed: bool
) -> None:
    text = '\ufeffid;v\r\n1;"two\r\nlines"\r\n\r\n2;b\r\n3;"say ""x"""\r\n'.encode()
    name = "a.csv.gz" if packed else "a.csv"
    (tmp_path / name).write_bytes(gzip.compress(text) if packed else text)
    reading = settings(tmp_path, sep=";")
    found = lines_of_rows(reading.location.open(), name, [1, 2, 3, 9], reading)
    assert found == {1: 2, 2: 5, 3: 6}
    assert header_names(reading, name) == ["id", "v"]


def test_rows_of_json_are_found_by_line_and_what_cannot_be_looked_into_has_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n\n{"id": 2}\n')
    (tmp_path / "a.json.bz2").write_bytes(b"BZh")
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"{}\n")[:-9])
    reading = settings(tmp_path, "json")
    store: Any = reading.location.open()
    assert lines_of_rows(store, "a.json", [2], reading) == {2: 3}
    for name in ("a.json.bz2", "cut.json.gz", "gone.json"):
        assert lines_of_rows(store, name, [2], reading) == {}
