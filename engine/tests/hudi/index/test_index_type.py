"""Kinds of index and what they say about themselves."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.hudi.index.index_type import IndexType


@pytest.mark.parametrize("kind", IndexType)
def test_index_types_parse_what_they_print(kind: IndexType) -> None:
    assert IndexType.parse(str(kind)) is kind
    assert IndexType.parse(f" {str(kind).lower()} ") is kind


def test_an_unsupported_index_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigError, match=r"SIMPLE, BLOOM.*HBASE"):
        IndexType.parse("HBASE")


def test_only_global_indexes_make_keys_unique_in_the_table() -> None:
    found = {kind for kind in IndexType if kind.is_global}
    assert found == {IndexType.GLOBAL_SIMPLE, IndexType.GLOBAL_BLOOM, IndexType.RECORD_INDEX}


def test_a_record_index_has_two_names() -> None:
    assert IndexType.parse("global_record_level_index") is IndexType.RECORD_INDEX
    with pytest.raises(ConfigError):
        IndexType.parse("RECORD_LEVEL_INDEX")


def test_only_a_bucket_index_places_inserts() -> None:
    assert [kind for kind in IndexType if kind.places_by_hash] == [IndexType.BUCKET]


def test_only_bloom_indexes_look_at_filters() -> None:
    found = {kind for kind in IndexType if kind.reads_bloom_filters}
    assert found == {IndexType.BLOOM, IndexType.GLOBAL_BLOOM}
