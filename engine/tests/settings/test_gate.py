"""What is given is refused where it is wrong; what is stored is only reported."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.settings.gate import check_given, problem_of, stored_problems
from tideline.settings.setting import SettingPlace

PLACES = [SettingPlace.TABLE, SettingPlace.WRITE, SettingPlace.SERVICE, SettingPlace.LAKE_TABLE]


@pytest.mark.parametrize("place", PLACES)
def test_an_unknown_name_is_refused_with_the_nearest_one(place: SettingPlace) -> None:
    with pytest.raises(ConfigError, match=r"did you mean hoodie\.parquet\.small\.file\.limit\?"):
        check_given({"hoodie.parquet.smal.file.limit": "1"}, place)
    with pytest.raises(ConfigError, match="no setting is called colour"):
        check_given({"colour": "red"}, place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("hoodie.write.lock.provider", "org.example.ZooLockProvider", "StorageBasedLockProvider"),
        (
            "hoodie.write.concurrency.mode",
            "NON_BLOCKING_CONCURRENCY_CONTROL",
            "OPTIMISTIC_CONCURRENCY_CONTROL",
        ),
        ("hoodie.datasource.write.record.merger.impls", "org.example.Mine", "merge mode"),
        ("hoodie.write.table.version", "7", "keeps its version"),
        ("hoodie.metadata.index.secondary.enable", "true", "metadata table"),
        ("hoodie.datasource.query.type", "incremental", "is for reading"),
        ("hoodie.bloom.index.filter.type", "SIMPLE", "DYNAMIC_V0"),
        ("hoodie.clean.commits.retained", "many", "an integer of at least 1"),
        ("hoodie.combine.before.insert", "yes", "true or false"),
        ("hoodie.parquet.compression.codec", "brotli", "zstd"),
        ("hoodie.table.checksum", "1", "cannot be"),
        ("clustering.plan.strategy.small.file.limit", "600", "megabytes"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_what_to_do(
    place: SettingPlace, name: str, text: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        check_given({name: text}, place)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "hoodie.write.lock.provider",
            "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
        ),
        ("hoodie.write.concurrency.mode", "optimistic_concurrency_control"),
        ("hoodie.write.table.version", "6"),
        ("hoodie.write.table.version", "9"),
        ("hoodie.write.auto.upgrade", "false"),
        ("hoodie.metadata.enable", "false"),
        ("hoodie.upsert.shuffle.parallelism", "200"),
        ("hoodie.metrics.reporter.type", "PROMETHEUS"),
    ],
)
def test_what_tideline_does_anyway_is_taken(name: str, text: str) -> None:
    for place in PLACES:
        assert check_given({name: text}, place) == {name: text}


def test_older_names_and_flinks_are_the_same_setting() -> None:
    given = {
        "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
        "clean.retain_commits": "3",
        "compaction.delta_commits": 7,
        "hoodie.clean.async": True,
    }
    assert check_given(given, SettingPlace.SERVICE) == {
        "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
        "hoodie.clean.commits.retained": "3",
        "hoodie.compact.inline.max.delta.commits": "7",
        "hoodie.clean.async.enabled": "true",
    }


def test_one_setting_is_not_given_two_values() -> None:
    same = {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "clean.policy": "KEEP_LATEST_COMMITS"}
    assert len(check_given(same, SettingPlace.WRITE)) == 1
    with pytest.raises(ConfigError, match="are one setting"):
        check_given({**same, "clean.policy": "KEEP_LATEST_BY_HOURS"}, SettingPlace.WRITE)


def test_an_operation_is_no_property_of_a_table() -> None:
    name = "hoodie.datasource.write.operation"
    assert problem_of(name, "insert", SettingPlace.WRITE) is None
    for place in (SettingPlace.TABLE, SettingPlace.SERVICE, SettingPlace.LAKE_TABLE):
        assert "cannot be" in (problem_of(name, "insert", place) or "")


def test_stored_settings_are_reported_and_only_dangerous_ones_stop_writers() -> None:
    stored = {
        "hoodie.table.name": "t",
        "hoodie.table.checksum": "1",
        "hoodie.table.initial.version": "6",
        "hoodie.clean.commits.retained": "5",
        "hoodie.clean.commit.retained": "5",
        "hoodie.datasource.hive_sync.enable": "true",
        "hoodie.write.lock.provider": "org.example.ZooLockProvider",
    }
    found = {problem.name: problem for problem in stored_problems(stored)}
    assert list(found) == [
        "hoodie.clean.commit.retained",
        "hoodie.datasource.hive_sync.enable",
        "hoodie.write.lock.provider",
    ]
    assert "did you mean" in found["hoodie.clean.commit.retained"].message
    assert [name for name, stored_problem in found.items() if stored_problem.stops_writers] == [
        "hoodie.write.lock.provider"
    ]
