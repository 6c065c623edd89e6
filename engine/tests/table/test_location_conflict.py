"""No table inside, around or at another; one place has many spellings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.lake_table import LakeTable
from tideline.storage.local import LocalStore
from tideline.storage.location import StoreLocation
from tideline.table.location_conflict import Relation, relation

MINIO = {"endpoint": "http://minio.store.svc:9000", "allow_http": "true"}


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
    create(tmp_path / "t" / "a" / "beside")


@pytest.mark.parametrize(
    ("place", "words"),
    [("t/a", "inside the Iceberg table at"), ("t", "that of an Iceberg"), ("", "around the Ice")],
)
def test_an_iceberg_table_counts_as_one(tmp_path: Path, place: str, words: str) -> None:
    put(tmp_path / "t", "metadata/v1.metadata.json")
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


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("s3://b/t", {}), ("s3a://b/t/", {}), Relation.SAME),
        (("s3://b/t/x", {}), ("s3://b/t", {}), Relation.INSIDE),
        (("s3://b", {}), ("s3://b/t", {}), Relation.AROUND),
        (("s3://b/t2", {}), ("s3://b/t", {}), None),
        (("s3://b/t", MINIO), ("s3://b/t", {}), None),
        (
            ("s3://b/t", MINIO),
            ("s3://b/t/in", {"endpoint": "https://MINIO.store.svc.cluster.local:9000/"}),
            Relation.AROUND,
        ),
        (
            ("s3://b/t", {"endpoint": "https://s3.eu-west-1.amazonaws.com"}),
            ("s3://b/t", {"region": "us-east-1"}),
            Relation.SAME,
        ),
        (
            ("s3://b/t", {"endpoint": "https://b.host", "path_style": "false"}),
            ("s3://b/t", {"endpoint": "https://host:443"}),
            Relation.SAME,
        ),
        (("/a/t", {}), ("file:///a/./t/landing", {}), Relation.AROUND),
        (("/a/t", {}), ("memory://a/t", {}), None),
    ],
)
def test_locations_are_compared_by_what_they_reach(
    one: tuple[str, dict[str, str]],
    other: tuple[str, dict[str, str]],
    expected: Relation | None,
) -> None:
    found = relation(StoreLocation.of(*one), StoreLocation.of(*other))
    assert found is expected
