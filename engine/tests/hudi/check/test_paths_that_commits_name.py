"""Commits and plans that name files outside of the table's folder: nothing there is read.

The files that they name are there, and sound: a reader that followed the names would notice
nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tideline.cli.main import run
from tideline.storage.location import StoreLocation
from tideline.testing.hostile_tables import notices_reads
from tideline.testing.in_time import in_time
from tideline.testing.small_table import SmallTable, batch

pytestmark = pytest.mark.usefixtures("version_6")

LONG_AGO_S = 1_000_000_000
NAMES = ("up", "absolute", "address", "other scheme", "nul", "backslash", "control folder")
COMMANDS = (
    ("list-instants",), ("list-files",), ("check",), ("plan",), ("read",),
    ("execute", "cleaning"), ("execute", "clustering"),
)  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Iterator[SmallTable]:
    """Two commits, and beside the table a copy of its first partition."""
    made = SmallTable.create(StoreLocation.of(tmp_path / "table"))
    made.write("upsert", batch(range(4), 1))
    made.write("upsert", batch(range(4), 2))
    shutil.copytree(tmp_path / "table" / "p0", tmp_path / "outside")
    for file in (tmp_path / "outside").iterdir():
        os.utime(file, (LONG_AGO_S, LONG_AGO_S + 1))
    yield made


def hostile(partition: str, name: str, folder: Path) -> str:
    """What a commit says instead of the partition p0."""
    return {
        "up": "../outside",
        "absolute": f"{folder}/outside",
        "address": f"file://{folder}/outside",
        "other scheme": "s3://bucket/p0",
        "nul": f"{partition}\0",
        "backslash": "..\\outside",
        "control folder": ".hoodie/../../outside",
    }[name]


def replaced(value: Any, old: str, new: str) -> Any:
    """The document with another partition in every key and path."""
    if isinstance(value, dict):
        return {replaced(key, old, new): replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, old, new) for item in value]
    if not isinstance(value, str):
        return value
    return new if value == old else value.replace(f"{old}/", f"{new}/")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["both", "newest"])
def test_a_partition_elsewhere_is_not_read(
    table: SmallTable, tmp_path: Path, name: str, which: str, capfd: pytest.CaptureFixture[str]
) -> None:
    commits = sorted((tmp_path / "table" / ".hoodie").glob("*.commit"))
    for commit in commits if which == "both" else commits[-1:]:
        document = json.loads(commit.read_bytes())
        commit.write_text(json.dumps(replaced(document, "p0", hostile("p0", name, tmp_path))))
    listed = sorted(path.name for path in (tmp_path / "outside").iterdir())
    for command in COMMANDS:
        code = in_time(partial(run, [*command, table.location.uri, "--json"]))
        said = "".join(capfd.readouterr())
        assert code in (0, 1, 2, 3), said
        assert "unexpected" not in said
        if command == ("check",):
            assert code == 1
            assert re.search(r"segment|control character|file group is missing", said)
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == listed
    if notices_reads(tmp_path):
        times = {candidate.stat().st_atime for candidate in (tmp_path / "outside").iterdir()}
        assert times == {LONG_AGO_S}
