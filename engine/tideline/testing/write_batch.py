"""A batch that an engine holds already, written by the facade's own steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tideline.commit_report import CommitReport, report_write
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.work_parts import ThreadRunner
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import Requirement
from tideline.in_process.engine import InProcessWriteEngine
from tideline.in_process.run import open_engine
from tideline.lake_table import LakeTable


def batch_engine(
    lake: LakeTable,
    rows: pa.Table,
    operation: WriteOperation,
    options: Mapping[str, str] | None = None,
) -> InProcessWriteEngine:
    """The rows, prepared for a write in this process, which makes its store writes in one order."""
    config = lake.writer.config_for_rows(options)
    table = lake.hoodie_table
    return open_engine(rows, table, operation, config, runner=ThreadRunner(table.store, 1))


@dataclass(slots=True)
class InterruptedEngine:
    """An engine that lets others act before or after it has written its files."""

    engine: WriteEngine
    before_files: Callable[[], object] | None = None
    after_files: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def write(self, *arguments: Any, **settings: Any) -> Sequence[WriteStat]:
        if self.before_files is not None:
            self.before_files()
        stats = self.engine.write(*arguments, **settings)
        if self.after_files is not None:
            self.after_files()
        return stats


def write_batch(
    lake: LakeTable,
    engine: WriteEngine | InterruptedEngine,
    operation: WriteOperation,
    extra_metadata: Mapping[str, str] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    require: Requirement | None = None,
    token: str | None = None,
) -> CommitReport:
    """Write what an engine holds as one commit; see `LakeTable.write`. Runs no services."""
    request = lake.writer.request(
        operation,
        lake.writer.config_for_rows(options),
        extra_metadata=extra_metadata,
        require=require,
        token=token,
    )
    return report_write(lake.writer.write(engine, request))
