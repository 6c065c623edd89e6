"""Buckets of many keys at once, against the reference that hashes one key."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tideline.hudi.index.bucket import BucketHash, bucket_id_of_record_key, java_string_hash
from tideline.hudi.index.partition_rules import PartitionRules
from tideline.in_process.bucket_numbers import bucket_numbers, java_hashes

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
KEYS = st.one_of(TEXTS, st.tuples(TEXTS, TEXTS).map(lambda two: f"a:{two[0]},b:{two[1]}"))


@given(st.lists(TEXTS, max_size=20))
def test_hashes_are_those_of_java(texts: list[str]) -> None:
    found = java_hashes(pa.array(texts, pa.string())).tolist()
    assert found == [java_string_hash(text) for text in texts]


@given(st.lists(st.tuples(KEYS, st.sampled_from(["p", "q"])), min_size=1, max_size=20))
def test_buckets_are_those_of_the_reference(rows: list[tuple[str, str]]) -> None:
    rules = PartitionRules.parse("p,3", "regex")
    hashed = BucketHash(16, ("b",), rules)
    keys = pa.array([key for key, _ in rows], pa.string())
    partitions = pa.array([partition for _, partition in rows]).dictionary_encode()
    expected = [
        bucket_id_of_record_key(key, ("b",), 3 if partition == "p" else 16)
        for key, partition in rows
    ]
    assert bucket_numbers(keys, partitions, hashed, ("a", "b")).tolist() == expected


@given(st.lists(KEYS, min_size=1, max_size=20))
def test_a_value_that_looks_like_pairs_is_one_value(values: list[str]) -> None:
    """As Hudi has it, whose default hash fields are the record key's."""
    keys = pa.array(values, pa.string())
    partitions = pa.array(["p"] * len(values)).dictionary_encode()
    expected = [bucket_id_of_record_key(value, ("id",), 64) for value in values]
    assert bucket_numbers(keys, partitions, BucketHash(64), ("id",)).tolist() == expected
