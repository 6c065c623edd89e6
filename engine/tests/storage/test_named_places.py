"""Which of the locations that a table names are read."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.storage.named_places import SETTING, NamedPlaces, declared_places, is_declared

REMOTE = "s3://lake/sales/orders"
LOCAL = "file:///data/warehouse/orders"
IN_MEMORY = "memory://lake/orders"


@pytest.mark.parametrize(
    ("own", "uri", "root"),
    [
        (REMOTE, "s3://lake/sales/orders/data/a", REMOTE),
        (REMOTE, "s3a://lake/sales/orders", REMOTE),
        (REMOTE, "S3N://lake/sales/orders/", REMOTE),
        (REMOTE, "s3://lake/spread/0101/a", "s3://lake"),
        (REMOTE, "s3://lake", "s3://lake"),
        (REMOTE, "s3://lake2/a", None),
        (REMOTE, "s3://other/sales/orders/data/a", None),
        (REMOTE, "file:///dev/zero", None),
        (REMOTE, "/etc/passwd", None),
        (REMOTE, "FILE:/proc/self/environ", None),
        (REMOTE, "memory://lake/a", None),
        (REMOTE, "http://169.254.169.254/latest", None),
        (REMOTE, "s3://lake/sales/orders/../../x", None),
        (LOCAL, "/data/warehouse/orders/data/a", LOCAL),
        (LOCAL, "file:/data//warehouse/orders/data/a", LOCAL),
        (LOCAL, "file:///data/warehouse/orders2/a", None),
        (LOCAL, "file:///data/warehouse", None),
        (LOCAL, "file:///data/warehouse/orders/../../x", None),
        (LOCAL, "s3://lake/a", None),
        (IN_MEMORY, "memory://lake/else/a", "memory://lake"),
        (IN_MEMORY, "memory://other/a", None),
    ],
)
def test_a_table_names_its_own_place_and_its_bucket(own: str, uri: str, root: str | None) -> None:
    assert NamedPlaces.of(own, ()).root_of(uri) == root


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("s3://archive/orders/2020/a", "s3://archive/orders"),
        ("s3a://archive/orders/deep/b", "s3://archive/orders/deep"),
        ("s3://archive/ordersx", None),
        ("s3://archive", None),
        ("s3://archive/orders/../x", None),
        ("file:/mnt/old/a", "file:///mnt/old"),
        ("file:/mnt/old/../x", None),
        ("file:/mnt/older/a", None),
    ],
)
def test_what_configuration_declares_is_read_as_well(uri: str, root: str | None) -> None:
    declared = ("s3a://archive/orders/", "s3://archive/orders/deep", "/mnt/old")
    assert NamedPlaces.of(REMOTE, declared).root_of(uri) == root


def test_the_setting_lists_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, " s3a://archive/orders/ ,/mnt/old files,, file:/data ")
    places = ("s3://archive/orders", "file:///mnt/old files", "file:///data")
    assert declared_places() == places
    assert is_declared("/data/x")
    assert not is_declared("/data/../x")
    assert not is_declared("/database")
    monkeypatch.delenv(SETTING)
    assert declared_places() == ()
    assert not is_declared("/data/x")


@pytest.mark.parametrize("text", ["data", "s3://", "http://host/x", "hdfs://host/x", "/a/../b"])
def test_a_setting_that_is_no_location_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, f"s3://sound/x,{text}")
    with pytest.raises(ConfigError, match=SETTING):
        declared_places()
