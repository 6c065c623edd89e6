"""A batch that an engine holds already, written by the facade's own steps."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.commit_report import CommitReport, report_write
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import Requirement
from tideline.lake_table import LakeTable


def write_batch(
    lake: LakeTable,
    engine: WriteEngine,
    operation: WriteOperation,
    extra_metadata: Mapping[str, str] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    require: Requirement | None = None,
    token: str | None = None,
) -> CommitReport:
    """Write it as one commit; see `LakeTable.write`. Runs no services."""
    request = lake.writer.request(
        operation,
        lake.writer.config_for_rows(options),
        extra_metadata=extra_metadata,
        require=require,
        token=token,
    )
    return report_write(lake.writer.write(engine, request))
