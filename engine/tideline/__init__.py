"""Tideline: keeps Apache Hudi and Apache Iceberg tables healthy.

What people hold is here: `create` and `open` a table, a `spark_session` to write and read
with, `register` the Spark data source, `LakeTable` itself, and `errors`. Names load on first use,
so `import tideline` alone brings in neither Spark nor Arrow nor the Kubernetes client: work that
moves no rows runs without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tideline import errors

if TYPE_CHECKING:
    from tideline.commit_report import CommitReport
    from tideline.lake_table import LakeTable
    from tideline.spark.read.data_source import register
    from tideline.spark.session.spark_session import spark_session

    __version__: str
    create = LakeTable.create
    open = LakeTable.open

__all__ = [
    "CommitReport",
    "LakeTable",
    "__version__",
    "create",
    "errors",
    "open",
    "register",
    "spark_session",
]

_LOADED_ON_FIRST_USE = {
    "CommitReport": ("tideline.commit_report", "CommitReport"),
    "LakeTable": ("tideline.lake_table", "LakeTable"),
    "create": ("tideline.lake_table", "LakeTable.create"),
    "open": ("tideline.lake_table", "LakeTable.open"),
    "register": ("tideline.spark.read.data_source", "register"),
    "spark_session": ("tideline.spark.session.spark_session", "spark_session"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("tideline")
    if name not in _LOADED_ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module_name, path = _LOADED_ON_FIRST_USE[name]
    found: Any = import_module(module_name)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    return found


def __dir__() -> list[str]:
    return __all__
