"""Every way in which PyIceberg loads code by a name, opens files or makes requests, by its source.

Each was looked at, and is closed or out of reach of what a catalog or a table says. An update that
brings a new one fails here: look at it, close it in `catalog_files`, `catalog_rest`, `catalog_http`
or `catalog_sql`, and note it below.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

pyiceberg = pytest.importorskip("pyiceberg")

SOURCE = Path(pyiceberg.__file__).parent
OUT_OF_REACH = ("cli/", "avro/", "expressions/", "utils/", "view/")
"""Packages that no catalog's client calls with what it was answered."""
LOADING = {
    # Imports by name. `OwnFiles` replaces the methods that lead to the first four; the fifth is
    # called with what configuration names, and the last with a constant.
    "catalog/__init__.py:_import_catalog:import_module": 1,
    "io/__init__.py:_import_file_io:import_module": 1,
    "io/pyarrow.py:_import_retry_strategy:import_module": 1,
    "table/locations.py:_import_location_provider:import_module": 1,
    "catalog/rest/auth.py:create:import_module": 1,
    "transforms.py:_try_import:import_module": 1,
}
CALLS = {
    # The way to `_import_catalog`: PROCESS alone, in `catalog_opening`.
    "catalog/__init__.py:load_catalog:_import_catalog": 1,
    # The ways to `_import_file_io`.
    "io/__init__.py:_infer_file_io_from_scheme:_import_file_io": 1,
    "io/__init__.py:load_file_io:_import_file_io": 1,
    "catalog/__init__.py:_load_file_io:load_file_io": 1,  # replaced
    "catalog/__init__.py:purge_table:load_file_io": 1,  # Tideline purges nothing
    "catalog/rest/__init__.py:_load_file_io:load_file_io": 1,  # replaced
    "catalog/sql.py:_convert_orm_to_iceberg:load_file_io": 1,  # replaced
    "catalog/sql.py:create_table:load_file_io": 1,  # Tideline creates none
    "table/__init__.py:from_metadata:load_file_io": 2,  # StaticTable, which is not used
    "table/__init__.py:_metadata_location_from_version_hint:load_file_io": 1,  # the same
    # The ways to `_import_location_provider`.
    "table/locations.py:load_location_provider:_import_location_provider": 1,
    "catalog/__init__.py:_create_staged_table:load_location_provider": 1,  # creates a table
    "catalog/__init__.py:_update_and_stage_table:load_location_provider": 1,  # replaced
    "catalog/sql.py:create_table:load_location_provider": 1,  # creates a table
    "table/__init__.py:location_provider:load_location_provider": 1,  # of a Table that writes
    "io/pyarrow.py:write_file:load_location_provider": 1,  # the same
    # The way to programs that authenticate.
    "catalog/rest/__init__.py:_create_session:create": 1,  # replaced
    "catalog/rest/__init__.py:_create_legacy_oauth2_auth_manager:create": 1,  # replaced
    # Retries of S3, of PyIceberg's own FileIO.
    "io/pyarrow.py:_initialize_s3_fs:_import_retry_strategy": 1,
}
SESSIONS = {
    "catalog/rest/__init__.py:_create_session:Session": 1,  # replaced
    "catalog/rest/auth.py:_refresh_token:post": 1,  # of an `auth` that PROCESS configured
}
NAMES = {
    "load_file_io", "load_location_provider", "_import_file_io", "_import_catalog",
    "_import_location_provider", "_import_retry_strategy",
}  # fmt: skip
CODE = {"import_module", "__import__", "exec", "eval", "compile", "find_spec", "entry_points",
        "locate", "resolve_name", "run_module"}  # fmt: skip
CATALOGS_LOOKED_AT = ("catalog/__init__.py", "catalog/rest/", "catalog/sql.py")
"""The others: `catalog_opening` takes Hive and Glue alone, which `_load_file_io` is the way of."""


def called() -> Counter[tuple[str, str, str, str]]:
    """Calls in PyIceberg: file, function around it, what it is called on, name."""
    found: Counter[tuple[str, str, str, str]] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for function in _functions(ast.parse(path.read_text())):
            for call in _own_calls(function):
                on, _, last = ast.unparse(call.func).rpartition(".")
                found[name, getattr(function, "name", ""), on, last] += 1
    return found


def _functions(tree: ast.Module) -> list[ast.AST]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [tree, *(node for node in ast.walk(tree) if isinstance(node, kinds))]


def _own_calls(function: ast.AST) -> list[ast.Call]:
    calls: list[ast.Call] = []
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Call):
            calls.append(node)
        waiting.extend(ast.iter_child_nodes(node))
    return calls


def in_reach(name: str) -> bool:
    is_other = name.startswith("catalog/") and not name.startswith(CATALOGS_LOOKED_AT)
    return not name.startswith(OUT_OF_REACH) and not is_other


def test_code_is_loaded_by_name_where_it_was_looked_at() -> None:
    found = {
        f"{file}:{function}:{name}": count
        for (file, function, on, name), count in called().items()
        if name in CODE and (on in ("", "importlib") or on.startswith(("importlib", "pkgutil")))
    }
    assert found == LOADING


def test_what_loads_code_is_called_where_it_was_looked_at() -> None:
    found: Counter[str] = Counter()
    for (file, function, on, name), count in called().items():
        is_factory = name == "create" and on == "AuthManagerFactory"
        if ((name in NAMES and on in ("", "io", "pyiceberg.io")) or is_factory) and in_reach(file):
            found[f"{file}:{function}:{name}"] += count
    assert found == CALLS


def test_requests_are_made_where_it_was_looked_at() -> None:
    found: Counter[str] = Counter()
    for (file, function, on, name), count in called().items():
        is_session = name == "Session" and "rest" in file
        is_alone = on == "requests" and name in ("get", "post", "put", "delete", "head", "request")
        if file.startswith("catalog/rest/") and (is_session or is_alone) and on != "boto3":
            found[f"{file}:{function}:{name}"] += count
    assert found == SESSIONS


def test_catalogs_of_other_kinds_open_files_by_the_method_that_is_replaced() -> None:
    for name in ("catalog/hive.py", "catalog/glue.py"):
        calls = {last for (file, _, _, last) in called() if file == name}
        assert "_load_file_io" in calls
        assert calls.isdisjoint(NAMES)
