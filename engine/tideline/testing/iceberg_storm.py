"""Processes of a storm over one Iceberg table, all short-lived: PyIceberg's writers
and Tideline's rewrites, expiry, manifests and removal of orphans.

A writer's batches follow from its number and theirs. Its journal says how many it has had
acknowledged; a successor looks in the table whether the next one is there already.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ValidationException,
)
from sqlalchemy.exc import OperationalError

from tideline.clock import SystemClock
from tideline.errors import (
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.iceberg.table.open_table import IcebergTable

NAME = "lake.stormy"
SCHEMA = pa.schema([("id", pa.int64()), ("writer", pa.int64())])
ROWS = 4
IDS_OF_A_WRITER = 1_000_000
_RACES = (
    CommitFailedException,
    CommitStateUnknownException,
    # A delete of a file that was rewritten meanwhile.
    ValidationException,
    # A busy SQLite; files of a snapshot that expired while it was read.
    OperationalError,
    FileNotFoundError,
)
_TRY_AGAIN = (
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    OperationalError,
    StorageUnavailableError,
    UnknownOutcomeError,
)


@dataclass(frozen=True, slots=True)
class IcebergJob:
    """One life at the table in `folder`. Files older than `orphan_age_s` are of no life that still
    lasts."""

    folder: str
    writer: int = 0
    orphan_age_s: float = 0.0

    @property
    def is_over(self) -> bool:
        return (Path(self.folder) / "stop").exists()

    @property
    def journal(self) -> Path:
        return Path(self.folder) / f"writer-{self.writer}"

    def catalog(self) -> Catalog:
        """A connection of its own."""
        place = f"sqlite:///{self.folder}/catalog.db"
        return SqlCatalog("storm", uri=place, warehouse=f"file://{self.folder}/warehouse")

    def operations(self) -> CatalogTable:
        return CatalogTable(self.catalog(), NAME)


def ids_after(writer: int, batches: int) -> set[int]:
    """The ids that a writer's first batches leave: every third deletes the first of the one before,
    the others append."""
    found: set[int] = set()
    for number in range(batches):
        if number % 3 == 2:
            found.discard(_ids(writer, number - 1)[0])
        else:
            found.update(_ids(writer, number))
    return found


def told(act: Callable[[IcebergJob], None], job: IcebergJob) -> None:
    """Do it; what it could not cope with stands in a file when it ends."""
    try:
        act(job)
    except BaseException:
        (Path(job.folder) / f"{act.__name__}.error").write_text(traceback.format_exc())
        raise


def write_in_an_iceberg_storm(job: IcebergJob) -> None:
    """Write batch after batch, one at least, until the storm is over."""
    catalog = job.catalog()
    with job.journal.open("a") as lines:
        number = len(job.journal.read_bytes()) // 2
        while True:
            if _write(catalog, job.writer, number):
                number += 1
                # One write of two bytes: a kill leaves both or none.
                lines.write(".\n")
                lines.flush()
                if job.is_over:
                    return


def rewrite_in_an_iceberg_storm(job: IcebergJob) -> None:
    """Rewrite data files and manifests."""
    options = RewriteOptions.parse({"min-input-files": "2"}, properties={})
    _serve(
        job,
        lambda: rewrite_data_files(IcebergTable(job.operations()), options, write_groups_here),
        lambda: execute_manifests(job.operations(), ManifestOptions()),
    )


def expire_in_an_iceberg_storm(job: IcebergJob) -> None:
    """Expire all snapshots but those of the last seconds, and remove old orphans."""

    def ago(seconds: float) -> int:
        return SystemClock().now_ms() - round(seconds * 1000)

    def remove_orphans() -> None:
        operations = job.operations()
        options = OrphanOptions(ago(job.orphan_age_s), is_forced=True)
        execute_orphans(operations, plan_orphans(operations, options))

    _serve(
        job,
        lambda: execute_expire(job.operations(), ExpireOptions(ago(2.0), 1)),
        remove_orphans,
    )


def ids_in_the_table(catalog: Catalog) -> list[int]:
    """Every id, as often as it is there. Raises FileNotFoundError while files are expired."""
    found: list[int] = catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def _ids(writer: int, number: int) -> list[int]:
    first = writer * IDS_OF_A_WRITER + number * ROWS
    return list(range(first, first + ROWS))


def _write(catalog: Catalog, writer: int, number: int) -> bool:
    """Whether the batch is in the table, be it of an earlier life."""
    with suppress(*_RACES):
        table = catalog.load_table(NAME)
        if number % 3 == 2:
            table.delete(f"id = {_ids(writer, number - 1)[0]}")
            return True
        ids = _ids(writer, number)
        there = table.scan(row_filter=f"id = {ids[0]}", selected_fields=("id",)).to_arrow()
        if not len(there):
            # On the table as it was looked at: another's commit in between is a conflict.
            table.append(pa.table({"id": ids, "writer": [writer] * ROWS}, schema=SCHEMA))
        return True
    return False


def _serve(job: IcebergJob, *acts: Callable[[], object]) -> None:
    random = Random()
    while not job.is_over:
        with suppress(*_TRY_AGAIN):
            random.choice(acts)()
        time.sleep(random.uniform(0, 0.2))
