"""Which engine answers queries of commands, as far as it is known before anything is loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, version

from tideline.sql import DUCKDB_MAJOR_MIN

DUCKDB, SPARK = "duckdb", "spark"
_QUERYING = ("read", "sql")


def default_engine() -> str:
    """DuckDB where a release that will do is installed."""
    try:
        found = int(version("duckdb").partition(".")[0])
    except PackageNotFoundError:
        return SPARK
    return DUCKDB if found >= DUCKDB_MAJOR_MIN else SPARK


def spare_pandas(arguments: Sequence[str]) -> None:
    """Keep a command that makes no frame of pandas from loading it, for the rest of the process.

    pyarrow loads it with its first array, where it is installed: a fifth of the time that a query
    takes. Spark needs it.
    """
    names_spark = any(argument.endswith(SPARK) for argument in arguments)
    is_query = bool(arguments[:1]) and arguments[0] in _QUERYING
    if is_query and not names_spark and default_engine() == DUCKDB:
        sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002
        if fullname == "pandas":
            raise ModuleNotFoundError("this command does without pandas", name=fullname)
