"""Tideline: keeps Apache Hudi and Apache Iceberg tables healthy.

What people hold is here: `create` and `open` a table, `create_iceberg` and `open_iceberg`, a
`spark_session` to write and read with, `register` the Spark data source, the tables themselves,
what their methods take and return, and `errors`. Names load on first use, so `import tideline`
alone brings in neither Spark nor Arrow nor the Kubernetes client: work that moves no rows runs
without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tideline import errors
from tideline.errors import TableExistsError, TableNotFoundError

if TYPE_CHECKING:
    from tideline.check_finding import Finding, Repair, Severity
    from tideline.commit_report import CommitReport
    from tideline.erasure.report import Erasure
    from tideline.hudi.capabilities.table_capabilities import TableCapabilities
    from tideline.hudi.recovery.execute import RolledBack
    from tideline.hudi.services.restore.execute import RestoreDone
    from tideline.hudi.services.savepoint.record import Savepoint
    from tideline.hudi.services.service import TableService
    from tideline.hudi.table.merge_mode import MergeMode
    from tideline.hudi.table.table_config import KeyGeneratorKind, TableType
    from tideline.hudi.timeline.instant_time import InstantTime
    from tideline.hudi.write.write_operation import WriteOperation
    from tideline.iceberg.evolution.changes import IcebergChanges
    from tideline.iceberg.services.expire_snapshots.execute import ExpireRun
    from tideline.iceberg.services.remove_orphan_files.execute import OrphanRun
    from tideline.iceberg.services.rewrite_data_files.run import RewriteReport
    from tideline.iceberg_lake_table import IcebergLakeTable, create_iceberg, open_iceberg
    from tideline.iceberg_together import commit_together
    from tideline.lake_table import LakeTable
    from tideline.services.benefit import Benefit
    from tideline.services.explanation import Explanation, NotDue
    from tideline.services.run import ServicePlan, ServiceRun
    from tideline.spark.read.data_source import register
    from tideline.spark.session.spark_session import spark_session

    __version__: str
    create = LakeTable.create
    open = LakeTable.open

__all__ = [
    "Benefit",
    "CommitReport",
    "Erasure",
    "ExpireRun",
    "Explanation",
    "Finding",
    "IcebergChanges",
    "IcebergLakeTable",
    "InstantTime",
    "KeyGeneratorKind",
    "LakeTable",
    "MergeMode",
    "NotDue",
    "OrphanRun",
    "Repair",
    "RestoreDone",
    "RewriteReport",
    "RolledBack",
    "Savepoint",
    "ServicePlan",
    "ServiceRun",
    "Severity",
    "TableCapabilities",
    "TableExistsError",
    "TableNotFoundError",
    "TableService",
    "TableType",
    "WriteOperation",
    "__version__",
    "commit_together",
    "create",
    "create_iceberg",
    "errors",
    "open",
    "open_iceberg",
    "register",
    "spark_session",
]

_LOADED_ON_FIRST_USE = {
    "CommitReport": ("tideline.commit_report", "CommitReport"),
    "Erasure": ("tideline.erasure.report", "Erasure"),
    "ExpireRun": ("tideline.iceberg.services.expire_snapshots.execute", "ExpireRun"),
    "Explanation": ("tideline.services.explanation", "Explanation"),
    "Finding": ("tideline.check_finding", "Finding"),
    "IcebergChanges": ("tideline.iceberg.evolution.changes", "IcebergChanges"),
    "IcebergLakeTable": ("tideline.iceberg_lake_table", "IcebergLakeTable"),
    "InstantTime": ("tideline.hudi.timeline.instant_time", "InstantTime"),
    "KeyGeneratorKind": ("tideline.hudi.table.table_config", "KeyGeneratorKind"),
    "LakeTable": ("tideline.lake_table", "LakeTable"),
    "MergeMode": ("tideline.hudi.table.merge_mode", "MergeMode"),
    "NotDue": ("tideline.services.explanation", "NotDue"),
    "OrphanRun": ("tideline.iceberg.services.remove_orphan_files.execute", "OrphanRun"),
    "Repair": ("tideline.check_finding", "Repair"),
    "RestoreDone": ("tideline.hudi.services.restore.execute", "RestoreDone"),
    "RewriteReport": ("tideline.iceberg.services.rewrite_data_files.run", "RewriteReport"),
    "RolledBack": ("tideline.hudi.recovery.execute", "RolledBack"),
    "Savepoint": ("tideline.hudi.services.savepoint.record", "Savepoint"),
    "Benefit": ("tideline.services.benefit", "Benefit"),
    "ServicePlan": ("tideline.services.run", "ServicePlan"),
    "ServiceRun": ("tideline.services.run", "ServiceRun"),
    "Severity": ("tideline.check_finding", "Severity"),
    "TableCapabilities": ("tideline.hudi.capabilities.table_capabilities", "TableCapabilities"),
    "TableService": ("tideline.hudi.services.service", "TableService"),
    "TableType": ("tideline.hudi.table.table_config", "TableType"),
    "WriteOperation": ("tideline.hudi.write.write_operation", "WriteOperation"),
    "commit_together": ("tideline.iceberg_together", "commit_together"),
    "create": ("tideline.lake_table", "LakeTable.create"),
    "create_iceberg": ("tideline.iceberg_lake_table", "create_iceberg"),
    "open": ("tideline.lake_table", "LakeTable.open"),
    "open_iceberg": ("tideline.iceberg_lake_table", "open_iceberg"),
    "register": ("tideline.spark.read.data_source", "register"),
    "spark_session": ("tideline.spark.session.spark_session", "spark_session"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("tideline.distribution").installed_version()
    if name not in _LOADED_ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module_name, path = _LOADED_ON_FIRST_USE[name]
    found: Any = import_module(module_name)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    return found


def __dir__() -> list[str]:
    return __all__
