"""Every key of Hudi 1.2 is classified, and what is called harmless is shown to be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tideline.settings.families import ALL_FAMILIES
from tideline.settings.registry import all_settings, find_setting, nearest_name
from tideline.settings.setting import Kind, Setting, Support, is_readable
from tideline.testing.harmless_settings import SHOWN_BY
from tools.most_used import MOST_USED

ROOT = Path(__file__).resolve().parents[3]
HUDI_KEYS = Path(__file__).with_name("hudi-1.2-settings.txt").read_text("utf-8").split()
"""Names of all settings that Hudi 1.2 declares, its Spark writer's among them."""
OF_FLINKS_SERVICES = (
    "compaction.delta_commits",
    "compaction.delta_seconds",
    "compaction.trigger.strategy",
    "compaction.target_io",
    "compaction.schedule.enabled",
    "compaction.async.enabled",
    "compaction.tasks",
    "compaction.max_memory",
    "clean.policy",
    "clean.retain_commits",
    "clean.retain_hours",
    "clean.retain_file_versions",
    "clean.async.enabled",
    "archive.max_commits",
    "archive.min_commits",
    "clustering.delta_commits",
    "clustering.schedule.enabled",
    "clustering.async.enabled",
    "clustering.plan.strategy.sort.columns",
    "clustering.plan.strategy.small.file.limit",
    "clustering.plan.strategy.target.file.max.bytes",
    "clustering.plan.strategy.max.num.groups",
    "clustering.plan.partition.filter.mode",
    "write.operation",
    "index.type",
)


def test_every_setting_of_hudi_is_classified() -> None:
    assert len(HUDI_KEYS) > 700
    assert [name for name in HUDI_KEYS if find_setting(name) is None] == []
    assert [name for name in OF_FLINKS_SERVICES if find_setting(name) is None] == []
    assert [name for name in MOST_USED if find_setting(name) is None] == []


def test_a_name_belongs_to_one_setting_which_says_something() -> None:
    names = [name for setting in all_settings() for name in setting.names]
    assert len(names) == len(set(names))
    for setting in all_settings():
        assert setting.sentence, setting.name
        assert not setting.sentence.endswith("."), setting.name
        # A family is never honoured: a typo in it would be taken.
        assert not (setting.is_family and setting.support is Support.HONOURED), setting.name


@pytest.mark.parametrize(
    "setting",
    [
        candidate
        for candidate in all_settings()
        if candidate.support is Support.HONOURED and candidate.default
    ],
    ids=lambda setting: setting.name,
)
def test_defaults_can_be_read(setting: Setting) -> None:
    assert is_readable(setting, setting.default)
    assert not setting.words or setting.accepts(setting.default)


def test_what_touches_rows_files_locks_or_placement_is_shown_to_be_harmless() -> None:
    for shown_by, names in SHOWN_BY.items():
        for name in names:
            setting = find_setting(name)
            assert setting is not None, name
            assert setting.support is Support.HARMLESS, name
        path, _, test = shown_by.partition("::")
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert test in tests, shown_by


def test_what_names_a_class_of_somebodys_own_is_never_harmless() -> None:
    for name in HUDI_KEYS:
        setting = find_setting(name)
        assert setting is not None
        if name.endswith((".class", ".impls", ".classes")):
            assert setting.support is not Support.HARMLESS or name in {
                # Of subsystems that are refused as such, or of readers.
                "hoodie.bootstrap.index.class",
                "hoodie.datasource.partition_extractor_class",
                "hoodie.errortable.write.class",
                "hoodie.meta.sync.client.tool.class",
                "hoodie.metrics.reporter.class",
                "hoodie.spark.polaris.catalog.class",
                "hoodie.table.legacy.payload.class",
                "hoodie.table.partition_extractor_class",
                "hoodie.write.commit.callback.class",
            }, name


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("hoodie.clean.commit.retained", "hoodie.clean.commits.retained"),
        ("clean.commits.retained", "hoodie.clean.commits.retained"),
        ("hoodie.parquet.compresion.codec", "hoodie.parquet.compression.codec"),
        ("HOODIE.INDEX.TYPE", "hoodie.index.type"),
        ("insert.dup.policy", "hoodie.datasource.insert.dup.policy"),
        ("hoodie.metadata.enabled", "hoodie.metadata.enable"),
        ("small.file.limit", "hoodie.parquet.small.file.limit"),
    ],
)
def test_the_nearest_name_is_the_one_that_was_meant(typo: str, meant: str) -> None:
    assert find_setting(typo) is None
    assert nearest_name(typo) == meant


def test_nothing_is_near_a_name_that_is_like_none() -> None:
    assert nearest_name("colour") is None


def test_families_have_keys_of_their_own() -> None:
    keys = [family.key for family in ALL_FAMILIES]
    assert len(keys) == len(set(keys))
    assert {Kind.FLAG, Kind.INTEGER} <= {setting.kind for setting in all_settings()}
