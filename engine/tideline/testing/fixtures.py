"""Real tables written by other engines, for tests: unpacked once a session, never changed.

They lie next to the repository in `../shared/fixtures`, as archives with the answers readers must
give in `expected.json`. A test that needs them is skipped where they are absent: what it claims of
tables of Hudi's is then proven on those that Hudi makes here (`stand_in_tables`). Copy a table
before writing to it.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FIXTURES = Path(__file__).resolve().parents[4] / "shared" / "fixtures"


def fixture_table(table_path: str) -> Path:
    """The unpacked folder of a table, named as in `expected.json`: `<fixture>/data/<table>`."""
    folder = _unpacked(table_path.partition("/")[0]).joinpath(*table_path.split("/")[1:])
    if not folder.is_dir():
        raise FileNotFoundError(f"the fixture has no folder {table_path}")
    return folder


def expected(table_path: str) -> dict[str, Any]:
    """What `expected.json` says of a table: version, type, keys, rows and their digest."""
    entry: dict[str, Any] = all_expected()[table_path]
    return entry


@cache
def all_expected() -> dict[str, Any]:
    """Every entry of `expected.json`, by table."""
    require_fixtures()
    content = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))
    tables: dict[str, Any] = content["tables"]
    return tables


def tables_of_versions(*versions: str) -> list[str]:
    """The Hudi tables of these versions that have rows to compare with; none without fixtures."""
    if not FIXTURES.is_dir():
        return []
    return [
        path
        for path, entry in all_expected().items()
        if entry.get("format") == "hudi"
        and entry.get("table_version") in versions
        and "core-testdata" not in path
    ]


@cache
def canonical_rows() -> ModuleType:
    """The module next to the fixtures that says how rows are digested."""
    require_fixtures()
    spec = importlib.util.spec_from_file_location("canonical_rows", FIXTURES / "canonical_rows.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def require_fixtures() -> None:
    """Skip the running test where there are no fixtures."""
    if not FIXTURES.is_dir():
        pytest.skip(
            "tables of other makers are missing: no ../shared/fixtures next to the repository"
        )


@cache
def _unpacked(fixture: str) -> Path:
    require_fixtures()
    with tarfile.open(FIXTURES / "tables" / f"{fixture}.tar.xz") as archive:
        # Debian 12's Python has no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(_cache_folder())
    return _cache_folder() / fixture


@cache
def _cache_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tideline-fixtures-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
