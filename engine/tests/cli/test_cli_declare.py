"""`tideline declare`, and what other commands say of a table whose zone nobody declared."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tideline.cli.main import run
from tideline.table.hoodie_table import HoodieTable
from tideline.table.table_config import TIMELINE_TIMEZONE, TIMEZONE
from tideline.testing.fake_clock import FakeClock
from tideline.testing.small_table import SmallTable, batch
from tideline.timeline.zone import TimelineZone

Captured = pytest.CaptureFixture[str]
KOLKATA = TimelineZone.parse("Asia/Kolkata")


@pytest.fixture
def table() -> Iterator[SmallTable]:
    """Instants of Kolkata, and nothing that says so."""
    made = SmallTable.in_memory({TIMEZONE: KOLKATA.name})
    behind_s = time.time() - made.fake_clock.now_ms() / 1000
    made.fake_clock.advance(behind_s - 3600)
    made.write("insert", batch(range(4), 1))
    hoodie(made).update_properties({TIMEZONE: None})
    yield made
    made.forget()


def hoodie(table: SmallTable) -> HoodieTable:
    return HoodieTable.open(table.location, FakeClock())


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
    assert run(["timeline", uri]) == 0
    assert " 60m " in capsys.readouterr().out
    assert run(["declare", uri, "--timezone", "Asia/Kolkata"]) == 0
    assert capsys.readouterr().out == (
        f"The instants of {uri} are those of clocks in Asia/Kolkata.\n"
    )
    assert hoodie(table).zone == KOLKATA
    for command in (["execute", "cleaning", uri], ["plan", uri], ["check", uri]):
        assert run(command) == 0
    assert "taken for UTC" not in capsys.readouterr().out


def test_a_zone_that_the_objects_deny_is_doubted(table: SmallTable, capsys: Captured) -> None:
    assert run(["declare", table.location.uri, "--timezone", "Asia/Tokyo", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["timezone"] == "Asia/Tokyo"
    assert "+05:30 from UTC" in told["doubt"]


def test_what_cannot_be_declared_is_refused(table: SmallTable, capsys: Captured) -> None:
    uri = table.location.uri
    assert run(["declare", uri, "--timezone", "Middle/Earth"]) == 2
    assert "no time zone of this name" in capsys.readouterr().err
    hoodie(table).update_properties({TIMELINE_TIMEZONE: "UTC"})
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
