"""The bucket of a key, against values Hudi computes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.errors import CorruptTableError
from tideline.hudi.index.bucket import (
    bucket_id,
    bucket_id_of_record_key,
    bucket_of_file_id,
    file_ids_by_bucket,
    java_string_hash,
    new_file_id_prefix,
    record_key_values,
)

UUID = "5023772b-1fc6-4d7b-a563-21257d92e366"


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("é", 233), ("polygenelubricants", 1 << 31)],
)
def test_string_hash_is_java_s(text: str, code: int) -> None:
    assert java_string_hash(text) == code


def test_string_hash_counts_utf16_units() -> None:
    high, low = 0xD83D, 0xDE00
    assert java_string_hash("😀") == high * 31 + low


@pytest.mark.parametrize(("values", "bucket"), [(["1"], 80), (["1", "a"], 17), (["id:1"], 177)])
def test_bucket_ids_are_those_hudi_gives(values: list[str], bucket: int) -> None:
    assert bucket_id(values, 256) == bucket


def test_null_values_hash_as_zero() -> None:
    assert bucket_id([None], 256) == 31
    assert bucket_id(["__null__"], 256) != 31


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("2024-01-01 10:00:00", ("2024-01-01 10:00:00",)),
        ("id:1", ("id:1",)),
        ("a,b", ("a,b",)),
        ("id:1,name:x", ("1", "x")),
        ("id:__null__,name:__empty__", (None, "")),
        ("id:1,at:2014-10-22 13:50:42,name:x", ("1", "2014-10-22 13:50:42", "x")),
        ("id:a,b,c,name:x", ("a,b,c", "x")),
        ("id:1,at:10:20:30", ("1", "10:20:30")),
    ],
)
def test_record_keys_split_into_their_values(key: str, values: tuple[str | None, ...]) -> None:
    assert record_key_values(key) == values


def test_only_hash_fields_count_in_key_order() -> None:
    key = "id:1,name:x,region:eu"
    assert record_key_values(key, ["region", "id"]) == ("1", "eu")
    assert bucket_id_of_record_key(key, ["id"], 256) == bucket_id(["1"], 256)


def test_hash_fields_that_are_not_in_the_key_leave_the_whole_key() -> None:
    assert record_key_values("id:1,name:x", ["other"]) == ("id:1,name:x",)


@settings(deadline=None)
@given(st.lists(st.text(alphabet=st.characters(exclude_characters=",:"), min_size=1), min_size=2))
def test_plain_values_survive_joining_and_splitting(values: list[str]) -> None:
    key = ",".join(f"f{number}:{value}" for number, value in enumerate(values))
    assert record_key_values(key) == tuple(
        None if value == "__null__" else "" if value == "__empty__" else value for value in values
    )


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1, max_size=3), st.integers(1, 1000))
def test_buckets_stay_in_range(values: list[str], num_buckets: int) -> None:
    assert 0 <= bucket_id(values, num_buckets) < num_buckets


def test_file_ids_carry_their_bucket() -> None:
    prefix = new_file_id_prefix(80, UUID)
    assert prefix == "00000080-1fc6-4d7b-a563-21257d92e366"
    assert bucket_of_file_id(f"{prefix}-0") == 80


@pytest.mark.parametrize("file_id", [UUID, "", "0000", "0000008x-1", "²0000000-1"])
def test_a_file_id_without_a_bucket_is_refused_by_name(file_id: str) -> None:
    with pytest.raises(CorruptTableError, match="does not start with a bucket"):
        bucket_of_file_id(file_id)


def test_two_file_groups_of_one_bucket_are_refused() -> None:
    first, second = (f"{new_file_id_prefix(3, UUID)}-{number}" for number in (0, 1))
    assert file_ids_by_bucket("p", [first]) == {3: first}
    with pytest.raises(CorruptTableError, match=f"bucket 3: {first} and {second}"):
        file_ids_by_bucket("p", [first, second])
