"""Types of text columns that nobody declared: no value changes its meaning, no row is lost."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tideline.errors import InvalidDataError
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.execute.write_files import SourceWrite, write_sources
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation, TableTarget
from tideline.ingest.operation.result import OperationResult
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.file_ingests import ingest_of_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LONG_IDS = ["1" * 40, "1" * 39 + "2"]


class Taker:
    """A landing folder and a table that takes its files in, one batch a call."""

    def __init__(self, folder: Path, spark: SparkSession, file_format: FileFormat) -> None:
        self.landing = StoreLocation.of(str(folder / "landing"))
        self.folder = folder / "landing"
        self.folder.mkdir(parents=True)
        self.spark = spark
        self.file_format = file_format
        self.generation = 0
        self.seen: set[str] = set()
        self.target = TableTarget(
            name="feed",
            location=Location(f"file://{folder}/table"),
            record_key=("id",),
            ordering=("ts",),
        )

    def take(self, *files: str, **work: Any) -> OperationResult:
        """Land the files and take them in together."""
        start = len(list(self.folder.iterdir()))
        for number, text in enumerate(files, start=start):
            path = self.folder / f"{number}.{self.file_format}"
            path.write_text(text)
            os.utime(path, (number + 1, number + 1))
        found = list_arrived(self.landing.open(), self.file_format).files
        new = tuple(file for file in found if file.path not in self.seen)
        self.seen |= {file.path for file in new}
        ingest = ingest_of_files(
            "landing", Location(self.landing.uri), self.file_format, new, self.generation, **work
        )
        result = execute_operation(
            Operation("feed-ingest", self.target, ingest),
            session_factory=lambda _: self.spark,
        )
        self.generation += result.instant is not None
        return result

    @property
    def table(self) -> LakeTable:
        table = open_table(self.target)
        assert table is not None
        return table

    def kind(self, column: str) -> pa.DataType:
        schema = self.table.schema
        assert schema is not None
        return schema.field(column).type

    def values(self, column: str) -> list[Any]:
        rows = self.table.to_arrow(columns=sorted({"id", column})).to_pylist()
        return [row[column] for row in sorted(rows, key=lambda row: str(row["id"]))]

    def quarantined(self) -> list[dict[str, Any]]:
        """Rows that are set aside."""
        files = [path for path in (self.folder / "_quarantine").rglob("*") if path.is_file()]
        return [loads(line) for path in files for line in path.read_text().splitlines()]


@pytest.fixture
def csv(tmp_path: Path, spark: SparkSession) -> Taker:
    return Taker(tmp_path / "csv", spark, FileFormat.CSV)


@pytest.fixture
def json(tmp_path: Path, spark: SparkSession) -> Taker:
    return Taker(tmp_path / "json", spark, FileFormat.JSON)


def test_keys_of_csv_are_text_so_that_no_two_become_one(csv: Taker) -> None:
    keys = ["007", "7", "1e3", "1000", "1.0", "1", "+5", "5", *LONG_IDS, "1" * 20]
    result = csv.take("id,ts,v\n" + "".join(f"{key},1,x\n" for key in keys))
    assert result.rows_inserted == len(keys)
    assert csv.values("id") == sorted(keys)
    # Whole numbers alone as well: the next file may have another kind of key.
    again = Taker(csv.folder.parent / "whole", csv.spark, FileFormat.CSV)
    again.take("id,ts\n1,1\n2,1\n")
    assert again.take("id,ts\n01,1\nA-2,1\n").rows_inserted == 2


def test_a_key_that_is_declared_has_its_type(csv: Taker, tmp_path: Path) -> None:
    table = LakeTable.create(
        str(tmp_path / "declared"), record_key="id", schema=pa.schema({"id": pa.int64()})
    )
    (csv.folder / "a.csv").write_text("id\n007\n")
    write_sources(table, lambda: csv.spark, SourceWrite(csv.landing, "csv", None))
    assert table.to_arrow(columns=["id"]).to_pylist() == [{"id": 7}]
    new = LakeTable.create(str(tmp_path / "undeclared"), record_key="id")
    write_sources(new, lambda: csv.spark, SourceWrite(csv.landing, "csv", None))
    assert new.to_arrow(columns=["id"]).to_pylist() == [{"id": "007"}]


def test_keys_of_json_that_are_numbers_of_any_length_stay_apart(
    json: Taker, tmp_path: Path
) -> None:
    lines = [f'{{"id": {key}, "ts": 1}}\n' for key in (*LONG_IDS, "1e3", "1000")]
    assert json.take("".join(lines)).rows_inserted == 4
    whole = Taker(tmp_path / "whole", json.spark, FileFormat.JSON)
    whole.take('{"id": 1, "ts": 1}\n')
    assert whole.kind("id") == pa.int64()
    mixed = Taker(tmp_path / "mixed", json.spark, FileFormat.JSON)
    result = mixed.take('{"id": 1, "ts": 1}\n{"id": "1", "ts": 1}\n', bad_rows_max=5)
    assert (result.rows_inserted, result.rows_set_aside) == (1, 1)


def test_numerals_that_a_number_would_not_give_back_stay_text(csv: Taker) -> None:
    kept = {
        "zip": ("01234", "90210"),
        "plus": ("+1", "2"),
        "code": ("1e3", "20"),
        "serial": ("1" * 20, "2"),
        "precise": ("0.12345678901234567890", "1"),
        "both": ("12345678901234567", "1.5"),
        "suffix": ("12d", "3f"),
    }
    head = ",".join(["id", "ts", *kept])
    rows = [",".join([str(n), "1", *[pair[n] for pair in kept.values()]]) for n in (0, 1)]
    csv.take("\n".join([head, *rows, ""]))
    assert {name: tuple(csv.values(name)) for name in kept} == kept


def test_numbers_as_programs_write_them_are_numbers(csv: Taker) -> None:
    columns = {
        "whole": ("-5", "9223372036854775807"),
        "amount": ("0.10", "1.50"),
        "small": ("1e-05", "1.5E10"),
        "long": ("0.30000000000000004", "NaN"),
        "day": ("2024-01-31", "2024-02-01"),
        "at": ("2024-01-31 10:00:00", "2024-02-01T10:00:00.5Z"),
        "flag": ("true", "FALSE"),
    }
    head = ",".join(["id", "ts", *columns])
    rows = [",".join([str(n), "1", *[pair[n] for pair in columns.values()]]) for n in (0, 1)]
    csv.take("\n".join([head, *rows, ""]))
    kinds = {name: str(csv.kind(name)) for name in columns}
    assert kinds == {
        "whole": "int64", "amount": "double", "small": "double", "long": "double",
        "day": "date32[day]", "at": "timestamp[us, tz=UTC]", "flag": "bool",
    }  # fmt: skip
    assert csv.values("amount") == [0.1, 1.5]


def test_rows_without_a_key_are_set_aside_in_the_batch_that_makes_the_table(csv: Taker) -> None:
    result = csv.take("id,ts,v\n1,1,a\n,2,b\n", bad_rows_max=1)
    assert (result.skipped, result.rows_set_aside, result.rows_inserted) == ((), 1, 1)


@pytest.mark.parametrize("odd", ["abc", '"1,5"', "2024-01-01"])
def test_an_odd_value_is_set_aside_wherever_it_comes(odd: str, csv: Taker, tmp_path: Path) -> None:
    good, bad = "id,ts,v\n1,1,10\n2,1,20\n", f"id,ts,v\n3,1,{odd}\n4,1,40\n"
    first = csv.take(good, bad, bad_rows_max=5)
    other = Taker(tmp_path / "apart", csv.spark, FileFormat.CSV)
    other.take(good, bad_rows_max=5)
    second = other.take(bad, bad_rows_max=5)
    assert (first.rows_set_aside, second.rows_set_aside) == (1, 1)
    assert csv.values("v") == other.values("v") == [10, 20, 40]


def test_line_breaks_in_quotes_are_no_rows_regardless_of_the_name(csv: Taker) -> None:
    (csv.folder / "a [1].csv").write_text('id,ts,v,w\n1,1,"two\nlines",7\n')
    assert csv.take().skipped == ()
    assert (csv.values("v"), csv.values("w")) == (["two\nlines"], [7])


def test_a_column_of_mostly_text_is_text(csv: Taker, json: Taker) -> None:
    csv.take("id,ts,v\n1,1,10\n2,1,A-2\n3,1,B\n")
    assert csv.values("v") == ["10", "A-2", "B"]
    json.take('{"id": 1, "ts": 1, "v": 10}\n{"id": 2, "ts": 1, "v": "A"}\n'
              '{"id": 3, "ts": 1, "v": "B"}\n')  # fmt: skip
    assert json.values("v") == ["10", "A", "B"]


def test_odd_values_of_json_are_set_aside(json: Taker) -> None:
    good = '{{"id": {0}, "ts": 1, "s": {{"a": {0}, "b_c": "x"}}, "n": {0}.5, "l": [{0}]}}\n'
    odd = [
        '{"id": 3, "ts": 1, "s": "flat"}\n',
        '{"id": 4, "ts": 1, "n": "1,5"}\n',
        '{"id": 5, "ts": 1, "l": 7}\n',
    ]
    lines = [*[good.format(n) for n in (1, 2)], *odd]
    result = json.take("".join(lines), bad_rows_max=5)
    assert (result.rows_inserted, result.rows_set_aside) == (2, 3)
    assert json.values("s") == [{"a": 1, "b_c": "x"}, {"a": 2, "b_c": "x"}]
    assert json.values("n") == [1.5, 2.5]
    assert json.values("l") == [[1], [2]]


@pytest.mark.parametrize("text", ['"9"', '"n/a"'])
def test_an_ordering_column_of_json_is_a_number_as_soon_as_one_is(text: str, json: Taker) -> None:
    first = '{"id": 1, "ts": 9, "v": "old"}\n' + f'{{"id": 2, "ts": {text}, "v": "old"}}\n' * 2
    assert json.take(first, bad_rows_max=5).rows_set_aside == 2
    json.take('{"id": 1, "ts": 10, "v": "new"}\n')
    assert (json.kind("ts"), json.values("v")) == (pa.int64(), ["new"])


@pytest.mark.parametrize(
    ("values", "later", "set_aside"),
    [(("9", "n/a", "n/a"), "10", 2), (("2024-01-09", "soon", "soon"), "2024-01-10", 2)],
)
def test_an_ordering_column_of_csv_is_what_orders(
    values: tuple[str, ...], later: str, set_aside: int, csv: Taker
) -> None:
    rows = [f"{number},{value},old\n" for number, value in enumerate(values)]
    result = csv.take("id,ts,v\n" + "".join(rows), bad_rows_max=5)
    assert result.rows_set_aside == set_aside
    csv.take(f"id,ts,v\n0,{later},new\n")
    assert csv.values("v") == ["new"]


def test_an_ordering_column_of_text_alone_is_text(csv: Taker) -> None:
    csv.take("id,ts,v\n1,b,old\n2,a,old\n")
    csv.take("id,ts,v\n1,a,new\n2,b,new\n")
    assert csv.values("v") == ["old", "new"]


def test_times_in_short_forms_stay_text_unless_a_format_is_given(csv: Taker) -> None:
    kept = {"month": ("2024-01", "2024-02"), "clock": ("12:30", "12:31:05"), "hex": ("0x1p3", "2")}
    head = ",".join(["id", "ts", *kept, "day"])
    rows = [
        ",".join([str(n), "1", *[pair[n] for pair in kept.values()], f"3{n}/01/2024"])
        for n in (0, 1)
    ]
    csv.take("\n".join([head, *rows, ""]), options={"dateFormat": "dd/MM/yyyy"})
    assert str(csv.kind("day")) == "date32[day]"
    plain = Taker(csv.folder.parent / "plain", csv.spark, FileFormat.CSV)
    plain.take("\n".join([head, *rows, ""]))
    assert {name: tuple(plain.values(name)) for name in kept} == kept
    assert plain.values("day") == ["30/01/2024", "31/01/2024"]


def test_csv_that_is_not_utf8_is_set_aside_with_the_line(csv: Taker) -> None:
    latin = "id,ts\nx,1\nMüller,1\nMöller,1\n".encode("latin-1")
    (csv.folder / "latin.csv").write_bytes(latin)
    (csv.folder / "packed.csv.gz").write_bytes(gzip.compress(latin))
    (csv.folder / "wide [1].csv").write_bytes("id,ts\nMüller,1\n".encode("utf-16"))
    (csv.folder / "head.csv").write_bytes("id,ts,grün\ny,1,1\n".encode("latin-1"))
    result = csv.take("id,ts\n\ufffd,1\nMüller,1\nMöller,1\n")
    hint = "is not UTF-8: write the file in UTF-8, or name the encoding of all files in the read "
    reasons = {file.path: file.reason for file in result.skipped}
    assert reasons == {
        "latin.csv": f"line 3 {hint}option encoding",
        "packed.csv.gz": f"line 3 {hint}option encoding",
        "wide [1].csv": f"line 1 {hint}option encoding",
        "head.csv": f"line 1 {hint}option encoding",
    }
    assert csv.values("id") == ["Möller", "Müller", "\ufffd"]
    named = Taker(csv.folder.parent / "named", csv.spark, FileFormat.CSV)
    (named.folder / "latin.csv").write_bytes(latin)
    named.take(options={"encoding": "ISO-8859-1"})
    assert named.values("id") == ["Möller", "Müller", "x"]


def test_types_that_files_decide_are_in_the_report(csv: Taker, json: Taker) -> None:
    first = csv.take("id,ts,v\n1,1,x\n")
    assert first.columns_added == ("id string", "ts int64", "v string")
    second = csv.take("id,ts,day\n1,2,2024-01-31\n")
    assert (second.columns_added, second.columns_widened) == (("day date32[day]",), ())
    assert csv.take("id,ts\n1,3\n").columns_added == ()
    json.take('{"id": 1, "ts": 1, "s": {"a": 1}}\n')
    nested = json.take('{"id": 2, "ts": 1, "s": {"a": 1, "b": [1.5]}}\n')
    assert nested.columns_added == ("s.b list<element: double>",)


def test_types_of_source_columns_outlast_a_file_that_lacks_them(csv: Taker) -> None:
    query = "SELECT id, ts, v FROM source"
    first = csv.take("id,ts,v\n1,1,A-1\n", transform=query)
    assert "v string in the source files" in first.columns_added
    csv.take("id,ts\n2,1\n", transform="SELECT id, ts, '' v FROM source")
    last = csv.take("id,ts,v\n3,1,007\n4,1,8\n", transform=query)
    assert last.columns_added == ()
    assert csv.values("v") == ["A-1", "", "007", "8"]


LATER = {
    "10": (["007", "+5", "1_000", " 5", "1e3", "1" * 20, "-0", "5.0", '"3\n"'],
           ["-7", "0", "9" * 18]),
    "1.5": (["007.5", "+5.5", " 5.5", "1e3", "5d", "0x1p3", "1" * 18, f"0.{'1' * 20}"],
            ["7", "-0.25", "1e-05", "NaN"]),
    "2024-01-31": (["2024-01", "2024", "2024-1-5", "12:30"], ["2024-02-29"]),
    "2024-01-31 10:00:00": (["2024-01", "12:30"], ["2024-02-29", "2024-02-29T12:30:00Z"]),
}  # fmt: skip


@pytest.mark.parametrize("first", LATER)
def test_a_later_value_keeps_its_meaning_or_is_set_aside(first: str, csv: Taker) -> None:
    csv.take(f"id,ts,v\na,1,{first}\n")
    odd, even = LATER[first]
    kind = csv.kind("v")
    lines = [f"{number:02},1,{value}\n" for number, value in enumerate([*odd, *even])]
    result = csv.take("id,ts,v\n" + "".join(lines), bad_rows_max=20)
    assert (result.rows_set_aside, result.rows_inserted) == (len(odd), len(even))
    assert csv.kind("v") == kind
    (note,) = [note for note in result.notes if "set aside" in note]
    assert "row 1 (line 2), column v: " in note
    assert f"{odd[0]!r} is not of type " in note
    assert [row["record"].split(",")[2] for row in csv.quarantined()] == odd
    failed = csv.take(f"id,ts,v\nb,1,{odd[0]}\n")
    assert "row 1 (line 2), column v: " in failed.skipped[0].reason


LATER_JSON = {
    "10": (["1" * 20, "5.0", "1e3", '"7"'], ["-7", "0", "9" * 18]),
    "1.5": (["1" * 16, "1" * 20, "1" * 40, f"0.{'1' * 18}", "true", '"7"', "[1]"],
            ["7", "-0.25", "1e-05", "0.30000000000000004", "1.5E30", "1234567890123456.0",
             '"NaN"', "null"]),
}  # fmt: skip


@pytest.mark.parametrize("first", LATER_JSON)
def test_a_later_number_of_json_is_not_rounded(first: str, json: Taker) -> None:
    odd, even = LATER_JSON[first]
    json.take(f'{{"id": "a", "ts": 1, "v": {first}}}\n')
    lines = [
        f'{{"id": "{number:02}", "ts": 1, "v": {value}}}\n'
        for number, value in enumerate([*odd, *even])
    ]
    result = json.take("".join(lines), bad_rows_max=20)
    assert (result.rows_set_aside, result.rows_inserted) == (len(odd), len(even))
    (note,) = [note for note in result.notes if "set aside" in note]
    assert f"row 1 (line 1), column v: {odd[0]} is not of type " in note
    number = int if json.kind("v") == pa.int64() else float
    wanted = [None if text == "null" else number(text.strip('"')) for text in even]
    assert [repr(value) for value in json.values("v")[:-1]] == [repr(value) for value in wanted]


def test_values_keep_their_meaning_before_a_transform(csv: Taker) -> None:
    query = "SELECT id, ts, v + 1 v FROM source"
    csv.take("id,ts,v\na,1,10\nb,1,20\n", transform=query)
    result = csv.take("id,ts,v\nc,1,007\nd,1,7\n", transform=query, bad_rows_max=5)
    assert (result.rows_set_aside, csv.values("v")) == (1, [11, 21, 8])


def test_text_that_a_transform_leaves_is_set_aside_by_row(csv: Taker) -> None:
    csv.take("id,ts,w\na,1,x\n", transform="SELECT * EXCEPT (w), 5 v FROM source")
    query = "SELECT * EXCEPT (w), w v FROM source"
    result = csv.take("id,ts,w\nb,1,abc\nc,1,7\n", transform=query, bad_rows_max=5)
    assert (result.rows_set_aside, result.skipped, csv.values("v")) == (1, (), [5, 7])
    (note,) = [note for note in result.notes if "set aside" in note]
    assert "row 1 (line 2), column v: 'abc' is not of type int" in note


def test_a_declared_column_takes_other_forms_of_its_values(csv: Taker, tmp_path: Path) -> None:
    table = LakeTable.create(
        str(tmp_path / "t"), record_key="id", schema=pa.schema({"id": pa.string(), "v": pa.int64()})
    )
    (csv.folder / "a.csv").write_text("id,v,w\na,007,1\n")
    (csv.folder / "b.csv").write_text("id,v,w\nb,+5,01\n")
    wanted = SourceWrite(StoreLocation.of(str(csv.folder / "a.csv")), "csv", None)
    write_sources(table, lambda: csv.spark, wanted)
    later = replace(wanted, location=StoreLocation.of(str(csv.folder / "b.csv")))
    with pytest.raises(InvalidDataError, match=r"column w: '01' is not of type bigint in its"):
        write_sources(table, lambda: csv.spark, later)
    (csv.folder / "b.csv").write_text("id,v,w\nb,+5,2\n")
    write_sources(table, lambda: csv.spark, later)
    rows = sorted(table.to_arrow(columns=["id", "v", "w"]).to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": "a", "v": 7, "w": 1}, {"id": "b", "v": 5, "w": 2}]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("id,ts,v,v", "line 1 names column v twice"),
        ("id,ts,v,V", "line 1 names columns v and V, which differ by case only"),
        ('ID,ts,"v",id', "line 1 names columns ID and id, which differ by case only"),
    ],
)
def test_a_header_that_names_a_column_twice_is_said_to(header: str, said: str, csv: Taker) -> None:
    (csv.folder / "packed.csv.gz").write_bytes(gzip.compress(f"{header}\n1,1,1,2\n".encode()))
    result = csv.take(f"{header}\n1,1,1,2\n", "id,ts,v\n1,1,1\n")
    assert {file.path: file.reason for file in result.skipped} == {
        "1.csv": said, "packed.csv.gz": said
    }  # fmt: skip
    assert csv.values("v") == [1]


def test_numbers_of_json_that_a_double_would_change_are_text(json: Taker) -> None:
    columns = {
        "huge": ("1" * 20, "2"),
        "precise": ("0.12345678901234567890", "1"),
        "both": ("1234567890123456789", "1.5"),
    }
    lines = [
        f'{{"id": {n}, "ts": 1, "good": {n}.25, "exact": {n}e3, '
        + ", ".join(f'"{name}": {pair[n]}' for name, pair in columns.items()) + "}\n"
        for n in (0, 1)
    ]  # fmt: skip
    json.take("".join(lines))
    assert {name: tuple(json.values(name)) for name in columns} == columns
    assert (json.values("good"), json.values("exact")) == ([0.25, 1.25], [0.0, 1000.0])


def test_numbers_inside_objects_and_lists_that_a_double_would_change_are_text(
    json: Taker,
) -> None:
    huge, precise = "1" * 20, "0.12345678901234567890"
    lines = [
        f'{{"id": 0, "ts": 1, "s": {{"huge": {huge}, "good": 1.5, "x": {{"p": {precise}}}}}, '
        f'"l": [1.5, {huge}], "o": [{{"a": 2.5, "b": {precise}}}], "g": [0.25]}}\n',
        '{"id": 1, "ts": 1, "s": {"huge": 2, "good": 2, "x": {"p": 1}}, "l": [1], "o": [], '
        '"g": [1, null]}\n',
    ]
    json.take("".join(lines))
    assert json.values("s") == [
        {"huge": huge, "good": 1.5, "x": {"p": precise}},
        {"huge": "2", "good": 2.0, "x": {"p": "1"}},
    ]
    assert json.values("l") == [["1.5", huge], ["1"]]
    assert json.values("o") == [[{"a": 2.5, "b": precise}], []]
    assert json.values("g") == [[0.25], [1.0, None]]


LATER_NESTED = {
    '{"v": 1.5}': '{"v": %s}',
    "[1.5]": "[0.25, %s]",
    '[{"w": {"v": 1.5}}]': '[{"w": {"v": 2}}, {"w": {"v": %s}}]',
}


@pytest.mark.parametrize("first", LATER_NESTED)
def test_a_later_number_inside_an_object_or_a_list_is_not_rounded(first: str, json: Taker) -> None:
    odd = ["1" * 16, "1" * 20, f"0.{'1' * 18}", "true", '"7"']
    even = ["7", "-0.25", "1.5E30", "null", "0.30000000000000004"]
    json.take(f'{{"id": "a", "ts": 1, "v": {first}}}\n')
    kind = json.kind("v")
    values = [LATER_NESTED[first] % value for value in (*odd, *even)]
    lines = [f'{{"id": "{n:02}", "ts": 1, "v": {value}}}\n' for n, value in enumerate(values)]
    result = json.take("".join(lines), bad_rows_max=20)
    assert (result.rows_set_aside, result.rows_inserted) == (len(odd), len(even))
    assert json.kind("v") == kind
    assert json.values("v")[:-1] == [loads(value) for value in values[len(odd) :]]
    (note,) = [note for note in result.notes if "set aside" in note]
    assert f"row 1 (line 1), column v: {values[0]}"[:60] in note
    records = [loads(row["record"])["v"] for row in json.quarantined()]
    assert records == [loads(value) for value in values[: len(odd)]]


def test_a_later_object_brings_new_fields_whose_numbers_are_not_rounded(json: Taker) -> None:
    json.take('{"id": "a", "ts": 1, "s": {"v": 1.5}}\n')
    json.take(f'{{"id": "b", "ts": 1, "s": {{"v": 2, "w": 0.5, "x": {"1" * 20}}}}}\n')
    assert json.values("s") == [
        {"v": 1.5, "w": None, "x": None},
        {"v": 2.0, "w": 0.5, "x": "1" * 20},
    ]
