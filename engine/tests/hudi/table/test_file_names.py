"""Names of base and log files, parsed and spelled back."""

from __future__ import annotations

import pytest

from tideline.hudi.table.file_group import BaseFile, FileGroupId, LogFile, join_path, split_path
from tideline.hudi.timeline.instant_time import InstantTime

UUID = "5023772b-1fc6-4d7b-a563-21257d92e366"


@pytest.mark.parametrize(
    "name",
    [
        f"{UUID}-0_0-121-135_20250922132151286.parquet",
        f"{UUID}-12_3-0-7_20220101010101.parquet",
        f"{UUID}_1-2-3_00000000000001.orc",
        "00000007-1fc6-4d7b-a563-21257d92e366-0_0-1-2_20250922132151286.parquet",
    ],
)
def test_a_base_file_name_is_spelled_as_it_was_read(name: str) -> None:
    base_file = BaseFile.parse("p=1/q", name, 7)
    assert base_file is not None
    assert base_file.name == name
    assert base_file.path == f"p=1/q/{name}"
    assert base_file.size_bytes == 7


def test_a_base_file_has_group_token_and_instant() -> None:
    base_file = BaseFile.parse("", f"{UUID}-0_0-121-135_20250922132151286.parquet")
    assert base_file is not None
    assert base_file.group == FileGroupId("", f"{UUID}-0")
    assert base_file.write_token == "0-121-135"
    assert base_file.instant == InstantTime("20250922132151286")
    assert base_file.path == base_file.name
    assert base_file.extension == "parquet"


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        ".hoodie_partition_metadata.parquet",
        "_SUCCESS",
        "part-00000-1fc6.snappy.parquet",
        f"{UUID}-0_0-121-135_20250922132151286.parquet.crc",
        f".{UUID}-0_0-121-135_20250922132151286.parquet.crc",
        f"{UUID}-0_0-121-135_2025.parquet",
        f"{UUID}-0_20250922132151286.parquet",
        f"{UUID}-0_0-121-135_20250922132151286",
        f"{UUID}-0_0-121-135_20250922132151286.csv",
        "a_b_c_20250922132151286.parquet",
        "",
    ],
)
def test_other_names_are_no_base_files(name: str) -> None:
    assert BaseFile.parse("p", name) is None


@pytest.mark.parametrize(
    ("name", "version", "token", "is_cdc"),
    [
        (f".{UUID}-0_20250922132151286.log.1_0-121-135", 1, "0-121-135", False),
        (f".{UUID}-0_20250922132151286.log.12_1-0-1", 12, "1-0-1", False),
        (f".{UUID}-0_20250922132151286.log.2_0-1-2.cdc", 2, "0-1-2", True),
        (f".{UUID}-0_20190922132151.log.3", 3, "", False),
        (".files-0000-0_00000000000000010.log.1_0-0-0", 1, "0-0-0", False),
    ],
)
def test_a_log_file_name_is_spelled_as_it_was_read(
    name: str, version: int, token: str, is_cdc: bool
) -> None:
    log = LogFile.parse("2023/01", name, 9)
    assert log is not None
    assert (log.version, log.write_token, log.is_cdc) == (version, token, is_cdc)
    assert log.name == name
    assert log.path == f"2023/01/{name}"
    assert log.size_bytes == 9


@pytest.mark.parametrize(
    "name",
    [
        f"..{UUID}-0_20250922132151286.log.1_0-121-135.crc",
        f".{UUID}-0_20250922132151286.log.1_0-121-135.crc",
        f"{UUID}-0_20250922132151286.log.1_0-121-135",
        f".{UUID}-0_20250922.log.1_0-121-135",
        f".{UUID}-0_20250922132151286.log.x",
        ".hoodie_partition_metadata",
        ".DS_Store",
    ],
)
def test_other_names_are_no_log_files(name: str) -> None:
    assert LogFile.parse("p", name) is None


@pytest.mark.parametrize("path", ["a", "p/a", "p=1/q=2/a", "2024-01-05 18%3A00/ä/a"])
def test_paths_split_and_join(path: str) -> None:
    assert join_path(*split_path(path)) == path
