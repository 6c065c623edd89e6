"""Records in columns are those that one by one would be."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from tideline.formats.hfile import decode_hfile
from tideline.hudi.metadata_table.key_runs import KeyRun, KeyRuns, group_numbers
from tideline.hudi.metadata_table.many_records import GroupRecords, ManyRecords
from tideline.hudi.metadata_table.partition import (
    KEY_BYTES_MAX,
    CannotFollow,
    file_group,
    group_number,
    shard_of,
)
from tideline.hudi.metadata_table.record_index import RECORD_INDEX_PARTITION
from tideline.hudi.metadata_table.secondary_index import secondary_key, value_part
from tideline.hudi.table.file_group import FileGroupId

SIGNS = "abc019$\\\0 äß€\U0001f600\U00010000�"


def texts(count: int, signs: str = SIGNS) -> list[str]:
    chosen = random.Random(f"{count} {signs}")
    return ["".join(chosen.choices(signs, k=chosen.randrange(30))) for _ in range(count)]


def groups_of(shard: str | None) -> Sequence[FileGroupId]:
    count = 3 if shard is None else 1
    return [file_group(RECORD_INDEX_PARTITION, number, shard) for number in range(count)]


def entries_of(records: GroupRecords) -> Sequence[tuple[bytes, bytes]]:
    return decode_hfile(records.encoded() or b"").entries


@pytest.mark.parametrize("signs", [SIGNS, "abc", "z"])
@pytest.mark.parametrize("groups", [1, 2, 10, 1009])
def test_numbers_of_file_groups_are_those_of_each_key(signs: str, groups: int) -> None:
    keys = [*texts(3000, signs), "", "polygenelubricants"]
    assert group_number("polygenelubricants", 1 << 40) == 1 << 31, "the hash without an opposite"
    array = pa.array(["in front", *keys]).slice(1)
    assert group_numbers(array, groups).tolist() == [group_number(key, groups) for key in keys]


def test_the_last_run_of_a_key_counts() -> None:
    keys = [key for key in texts(500) if key]
    runs = KeyRuns(
        (
            KeyRun(pa.array(keys[:300]), None),
            KeyRun(pa.array(keys[200:400]), b"first"),
            KeyRun(pa.array(keys[350:]), b"second"),
            KeyRun(pa.array(["k"]), b"of a shard", "s"),
            KeyRun.of_shard("new"),
        )
    )
    assert isinstance(runs, ManyRecords)
    expected: dict[tuple[str | None, str], bytes | None] = {}
    for run in runs.runs:
        expected |= dict.fromkeys(((run.shard, key) for key in run.keys.to_pylist()), run.datum)
    found: dict[tuple[str | None, str], bytes | None] = {}
    dealt = runs.dealt(groups_of)
    for group, records in dealt.items():
        shard = shard_of(RECORD_INDEX_PARTITION, group)
        its: dict[str, bytes | None] = {key.decode(): datum for key, datum in entries_of(records)}
        its |= dict.fromkeys(records.deleted())
        for key in its:
            assert group == groups_of(shard)[group_number(key, len(groups_of(shard)))]
        found |= {(shard, key): datum for key, datum in its.items()}
    assert file_group(RECORD_INDEX_PARTITION, 0, "new") in dealt
    assert found == {(shard, key): datum for (shard, key), datum in expected.items() if key}


def test_a_value_decides_on_the_file_group_of_its_keys() -> None:
    keys = [secondary_key(value, key) for value, key in zip(texts(200), texts(200), strict=True)]
    runs = KeyRuns((KeyRun(pa.array([*keys, secondary_key(None, "k$")]), b""),), are_values=True)
    dealt = runs.dealt(groups_of)
    for group, records in dealt.items():
        for key, _ in entries_of(records):
            number = group_number(value_part(key.decode()), 3)
            assert group == groups_of(None)[number]
    assert sum(len(records) for records in dealt.values()) == len({*keys}) + 1


def test_more_records_get_more_file_groups() -> None:
    assert RECORD_INDEX_PARTITION.groups_for(0) == 10
    assert RECORD_INDEX_PARTITION.groups_for(40_000_000) == 10
    assert RECORD_INDEX_PARTITION.groups_for(40_000_001) == 11


def test_what_does_not_fit_and_what_is_there_twice_is_said() -> None:
    fits, too_long = "ä" * (KEY_BYTES_MAX // 2), "ä" * (KEY_BYTES_MAX // 2 + 1)
    assert KeyRuns((KeyRun(pa.array(["a", fits]), b""),)).too_long() is None
    found = KeyRuns((KeyRun(pa.array(["a", too_long]), b""),)).too_long()
    assert isinstance(found, CannotFollow)
    assert "a key of more than 32,767 bytes: 'ääää" in found.reason
    assert KeyRuns((KeyRun(pa.array([too_long]), None),)).too_long() is None
    first, second = KeyRun(pa.array(["a", "b"]), b""), KeyRun(pa.array(["c", "b"]), b"")
    assert KeyRuns((first,)).stored_twice() is None
    assert KeyRuns((first, second)).stored_twice() == "b"
    assert KeyRuns(()).stored_twice() is None
