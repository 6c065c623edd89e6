"""Avro containers: plans and service metadata, of Hudi and of ours."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import CorruptTableError
from tideline.formats.avro import decode_container, encode_container, schema
from tideline.testing.fixtures import fixture_table

MOR = "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor"
ROLLBACK = "hudi-rs.mor-parquet.v6_nonpartitioned_rollback/data/v6_nonpartitioned_rollback"
OVERWRITE = (
    "hudi-rs.mor-parquet.v6_simplekeygen_nonhivestyle_overwritetable/"
    "data/v6_simplekeygen_nonhivestyle_overwritetable"
)
V9 = "hudi-upgrade.mor-tables.hudi-v9-table-mor/data/hudi-v9-table-mor"

REAL_FILES = [
    (MOR, "20250922132207268.clean.requested", "HoodieCleanerPlan"),
    (MOR, "20250922132207268.clean", "HoodieCleanMetadata"),
    (MOR, "20250922132201931.compaction.requested", "HoodieCompactionPlan"),
    (MOR, "20250922132203239.replacecommit.requested", "HoodieRequestedReplaceMetadata"),
    (ROLLBACK, "20250126040936578.rollback.requested", "HoodieRollbackPlan"),
    (ROLLBACK, "20250126040936578.rollback", "HoodieRollbackMetadata"),
    (OVERWRITE, "20250121000702475.replacecommit.requested", "HoodieRequestedReplaceMetadata"),
    (V9, "timeline/20250922140633376.clean.requested", "HoodieCleanerPlan"),
    (V9, "timeline/20250922140633376_20250922140634283.clean", "HoodieCleanMetadata"),
]
NAMES = sorted({name for _, _, name in REAL_FILES} | {"HoodieSavepointMetadata"})


def real(table: str, file: str) -> bytes:
    return (fixture_table(table) / ".hoodie" / file).read_bytes()


def includes(whole: Any, part: Any) -> bool:
    """Whether `part` is `whole` but for fields that only newer Hudi versions have."""
    if isinstance(part, dict):
        return all(includes(whole[key], item) for key, item in part.items())
    if isinstance(part, list):
        return all(map(includes, whole, part)) and len(whole) == len(part)
    return bool(whole == part)


def without_docs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_docs(item) for key, item in value.items() if key != "doc"}
    return [without_docs(item) for item in value] if isinstance(value, list) else value


def written_schema(body: bytes) -> Any:
    return json.loads(fastavro.reader(io.BytesIO(body)).metadata["avro.schema"])


@pytest.mark.fixtures
@pytest.mark.parametrize(("table", "file", "name"), REAL_FILES)
def test_a_real_file_decodes_and_encodes_to_the_same_record(
    table: str, file: str, name: str
) -> None:
    body = real(table, file)
    record = decode_container(body, name)
    assert includes(record, decode_container(body))
    assert decode_container(encode_container(name, record)) == record


@pytest.mark.fixtures
@pytest.mark.parametrize(("table", "file", "name"), REAL_FILES)
def test_the_schemas_hold_all_that_hudi_writes(table: str, file: str, name: str) -> None:
    theirs = without_docs(written_schema(real(table, file)))
    ours = schema(name)
    named = {field["name"]: field for field in ours["fields"]}
    for field in theirs["fields"]:
        if field["name"] != "clusteringPlan":
            assert named[field["name"]] == field
    assert {key: ours[key] for key in ours if key != "fields"} == {
        key: theirs[key] for key in theirs if key != "fields"
    }


@pytest.mark.fixtures
def test_the_compaction_plan_of_a_real_table_is_understood() -> None:
    plan = decode_container(real(MOR, "20250922132201931.compaction.requested"))
    first = plan["operations"][0]
    assert first["baseInstantTime"] == "20250922132151286"
    assert first["deltaFilePaths"][0].startswith(".5023772b-1fc6-4d7b-a563-21257d92e366-0_")
    assert first["metrics"]["TOTAL_LOG_FILES"] == 1.0
    assert plan["version"] == 2


@pytest.mark.fixtures
def test_a_record_of_ours_is_framed_as_hudi_frames_its_own() -> None:
    """Only the marker, which is arbitrary, and the schema's docs differ from Hudi's file."""
    body = real(ROLLBACK, "20250126040936578.rollback")
    again = encode_container("HoodieRollbackMetadata", decode_container(body))
    assert len(again) == len(body)
    marker, our_marker = body[-16:], again[-16:]
    assert again.replace(our_marker, marker) == body


@pytest.mark.parametrize("name", NAMES)
def test_schemas_carry_the_names_of_hudi(name: str) -> None:
    assert schema(name)["name"] == name
    assert schema(name)["namespace"] == "org.apache.hudi.avro.model"


def test_a_container_has_the_schema_as_its_only_metadata() -> None:
    reader = fastavro.reader(io.BytesIO(encode_container("HoodieRollbackPlan", {})))
    assert list(reader.metadata) == ["avro.schema"]
    assert json.loads(reader.metadata["avro.schema"]) == schema("HoodieRollbackPlan")


def test_fields_left_out_get_their_defaults() -> None:
    assert decode_container(encode_container("HoodieRequestedReplaceMetadata", {})) == {
        "operationType": None,
        "clusteringPlan": None,
        "extraMetadata": None,
        "version": 1,
    }


def test_equal_records_are_equal_bytes() -> None:
    record = {"instantToRollback": {"commitTime": "1", "action": "commit"}}
    first, second = (encode_container("HoodieRollbackPlan", record) for _ in range(2))
    assert first == second


PATHS = st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=4)


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=10), PATHS, max_size=4),
    st.integers(-(2**63), 2**63 - 1),
)
def test_savepoints_survive_the_way_through_bytes(
    files: dict[str, list[str]], saved_at: int
) -> None:
    record = {
        "savepointedBy": "someone",
        "savepointedAt": saved_at,
        "comments": "é日",
        "partitionMetadata": {
            partition: {"partitionPath": partition, "savepointDataFile": names}
            for partition, names in files.items()
        },
        "version": 1,
    }
    assert decode_container(encode_container("HoodieSavepointMetadata", record)) == record


@pytest.mark.parametrize(
    "record",
    [
        {"unknown": 1},
        {"version": "one"},
        {"instantToRollback": {"commitTime": "1"}},
        {"RollbackRequests": [{"partitionPath": None}]},
    ],
)
def test_records_that_do_not_fit_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        encode_container("HoodieRollbackPlan", record)


def test_a_body_cut_anywhere_is_corrupt_and_names_the_path() -> None:
    body = encode_container("HoodieRollbackPlan", {})
    for length in range(len(body)):
        with pytest.raises(CorruptTableError) as corrupt:
            decode_container(body[:length], path=".hoodie/1.rollback.requested")
        assert corrupt.value.path == ".hoodie/1.rollback.requested"


def test_a_record_of_another_kind_is_corrupt() -> None:
    with pytest.raises(CorruptTableError):
        decode_container(encode_container("HoodieRollbackPlan", {}), "HoodieCleanMetadata")


def test_an_unknown_schema_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="HoodieNoSuchThing"):
        schema("HoodieNoSuchThing")
