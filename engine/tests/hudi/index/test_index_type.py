"""Kinds of index and what they say about themselves."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.hudi.index.index_type import IndexType
from tideline.settings.registry import all_settings

KNOWN = {setting.name: setting for setting in all_settings()}


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


def test_every_index_is_declared_and_documented() -> None:
    described = KNOWN["hoodie.index.type"].sentence
    for kind in IndexType:
        assert kind.traits is not None
        assert kind.value in described
        assert kind.in_table.is_global or kind.places_by_hash


def test_whether_rows_move_is_a_setting_that_is_known() -> None:
    for kind in IndexType:
        assert not kind.traits.moves_setting or kind.traits.moves_setting in KNOWN
