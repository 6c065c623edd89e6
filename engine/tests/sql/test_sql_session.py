"""Queries over rows in DuckDB: exact, pruned, and shut in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.errors import ConfigError, CorruptTableError
from tideline.formats.row_dataset import RowDataset
from tideline.sql.session import SqlSession

_NAN = float("nan")
_DAYS = [dt.date(2020, 1, 1), dt.date(2021, 1, 1), None, dt.date(1969, 1, 1)]
_MOMENTS = [day and dt.datetime(day.year, 1, 1, 10, 30) for day in _DAYS]
_ROWS = pa.table(
    {
        "whole": [1, 2, None, 4],
        "tiny": pa.array([1, 200, None, 3], pa.uint8()),
        "real": [1.0, _NAN, None, -0.0],
        "single": pa.array([_NAN, 1.5, None, 0.0], pa.float32()),
        "text": ["a", "b", None, "é"],
        "bytes": [b"a", b"\xff\x00", None, b""],
        "fixed": pa.array([b"0123456789abcdef", None, None, b"x" * 16], pa.binary(16)),
        "moment": pa.array(_MOMENTS, pa.timestamp("us")),
        "moment_ms": pa.array(_MOMENTS, pa.timestamp("ms")),
        "moment_ns": pa.array(_MOMENTS, pa.timestamp("ns")),
        "moment_utc": pa.array(_MOMENTS, pa.timestamp("us", "UTC")),
        "day": _DAYS,
        "clock": pa.array([dt.time(1, 2), None, None, dt.time(3)], pa.time64("us")),
        "money": pa.array(
            [Decimal("1.10"), Decimal("-2.20"), None, Decimal(0)], pa.decimal128(10, 2)
        ),
        "large": pa.array([Decimal(10**30), Decimal(-1), None, Decimal(0)], pa.decimal128(38, 0)),
        "flag": [True, False, None, True],
        "parts": [
            {"a": 1, "b": {"c": "x"}},
            {"a": 2, "b": None},
            None,
            {"a": None, "b": {"c": "y"}},
        ],
        "many": [[1, 2], [], None, [None]],
        "pairs": pa.array([[("a", 1)], [], None, [("b", None)]], pa.map_(pa.string(), pa.int32())),
        "word": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "nothing": pa.nulls(4),
    }
)
_VALUES = {
    "whole": ["1", "2", "4", "null", "1.5"],
    "tiny": ["1", "200"],
    "real": ["0", "1", "'nan'::double", "null"],
    "single": ["0", "1.5", "'nan'::float"],
    "text": ["'a'", "'b'", "''", "'é'", "null"],
    "bytes": ["'a'::blob", "''::blob"],
    "fixed": ["'0123456789abcdef'::blob"],
    "moment": ["'2020-06-01'", "'2020-01-01 10:30:00'", "date '1969-01-01'"],
    "moment_ms": ["'2020-06-01'", "'2020-01-01 10:30:00'"],
    "moment_ns": ["'2020-06-01'::timestamp_ns", "'2020-01-01 10:30:00'"],
    "moment_utc": ["'2020-06-01'", "'2020-01-01 12:30:00+02'"],
    "day": ["'2020-01-01'", "'1970-01-01'"],
    "clock": ["'02:00'", "'03:00'"],
    "money": ["1", "1.1", "-2.2", "0"],
    "large": ["0", "1000000000000000000000000000000"],
    "flag": ["true", "false"],
    "parts.a": ["1", "2", "null"],
    "parts.b.c": ["'x'", "'y'"],
    "many": ["[1, 2]", "[]"],
    "pairs['a']": ["1"],
    "word": ["'a'", "'c'"],
    "nothing": ["1", "null"],
}


@st.composite
def _comparisons(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(_VALUES)))
    values = st.sampled_from(_VALUES[column])
    operators = ["=", "<>", "<", "<=", ">", ">=", "is distinct from", "in", "not in", "null"]
    operator = draw(st.sampled_from(operators))
    if operator == "null":
        return f"{column} is {draw(st.sampled_from(['null', 'not null']))}"
    if operator.endswith("in"):
        return f"{column} {operator} ({', '.join(draw(st.lists(values, min_size=1, max_size=4)))})"
    return f"{column} {operator} {draw(values)}"


_CONDITIONS = st.recursive(
    _comparisons(),
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=4,
)


class _Asked:
    """Rows in memory as a Dataset that remembers what it was asked for."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.columns: list[list[str]] = []
        self.filters: list[str] = []

    @property
    def dataset(self) -> RowDataset:
        return RowDataset(self.rows.schema, self._open)

    def _open(self, columns: Any, condition: Any, _: int | None) -> pa.RecordBatchReader:
        self.columns.append(list(columns))
        self.filters.append(str(condition))
        found = self.rows if condition is None else self.rows.filter(condition)
        return found.select(columns).to_reader(max_chunksize=2)


def _answer(session: SqlSession, query: str) -> Any:
    (rows,) = (answer.first_rows(None) for answer in session.run(query))
    return rows.rows


@pytest.fixture(scope="module")
def both() -> Iterator[SqlSession]:
    """The rows as a Dataset, `handed`, and as a table of DuckDB's own, `owned`."""
    with SqlSession() as session:
        session.add("handed", _Asked(_ROWS).dataset)
        assert not list(session.run("create table owned as select * from handed"))
        yield session


