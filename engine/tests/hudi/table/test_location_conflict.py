"""No table inside, around or at another; one place has many spellings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.hudi.table.location_conflict import find_table_conflict
from tideline.lake_table import LakeTable
from tideline.storage.local.store import LocalStore
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectInfo, ObjectStore


def create(folder: Path) -> LakeTable:
    return LakeTable.create(str(folder), record_key=["id"])


def put(folder: Path, path: str) -> None:
    LocalStore(str(folder)).put(path, b"{}")


@pytest.mark.parametrize("below", ["inner", "a/b/inner"])
def test_a_table_inside_a_hudi_table_is_refused(tmp_path: Path, below: str) -> None:
    create(tmp_path / "t")
    with pytest.raises(ConfigError, match=r"inside the Hudi table at file:///.*/t;") as refused:
        create(tmp_path / "t" / below)
    assert refused.value.table == f"file://{tmp_path}/t/{below}"
    assert not (tmp_path / "t" / below).exists()


def test_a_table_around_a_hudi_table_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "t" / "a" / "inner")
    with pytest.raises(ConfigError, match=r"around the Hudi table at file:///.*/t/a/inner;"):
        create(tmp_path / "t")
    create(tmp_path / "t" / "a" / "sibling")


@pytest.mark.parametrize(
    ("place", "words"),
    [("t/a", "inside the {} table at"), ("t", "that of an? {}"), ("", "around the {}")],
)
@pytest.mark.parametrize(
    ("kind", "mark"),
    [("Iceberg", "metadata/v1.metadata.json"), ("Delta", "_delta_log/00000000000000000000.json")],
)
def test_a_table_of_another_format_counts_as_one(
    tmp_path: Path, place: str, words: str, kind: str, mark: str
) -> None:
    put(tmp_path / "t", mark)
    words = words.format(kind)
    with pytest.raises(ConfigError, match=words):
        create(tmp_path / place)


def test_a_link_hides_no_table(tmp_path: Path) -> None:
    create(tmp_path / "t")
    (tmp_path / "t" / "folder").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "t" / "folder")
    with pytest.raises(ConfigError, match="inside the Hudi table"):
        create(tmp_path / "alias")


def test_other_files_are_no_table(tmp_path: Path) -> None:
    for path in ("metadata/readme.json", "t/metadata/snap.avro", ".hoodie_partition_metadata"):
        put(tmp_path, path)
    create(tmp_path / "t")


def test_versions_behind_a_thousand_manifests_are_seen(tmp_path: Path) -> None:
    put(tmp_path / "t", "metadata/version-hint.text")
    for number in range(1_001):
        put(tmp_path / "t", f"metadata/{number:05}-m0.avro")
    put(tmp_path / "t", "metadata/v1.metadata.json")
    with pytest.raises(ConfigError, match="inside the Iceberg table at"):
        create(tmp_path / "t" / "data")


def test_folders_above_that_may_not_be_read_count_as_no_table(tmp_path: Path) -> None:
    location = StoreLocation.of(tmp_path / "t" / "people")

    def open_below(at: StoreLocation) -> ObjectStore:
        if at != location:
            return _Refusing(at)
        return at.open()

    create(tmp_path / "t")
    assert find_table_conflict(location) is not None
    assert find_table_conflict(location, open_below) is None


class _Refusing(LocalStore):
    """A place that these credentials may not read."""

    def __init__(self, at: StoreLocation) -> None:
        super().__init__(at.uri.removeprefix("file://"))

    def head(self, path: str) -> ObjectInfo | None:
        raise StorageUnavailableError("access denied", path=path)
