"""A storm of kills over an Iceberg table: no live file is lost, no row lost or doubled, and nothing
is left that the removal of orphans does not take."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest

from tideline.clock import SystemClock
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.testing import writer_process

pytest.importorskip("sqlalchemy")

from tideline.testing.iceberg_storm import (
    NAME,
    SCHEMA,
    IcebergJob,
    expire_in_an_iceberg_storm,
    ids_after,
    ids_in_the_table,
    rewrite_in_an_iceberg_storm,
    told,
    write_in_an_iceberg_storm,
)

pytestmark = pytest.mark.usefixtures("catalogs_name_folders")

WRITERS = (1, 2)
LIFE_S_MAX = 6.0
STORM_S_MAX = 1200.0
KILLS = int(os.environ.get("TIDELINE_KILLS", "500"))


class IcebergStorm:
    """The processes, and what readers of the table must see."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.kills = 0
        self._random = Random(seed)
        self._lives: dict[str, tuple[BaseProcess, float]] = {}
        (folder / "warehouse").mkdir(parents=True)
        self.catalog = IcebergJob(str(folder)).catalog()
        self.catalog.create_namespace("lake")
        self.catalog.create_table(NAME, SCHEMA)
        for writer in WRITERS:
            self._job(writer).journal.touch()

    def step(self) -> None:
        """Kill whose time has come, and replace the dead. Fails on a process that gave up."""
        roles = [*(f"writer {writer}" for writer in WRITERS), "rewriter", "expirer"]
        for role in roles:
            process, ends_s = self._lives.get(role, (None, 0.0))
            if process is not None:
                if process.exitcode is None and time.monotonic() < ends_s:
                    continue
                writer_process.kill(process)
                assert process.exitcode == -signal.SIGKILL, (role, self._errors())
                self.kills += 1
            ends_s = time.monotonic() + self._random.uniform(0.1, LIFE_S_MAX)
            self._lives[role] = self._start(role), ends_s

    def look(self) -> None:
        """Each writer's rows are those after some number of its batches, none twice."""
        before = {writer: self._acknowledged(writer) for writer in WRITERS}
        try:
            seen = ids_in_the_table(self.catalog)
        except FileNotFoundError:
            return  # A snapshot that expired while it was read.
        assert len(seen) == len(set(seen))
        found = []
        for writer in WRITERS:
            possible = range(before[writer], self._acknowledged(writer) + 2)
            found.append([ids_after(writer, count) for count in possible])
        assert any(set(seen) == group | other for group in found[0] for other in found[1]), seen

    def calm(self) -> None:
        """Everything is killed; writers finish what they began, and end."""
        self.end()
        (self.folder / "stop").touch()
        for writer in WRITERS:
            process = self._start(f"writer {writer}")
            assert writer_process.join(process) == 0, self._errors()

    def audit(self) -> None:
        """All rows, by files that are there; and nothing is left when orphans are removed."""
        expected = sorted(
            found for writer in WRITERS for found in ids_after(writer, self._acknowledged(writer))
        )
        assert ids_in_the_table(self.catalog) == expected
        operations, later_ms = self._job().operations(), SystemClock().now_ms() + 1
        execute_expire(operations, ExpireOptions(later_ms, 1))
        options = OrphanOptions(later_ms, is_forced=True)
        execute_orphans(operations, plan_orphans(operations, options))
        assert ids_in_the_table(self.catalog) == expected
        assert self._files_without_purpose() == []

    def end(self) -> None:
        for process, _ in self._lives.values():
            with suppress(AssertionError):
                writer_process.kill(process)
        self._lives.clear()

    def _files_without_purpose(self) -> list[str]:
        table = self.catalog.load_table(NAME)
        metadata = table.metadata
        named = {
            table.metadata_location,
            *(metadata_log_entry.metadata_file for metadata_log_entry in metadata.metadata_log),
        }
        for snapshot in metadata.snapshots:
            named.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                named.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io)
                named |= {entry.data_file.file_path for entry in entries}
        here = [
            f"file://{path}" for path in (self.folder / "warehouse").rglob("*") if path.is_file()
        ]
        return sorted(set(here) - named)

    def _start(self, role: str) -> BaseProcess:
        acts: dict[str, Callable[[IcebergJob], None]] = {
            "rewriter": rewrite_in_an_iceberg_storm,
            "expirer": expire_in_an_iceberg_storm,
        }
        if role in acts:
            return writer_process.start(told, acts[role], self._job())
        writer = int(role.removeprefix("writer "))
        return writer_process.start(told, write_in_an_iceberg_storm, self._job(writer))

    def _job(self, writer: int = 0) -> IcebergJob:
        return IcebergJob(str(self.folder), writer, orphan_age_s=2 * LIFE_S_MAX)

    def _errors(self) -> list[str]:
        return [file.read_text() for file in self.folder.glob("*.error")]

    def _acknowledged(self, writer: int) -> int:
        return len(self._job(writer).journal.read_bytes()) // 2


def rage(storm: IcebergStorm, *, kills: int, seconds_max: float) -> None:
    started_s = time.monotonic()
    looked_s = started_s
    try:
        while storm.kills < kills and time.monotonic() < started_s + seconds_max:
            storm.step()
            if time.monotonic() > looked_s + 1:
                storm.look()
                looked_s = time.monotonic()
            time.sleep(0.02)
        storm.calm()
        storm.audit()
    finally:
        storm.end()
        print(f"{storm.kills} kills, {[storm._acknowledged(writer) for writer in WRITERS]} batches")


@pytest.mark.slow
def test_a_short_storm_over_an_iceberg_table(tmp_path: Path) -> None:
    rage(IcebergStorm(tmp_path, seed=1), kills=20, seconds_max=40.0)


@pytest.mark.storm
def test_a_storm_over_an_iceberg_table(tmp_path: Path) -> None:
    storm = IcebergStorm(tmp_path, seed=2)
    rage(storm, kills=KILLS, seconds_max=STORM_S_MAX)
    assert storm.kills >= KILLS