@settings(max_examples=200, deadline=None)
@given(condition=_CONDITIONS)
def test_what_is_handed_to_the_reader_selects_what_duckdb_itself_selects(
    both: SqlSession, condition: str
) -> None:
    query = "select text, whole from {} where " + condition
    assert _answer(both, query.format("handed")) == _answer(both, query.format("owned"))


def test_columns_and_filters_go_to_the_reader() -> None:
    asked = _Asked(_ROWS)
    with SqlSession() as session:
        session.add("t", asked.dataset)
        rows = _answer(session, "select text from t where whole > 1 and text like '%b%'")
    assert rows == (("b",),)
    assert asked.columns == [["text"]]
    assert asked.filters == ["(whole > 1)"]


def test_each_use_of_a_table_reads_it_for_itself() -> None:
    asked = _Asked(_ROWS)
    with SqlSession() as session:
        session.add("t", asked.dataset)
        session.add("other", _ROWS.select(["whole"]))
        query = """
            select count(*) from t a join t b on a.text = b.text join other on other.whole = a.whole
        """
        assert _answer(session, query) == ((3,),)
    assert len(asked.columns) == 2


def test_values_of_every_type_come_back_as_they_are() -> None:
    with SqlSession() as session:
        session.add("t", _Asked(_ROWS.drop_columns(["real", "single"])).dataset)
        rows = _answer(session, "select * from t")
    assert rows == tuple(
        tuple(row[name] for name in row)
        for row in _ROWS.drop_columns(["real", "single"]).to_pylist()
    )


def test_types_that_only_queries_have_are_shown_rightly() -> None:
    query = """
        select sum(whole), 170141183460469231731687303715884105727::hugeint,
            '340282366920938463463374607431768211455'::uhugeint, '101'::bit,
            '10:00:00+02'::timetz, '1234567890123456789012345678901234567890123'::bignum
        from t
    """
    with SqlSession() as session:
        session.add("t", _ROWS)
        (row,) = _answer(session, query)
    assert row[0] == 7
    assert isinstance(row[0], int)
    assert row[1] == 2**127 - 1
    assert row[2:] == (
        str(2**128 - 1),
        "101",
        "10:00:00+02",
        "1234567890123456789012345678901234567890123",
    )


@pytest.mark.parametrize(
    "query",
    [
        "select * from '{file}'",
        "select * from read_csv('{file}')",
        "select * from read_text('{file}')",
        "select * from read_blob('{file}')",
        "select * from glob('{folder}/*')",
        "select * from sniff_csv('{file}')",
        "select * from query('select * from ''{file}''')",
        "select * from query_table('{file}')",
        "select * from json_execute_serialized_sql(json_serialize_sql('from ''{file}'''))",
        "select * from read_json('http://127.0.0.1:9/x.json')",
        "copy t to '{folder}/new.csv'",
        "explain analyze copy t to '{folder}/new.csv'",
        "export database '{folder}/new'",
        "import database '{folder}'",
        "attach '{folder}/new.db'",
        "install httpfs",
        "load httpfs",
        "load '{file}'",
        "set enable_external_access = true",
        "reset enable_external_access",
        "set lock_configuration = false",
        "set python_enable_replacements = true; select * from _ROWS",
        "set temp_directory = '{folder}'",
        "set profiling_output = '{folder}/new.json'",
        "call enable_logging(storage = 'file', storage_path = '{folder}/new')",
        "select * from enable_profiling(save_location = '{folder}/new.json')",
        "create secret s (type s3)",
        "select * from _ROWS",
        "select getenv('HOME')",
        "select * from pandas_scan(1)",
        "select * from arrow_scan(1, 2, 3)",
    ],
)
def test_a_query_reaches_nothing_but_the_tables(query: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\nsecret,2\n")
    with SqlSession() as session:
        session.add("t", _ROWS)
        with pytest.raises(ConfigError, match="DuckDB refuses the query"):
            for answer in session.run(query.format(file=file, folder=tmp_path)):
                answer.first_rows(None)
        assert _answer(session, "select count(*) from t") == ((4,),)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_without_the_lock_these_queries_do_reach_files(tmp_path: Path) -> None:
    # The control of the test above: the same DuckDB, not shut in, reads the file.
    file = tmp_path / "secret.csv"
    file.write_text("a,b\nsecret,2\n")
    found = duckdb.sql(f"select a from '{file}'")
    assert found is not None
    assert found.fetchall() == [("secret",)]


def test_several_statements_give_an_answer_each_and_what_they_create_stays_here() -> None:
    with SqlSession() as session:
        session.add("t", _ROWS)
        text = "create view v as select whole from t where flag; from v;"
        pivot = "pivot v on whole using count(*)"
        answers = [answer.first_rows(None) for answer in session.run(text + pivot)]
    assert [answer.columns for answer in answers] == [("whole",), ("1", "4")]


def test_an_error_of_a_read_comes_as_it_was_raised() -> None:
    def broken(columns: Any, *_: Any) -> pa.RecordBatchReader:
        def rows() -> Any:
            raise CorruptTableError("a file is broken", path="x.parquet")
            yield

        return pa.RecordBatchReader.from_batches(_ROWS.select(columns).schema, rows())

    with SqlSession() as session:
        session.add("t", RowDataset(_ROWS.schema, broken))
        with pytest.raises(CorruptTableError, match=r"x\.parquet"):
            _answer(session, "select text from t")


@pytest.mark.parametrize("name", ["", "a b", "1a", 'x"; drop'])
def test_a_name_that_is_no_word_is_refused(name: str) -> None:
    with SqlSession() as session, pytest.raises(ConfigError, match="a word"):
        session.add(name, _ROWS)
