"""The registry and the code say the same: what is honoured is read, and nothing else is.

A name is read where it stands as a literal in the code: names of settings are never put together.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.registry import ROLLBACK, TableService, all_services
from tideline.hudi.services.scheduler import SchedulerConfig
from tideline.hudi.services.service import InlineStep
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.write.config import FailedWritesPolicy, WriteConfig
from tideline.hudi.write.planned_write import table_write_config
from tideline.settings.registry import all_settings, find_setting
from tideline.settings.setting import Support
from tideline.testing.harmless_settings import LOCKS

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = (ROOT / "engine" / "tideline", ROOT / "operator" / "tideline_operator")
NOT_READERS = ("engine/tideline/settings/", "engine/tideline/tracing.py", "/testing/")
NAME = re.compile(r"(hoodie|tideline)\.[a-z][A-Za-z0-9_.]+[a-z_]")
NOT_SETTINGS = re.compile(
    r"""
    tideline\.(cli|hudi|spark|services|dev|erasure|iceberg|report|write_)\b.*  # modules
    | tideline\.(commands|declarations)                    # groups of entry points
    | tideline\.iceberg_together
    | tideline\.((iceberg_)?lake_table|check_finding|commit_report|distribution|saving|testing).*
    | tideline\.(ingest|token|operation|carries|publication)(\..*)?    # extra metadata of commits
    | tideline\.operation-id
    | tideline\.(clean\.(bytes\.deleted|elapsed\.ms|core\.seconds|requests))
    | hoodie\.write\.table\.version                       # taken out of a table
    | tideline\.version\.change                             # of a table, while it lasts
    | hoodie\.properties(\.backup)?                        # files
    | hoodie\.query\.as\.ro\.table | tideline\.sync\.settled_until  # of registered tables
    """,
    re.VERBOSE,
)
READ_BY_PREFIX = re.compile(
    r"hoodie\.(deltastreamer\.)?keygen\.timebased\..*|tideline\.sync\.(hive|glue)\..*"
)
"""The key generator and targets of syncs put these together; their own tests read each of them."""


def literals(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def read_names() -> dict[str, str]:
    """Names of settings that stand in the code by themselves, with a file that has each."""
    found = {}
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if any(part in place for part in NOT_READERS):
                continue
            for text in literals(path):
                if NAME.fullmatch(text) and not NOT_SETTINGS.fullmatch(text):
                    found[text] = place
    return found


def test_what_the_code_reads_is_honoured() -> None:
    for name, place in read_names().items():
        setting = find_setting(name)
        assert setting is not None, f"{place} reads {name}, which no family holds"
        assert setting.support is Support.HONOURED, f"{place} reads {name}: {setting.support}"


def test_what_is_honoured_is_read() -> None:
    read = read_names()
    for setting in all_settings():
        if setting.support is Support.HONOURED and not READ_BY_PREFIX.fullmatch(setting.name):
            assert any(name in read for name in setting.names), f"nothing reads {setting.name}"


@pytest.mark.parametrize(
    "service",
    [table_service for table_service in all_services() if table_service != ROLLBACK],
    ids=str,
)
def test_defaults_are_the_same_in_code_and_registry(service: TableService) -> None:
    found = service.settings(Settings({}))
    assert found == type(found)()


def test_defaults_of_all_services_are_the_same_in_code_and_registry() -> None:
    assert ServiceConfig.from_settings(Settings({})) == ServiceConfig()


def test_by_default_a_commit_is_followed_by_cleaning_and_archival() -> None:
    config = SchedulerConfig.from_settings(Settings({}))
    wanted = {str(service): turns for service, turns in config.turns.items() if turns}
    assert wanted == dict.fromkeys(("cleaning", "archival"), frozenset({InlineStep.RUN}))
    assert not config.raises_failures


def test_defaults_of_writes_are_the_same_in_code_and_registry() -> None:
    assert WriteConfig.from_properties({}) == WriteConfig()


def test_harmless_lock_settings_leave_the_lock_as_it_is() -> None:
    given = dict.fromkeys(LOCKS, "7")
    assert Settings(given).lock_timing() == Settings({}).lock_timing()


def test_an_older_name_of_the_policy_goes_before_the_single_writers_default() -> None:
    stored = {
        "hoodie.table.recordkey.fields": "id",
        "tideline.single.writer": "true",
        "hoodie.cleaner.policy.failed.writes": "NEVER",
    }
    config = table_write_config(TableConfig(stored), {})
    assert config.failed_writes_policy is FailedWritesPolicy.NEVER
    given = {"hoodie.clean.failed.writes.policy": "LAZY"}
    assert table_write_config(TableConfig(stored), given).failed_writes_policy.value == "LAZY"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"hoodie.cleaner.commits.retained": "4"}, 4),
        ({"clean.retain_commits": "4"}, 4),
        ({"hoodie.cleaner.commits.retained": "4", "hoodie.clean.commits.retained": "6"}, 6),
    ],
)
def test_a_setting_is_found_under_each_of_its_names(given: dict[str, str], read: int) -> None:
    assert CleaningConfig.from_settings(Settings(given)).commits_retained == read
