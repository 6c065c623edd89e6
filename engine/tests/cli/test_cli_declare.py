"""`tideline declare`, and what other commands say of a table without the declaration."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tideline.cli.main import run
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    INDEX_TYPE,
    METADATA_PARTITIONS,
    TIMELINE_TIMEZONE,
    TIMEZONE,
)
from tideline.hudi.timeline.zone import TimelineZone
from tideline.lake_table import LakeTable
from tideline.testing.fake_clock import FakeClock
from tideline.testing.small_table import SmallTable, batch

Captured = pytest.CaptureFixture[str]
KOLKATA = TimelineZone.parse("Asia/Kolkata")


@pytest.fixture
def table() -> Iterator[SmallTable]:
    """Instants of Kolkata, and nothing that says so."""
    made = SmallTable.in_memory({TIMEZONE: KOLKATA.name})
    behind_s = time.time() - made.fake_clock.now_ms() / 1000
    made.fake_clock.advance(behind_s - 3600)
    made.write("insert", batch(range(4), 1))
    hoodie(made).properties.update({TIMEZONE: None})
    yield made
    made.forget()


def hoodie(table: SmallTable) -> HoodieTable:
    return open_table(table.location, FakeClock())


def test_declared_once_every_command_knows_it(table: SmallTable, capsys: Captured) -> None:
    uri = table.location.uri
    assert run(["execute", "cleaning", uri]) == 2
    refused = capsys.readouterr().err
    assert "+05:30 from UTC" in refused
    assert "tideline declare" in refused
    assert run(["plan", uri]) == 2
    assert run(["show", uri]) == 0
    assert run(["check", uri]) == 0
    assert "tideline declare" in capsys.readouterr().out
    assert run(["list-instants", uri]) == 0
    assert " 60m " in capsys.readouterr().out
    assert run(["declare", uri, "--timezone", "Asia/Kolkata"]) == 0
    assert capsys.readouterr().out == (
        f"The instants of {uri} are those of clocks in Asia/Kolkata.\n"
    )
    assert hoodie(table).instants.zone == KOLKATA
    for command in (["execute", "cleaning", uri], ["plan", uri], ["check", uri]):
        assert run(command) == 0
    assert "taken for UTC" not in capsys.readouterr().out


def test_a_zone_that_the_objects_deny_is_doubted(table: SmallTable, capsys: Captured) -> None:
    assert run(["declare", table.location.uri, "--timezone", "Asia/Tokyo", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["timezone"] == "Asia/Tokyo"
    assert "+05:30 from UTC" in shown["doubt"]


def test_what_cannot_be_declared_is_refused(table: SmallTable, capsys: Captured) -> None:
    uri = table.location.uri
    assert run(["declare", uri, "--timezone", "Middle/Earth"]) == 2
    assert "no time zone of this name" in capsys.readouterr().err
    hoodie(table).properties.update({TIMELINE_TIMEZONE: "UTC"})
    assert run(["declare", uri, "--timezone", "Asia/Kolkata"]) == 2
    assert "says that the table is UTC" in capsys.readouterr().err
    assert TIMEZONE not in hoodie(table).config.properties


def test_a_plan_warns_of_a_zone_that_is_not_known(table: SmallTable, capsys: Captured) -> None:
    for info in table.store().list(".hoodie"):
        if info.path.endswith(".requested"):
            table.fake_clock.advance(500)
            table.store().put(info.path, table.store().get(info.path))
    assert run(["plan", table.location.uri]) == 0
    assert capsys.readouterr().out.count("taken for UTC") == 1


def index_type(uri: str, **options: str) -> str:
    return LakeTable.open(uri).writer.config_for_rows(options).index.type.value


def test_a_global_index_is_declared_once(capsys: Captured) -> None:
    table = SmallTable.in_memory()
    uri = table.location.uri
    table.write("insert", batch(range(4), 1))
    assert run(["show", uri]) == 0
    assert "unless every writer names a global index" in capsys.readouterr().out
    assert run(["declare", uri, "--index", "global_bloom"]) == 0
    assert capsys.readouterr().out == (
        f"Writers of {uri} use GLOBAL_BLOOM; its keys are unique in the whole table.\n"
        "Whether they are so now: `tideline check --keys`.\n"
    )
    assert index_type(uri) == "GLOBAL_BLOOM"
    assert run(["plan", uri]) == 0
    assert "keys: unique in the whole table (tideline.index.type=GLOBAL_BLOOM).\n" in (
        capsys.readouterr().out
    )
    assert run(["declare", uri, "--index", "SIMPLE", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"index": "SIMPLE", "dry_run": False}
    assert index_type(uri) == "SIMPLE"
    assert run(["plan", uri, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["keys"]
    assert shown == "unique in their partition: a row whose partition changes is stored in both"


def test_an_index_that_cannot_be_is_not_declared(capsys: Captured) -> None:
    table = SmallTable.in_memory({"hoodie.index.type": "BUCKET"})
    uri = table.location.uri
    assert run(["declare", uri]) == 2
    assert "give --timezone or --index" in capsys.readouterr().err
    assert run(["declare", uri, "--index", "GLOBAL_SIMPLE"]) == 2
    assert "the table has a bucket index" in capsys.readouterr().err
    table.write("upsert", batch(range(100), 1))
    hoodie(table).properties.update({INDEX_TYPE: None})
    assert run(["declare", uri, "--index", "GLOBAL_SIMPLE"]) == 2
    indexed = SmallTable.in_memory()
    hoodie(indexed).properties.update({METADATA_PARTITIONS: "files,record_index"})
    assert run(["declare", indexed.location.uri, "--index", "SIMPLE"]) == 2
    assert "drop it with Hudi first" in capsys.readouterr().err
    assert run(["declare", indexed.location.uri, "--index", "RECORD_INDEX"]) == 0
