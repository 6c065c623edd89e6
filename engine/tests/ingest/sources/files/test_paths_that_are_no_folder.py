"""A source's path that is a file, a pattern of names or a table: said at the first look, not waited
for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.hudi.table.location_conflict import find_table_around
from tideline.ingest.proposal.places import landing_location
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.ingest.sources.files.named_files import find_sources
from tideline.storage.location import StoreLocation


def exists(path: Path) -> bool:
    return list_arrived(StoreLocation.of(path).open(), FileFormat.CSV).exists


def test_a_file_and_a_pattern_are_refused_and_a_folder_may_come_later(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id\n1\n")
    with pytest.raises(ConfigError, match="a source's path is a folder, and this is a file"):
        exists(tmp_path / "1.csv")
    for pattern in ("*.csv", "landing/[0-9].csv", "?.csv"):
        with pytest.raises(ConfigError, match="a source's path has no patterns"):
            exists(tmp_path / pattern)
    (tmp_path / "odd*name").mkdir()
    assert exists(tmp_path / "odd*name")
    assert not exists(tmp_path / "later")
    with pytest.raises(ConfigError, match="this is a file: name the folder that it is in"):
        landing_location(str(tmp_path / "1.csv"), {})


@pytest.mark.parametrize(
    ("mark", "kind"),
    [
        (".hoodie/hoodie.properties", "Hudi"),
        ("metadata/v1.metadata.json", "Iceberg"),
        ("_delta_log/00000000000000000000.json", "Delta"),
    ],
)
def test_a_table_is_refused_and_one_below_is_left_alone(
    tmp_path: Path, mark: str, kind: str
) -> None:
    for path in ("a.parquet", "inner/day=1/b.parquet", f"inner/{mark}"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    found = list_arrived(StoreLocation.of(tmp_path).open(), FileFormat.PARQUET)
    assert [file.path for file in found.files] == ["a.parquet"]
    assert found.describe_others() == f"left alone what is in the {kind} table inner/"
    inner = StoreLocation.of(tmp_path / "inner").open()
    with pytest.raises(ConfigError, match=rf"that of a table \({kind}\), whose files"):
        list_arrived(inner, FileFormat.PARQUET)
    assert list_arrived(inner, FileFormat.CSV).files == ()
    assert find_table_around(StoreLocation.of(tmp_path / "inner" / "day=1")) == (
        f"the {kind} table at file://{tmp_path}/inner"
    )
    assert find_sources(StoreLocation.of(tmp_path / "inner" / "day=1" / "b.parquet")).paths
    for folder, words in (
        ("inner", f"this is a {kind} table's"),
        ("", f"is the {kind} table inne"),
    ):
        with pytest.raises(ConfigError, match=words):
            find_sources(StoreLocation.of(tmp_path / folder))
