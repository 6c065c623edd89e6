"""Hudi in zones west and east of UTC and we on one table: refused until the zone is declared.

`hoodie.table.timeline.timezone` is LOCAL by Hudi's default, so that its instants are digits of the
zone its Java runs in.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import ConfigError
from tideline.hudi.open_table import open_table
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.execute import execute_compaction, schedule_compaction
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import TIMEZONE, TableType
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import ZoneBasis
from tideline.hudi.timeline.zone import TimelineZone
from tideline.hudi.write.config import WriteConfig
from tideline.in_process.service_engine import InProcessServiceEngine
from tideline.services.explanation import NotDue
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hudi_peer import HudiPeer, HudiPeerIn
from tideline.testing.small_table import SmallTable, batch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CREATED = {
    "hoodie.table.name": "elsewhere",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
}
HOUR_MS = 3_600_000


@dataclass
class Elsewhere:
    """A merge-on-read table that a Hudi in another zone made, and the rows it must hold."""

    path: Path
    peer: HudiPeer
    model: dict[str, int] = field(default_factory=dict)

    @property
    def small(self) -> SmallTable:
        return SmallTable(StoreLocation.of(str(self.path)))

    def table(self, *, hours_later: float = 0) -> HoodieTable:
        clock = FakeClock(time.time_ns() // 1_000_000 + round(hours_later * HOUR_MS))
        return open_table(StoreLocation.of(str(self.path)), clock)

    def write_with_hudi(self, rows: pa.Table) -> None:
        self.peer.write(str(self.path), rows, operation="upsert", options=CREATED)
        self._note(rows)

    def write(self, rows: pa.Table, options: Mapping[str, str] | None = None) -> InstantTime:
        report = self.small.write("upsert", rows, options=options)
        self._note(rows)
        return InstantTime(report.instant)

    def _note(self, rows: pa.Table) -> None:
        self.model |= zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)

    def files(self) -> list[str]:
        """Everything in the folder but the lock."""
        paths = (path.relative_to(self.path) for path in self.path.rglob("*") if path.is_file())
        return sorted(str(path) for path in paths if ".locks" not in path.parts)

    def newest(self) -> InstantTime:
        last = self.table().timeline().completed().last()
        assert last is not None
        return last.time

    def check(self) -> None:
        """We, Hudi and hudi-rs read what was written last of every key."""
        expected = sorted(self.model.items())
        assert self.small.merged_values() == expected
        for rows in (
            self.peer.read(str(self.path)),
            self.peer.read_with_hudi_rs(str(self.path)),
        ):
            pairs = zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)
            assert sorted(pairs) == expected


@pytest.fixture(params=["America/Los_Angeles", "Asia/Kolkata"])
def zone(request: pytest.FixtureRequest) -> TimelineZone:
    return TimelineZone.parse(request.param)


@pytest.fixture
def elsewhere(zone: TimelineZone, tmp_path: Path, hudi_peer_in: HudiPeerIn) -> Iterator[Elsewhere]:
    shared = Elsewhere(tmp_path / "elsewhere", hudi_peer_in(zone.name))
    shared.write_with_hudi(batch(range(10), 1))
    shared.write_with_hudi(batch(range(4), 2))
    yield shared


def test_writers_of_both_engines_take_turns_in_the_zone_of_hudi(
    elsewhere: Elsewhere, zone: TimelineZone
) -> None:
    _refuses(elsewhere, zone)
    declared = {TIMEZONE: zone.name}
    for version in (3, 5):
        before_ms = time.time_ns() // 1_000_000
        newest = elsewhere.newest()
        ours = elsewhere.write(batch(range(version, version + 4), version), declared)
        assert ours > newest
        assert 0 <= zone.epoch_ms(ours) - before_ms < 60_000
        elsewhere.write_with_hudi(batch(range(version + 1, version + 5), version + 1))
        assert elsewhere.newest() > ours
        elsewhere.check()
    with pytest.raises(ConfigError, match="not UTC"):
        elsewhere.write(batch([0], 9))

    table = elsewhere.table()
    table.properties.update({TIMEZONE: zone.name})
    _compact(table)
    elsewhere.check()
    elsewhere.write_with_hudi(batch([2, 3], 10))
    elsewhere.check()
    _cleans_by_age(elsewhere)
    elsewhere.check()


def _refuses(elsewhere: Elsewhere, zone: TimelineZone) -> None:
    """Undeclared it is read, and nothing is done to it."""
    elsewhere.check()
    before = elsewhere.files()
    newest = elsewhere.newest()
    with pytest.raises(ConfigError) as refused:
        elsewhere.small.write("upsert", batch([0], 9))
    offset_ms = newest.epoch_ms() - zone.epoch_ms(newest)
    hours, minutes = divmod(abs(offset_ms) // 60_000, 60)
    words = str(refused.value)
    assert str(newest) in words
    assert f"{'-' if offset_ms < 0 else '+'}{hours:02d}:{minutes:02d} from UTC" in words
    assert TIMEZONE in words
    for attempt in (
        lambda: elsewhere.small.lake().run("cleaning"),
        lambda: elsewhere.small.lake().plan("compaction"),
        lambda: elsewhere.small.lake().schedule("compaction"),
        lambda: elsewhere.small.lake().recover(),
        lambda: elsewhere.small.lake().repair(),
    ):
        with pytest.raises(ConfigError, match="not UTC"):
            attempt()
    assert elsewhere.files() == before


def _compact(table: HoodieTable) -> None:
    with table.lock().acquire(timeout_s=10):
        plan = schedule_compaction(table, CompactionConfig(delta_commits_max=1))
    assert isinstance(plan, Instant), plan
    execute_compaction(
        table,
        plan,
        InProcessServiceEngine(table),
        config=ServiceConfig(),
        write_config=WriteConfig(),
    )


def _cleans_by_age(elsewhere: Elsewhere) -> None:
    """Files of the first hour stay for nine hours, and go after that."""
    settings = Settings({"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS",
                         "hoodie.clean.hours.retained": "9"})  # fmt: skip
    config = CleaningConfig.from_settings(settings)
    young = clean_table(elsewhere.table(hours_later=8.5), config)
    assert isinstance(young, NotDue), young
    # The newest commit is kept at any age, so one is made once the others are old.
    table = elsewhere.table(hours_later=9.5)
    small = SmallTable(table.location, table.clock)
    small.write("upsert", batch([5], 11))
    elsewhere.model |= {"k005": 11}
    old = clean_table(elsewhere.table(hours_later=9.6), config)
    assert not isinstance(old, NotDue), old
    assert sum(len(done.files) for done in old) > 0


def test_hudis_instants_around_a_change_of_daylight_saving_are_seen_not_to_be_utc(
    tmp_path: Path, hudi_peer_in: HudiPeerIn
) -> None:
    """Two Hudis an hour apart are what one is before and after its clock is set on in spring."""
    shared = Elsewhere(tmp_path / "spring", hudi_peer_in("Etc/GMT+8"))
    shared.write_with_hudi(batch(range(10), 1))
    shared.peer = hudi_peer_in("Etc/GMT+7")
    shared.write_with_hudi(batch(range(5), 2))
    table = shared.table()
    known = table.instants.known_zone(table.timeline())
    assert known.basis is ZoneBasis.NOT_UTC
    with pytest.raises(ConfigError, match=r"-07:00 from UTC"):
        shared.write(batch([0], 9))
    shared.check()


def test_a_hudi_elsewhere_keeps_to_utc_in_a_table_that_is_utc(
    tmp_path: Path, hudi_peer_in: HudiPeerIn
) -> None:
    """In a JVM of its own: one that has made later digits waits until its clock is past them."""
    shared = Elsewhere(tmp_path / "elsewhere", hudi_peer_in("America/Denver"))
    SmallTable.create(
        StoreLocation.of(str(shared.path)), table_type=TableType.MERGE_ON_READ, ordering=["v"]
    )
    shared.write(batch(range(10), 1))
    shared.write_with_hudi(batch(range(5), 2))
    hudis = shared.newest()
    assert abs(hudis.epoch_ms() - time.time_ns() // 1_000_000) < HOUR_MS
    assert shared.write(batch(range(2, 7), 3)) > hudis
    shared.check()
