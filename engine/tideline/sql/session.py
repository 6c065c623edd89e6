"""Queries over rows of tables, answered by DuckDB in this process, without Spark.

DuckDB asks each table for the columns and the filter that a query needs (`RowDataset`): files and
row groups that cannot hold such rows are not read. What it cannot hand over it evaluates itself.

A query may come from anybody. It sees the tables that were added and nothing else: no file, no
network, no extension that is not built in, no variable of this program; settings are locked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from tideline.distribution import installation
from tideline.errors import ConfigError, TidelineError
from tideline.formats.column_choice import NO_COLUMNS
from tideline.formats.row_dataset import RowDataset
from tideline.sql import DUCKDB_MAJOR_MIN
from tideline.sql.answer import Answer

try:
    import duckdb
except ImportError as _error:
    raise ConfigError(f"DuckDB is not installed: {installation('sql')}") from _error

_LOCKED = {
    "TimeZone": "'UTC'",
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "lock_configuration": "true",
}
"""Set in this order; the last one makes them final."""
_NAME = re.compile(r"[^\W\d]\w*")
_PREFIX = re.compile(r"^(?:\w+ Error: )+")


class SqlSession:
    """Tables by name, and the answers to queries over them. Close it, or use it in a `with`.

    `advice` ends the messages about queries that are refused.
    """

    def __init__(self, advice: str = "") -> None:
        if int(duckdb.__version__.partition(".")[0]) < DUCKDB_MAJOR_MIN:
            raise ConfigError(
                f"DuckDB is older than {DUCKDB_MAJOR_MIN}.0: {installation('sql')}",
                value=duckdb.__version__,
            )
        self._advice = advice
        self._scratch = TemporaryDirectory(prefix="tideline-sql-")
        # Without replacements: they would make tables of this program's variables.
        self._duckdb = duckdb.connect(config={"python_enable_replacements": False})
        # Where large sorts and joins go: DuckDB's own default is a folder where the program runs.
        self._duckdb.execute(f"set temp_directory = '{self._scratch.name}'")
        for name, value in _LOCKED.items():
            self._duckdb.execute(f"set {name} = {value}")
        self._tables: dict[str, RowDataset | pa.Table] = {}

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free what the session holds; answers that were not read are gone."""
        self._duckdb.close()
        self._scratch.cleanup()

    def add(self, name: str, rows: RowDataset | pa.Table) -> None:
        """Let queries name these rows; another table of the name is replaced.

        Raises ConfigError for a name that SQL could not say without quotes, and for columns whose
        names DuckDB cannot tell apart.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError("a table's name in SQL is a word", value=name)
        if not rows.schema.names:
            raise ConfigError(NO_COLUMNS, value=name)
        self._duckdb.register(name, rows)
        self._tables[name] = rows

    def run(self, text: str) -> Iterator[Answer]:
        """The answers to the statements of a text, one after another, each to be read before the
        next. Statements without one, such as CREATE VIEW, give none.

        Raises ConfigError for what DuckDB refuses or cannot compute, and what reading the tables
        raises.
        """
        with self._explained(text):
            statements = self._duckdb.extract_statements(text)
        for statement in statements:
            explained = partial(self._explained, statement.query)
            with explained():
                # Reads no rows yet, unless the statement is of another kind than a query.
                relation = self._duckdb.sql(statement.query)
                gives_rows = relation is not None and _gives_rows(statement)
            if gives_rows:
                yield Answer(relation, explained)

    @contextmanager
    def _explained(self, query: str) -> Iterator[None]:
        """Errors of DuckDB as ours; what a table's read raised comes as it was raised."""
        try:
            yield
        except (duckdb.InternalException, duckdb.FatalException):
            raise
        except duckdb.Error as error:
            for rows in self._tables.values():
                failure = getattr(rows, "failure", None)
                if isinstance(failure, TidelineError):
                    raise failure from error
            reason = _PREFIX.sub("", str(error)).partition("\n")[0].strip()
            if "Table with name" in reason:
                reason = f"{reason} There are {', '.join(self._tables)}"
            message = f"DuckDB refuses the query: {reason}{self._advice}"
            raise ConfigError(message, value=query.strip()) from error


def _gives_rows(statement: Any) -> bool:
    kinds = set(statement.expected_result_type)
    is_query = kinds == {duckdb.ExpectedResultType.QUERY_RESULT}
    # PIVOT is made of several statements.
    return is_query or statement.type == duckdb.StatementType.MULTI
