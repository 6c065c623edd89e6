"""The service `expire_snapshots`: old snapshots go, and the files that only they led to."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.iceberg.services.due_facts import IcebergFacts
from tideline.iceberg.services.expire_snapshots.execute import execute_expire, preview_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions, plan_expire
from tideline.iceberg.services.option_reader import OptionReader
from tideline.iceberg.services.service import IcebergContext, IcebergService
from tideline.iceberg.services.table_setting import (
    OLDER_THAN_AGE_MS,
    QUIET_FOR_MS,
    RETAIN_LAST,
)
from tideline.services.benefit import Benefit
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.run import ServiceRun
from tideline.wording import counted


class ExpireSnapshots(IcebergService):
    """Expires snapshots that no branch or tag keeps."""

    name = "expire_snapshots"
    operation_kind = "expire"
    arguments = frozenset({OLDER_THAN_AGE_MS, RETAIN_LAST, QUIET_FOR_MS})
    deletes_files = True

    def options(self, settings: Mapping[str, str], now_ms: int) -> ExpireOptions:
        """The settings, typed. Raises ConfigError."""
        read = OptionReader(settings)
        options = ExpireOptions(
            older_than_ms=read.moment(OLDER_THAN_AGE_MS, now_ms),
            retain_last=read.limit(RETAIN_LAST, at_least=1),
            superseded_before_ms=read.moment(QUIET_FOR_MS, now_ms),
        )
        read.refuse_others("an expiry of snapshots")
        return options

    def due(self, facts: IcebergFacts, settings: Mapping[str, str]) -> Due | NotDue:
        options, snapshots = self.options(settings, facts.now_ms), facts.metadata.snapshots
        plan = plan_expire(facts.metadata, options, now_ms=facts.now_ms)
        if plan.is_empty:
            return NotDue(f"nothing to expire: {counted(len(plan.kept_ids), 'snapshot')}")
        words = [f"{len(plan.snapshot_ids):,} of {counted(len(snapshots), 'snapshot')}"]
        words += [counted(len(plan.refs), "ref")] if plan.refs else []
        return Due(f"{' and '.join(words)} are past their age")

    def plan(self, context: IcebergContext, facts: IcebergFacts) -> Explanation | NotDue:
        found = self.due(facts, context.settings)
        if isinstance(found, NotDue):
            return found
        options = self.options(context.settings, facts.now_ms)
        preview = preview_expire(context.table.operations, options, clock=context.clock)
        size_bytes = sum(file.size_bytes or 0 for file in preview.files)
        return Explanation(
            found.reason,
            tuple(file.location for file in preview.files),
            bytes_deleted=size_bytes,
            benefit=Benefit(bytes_stored=size_bytes),
        )

    def execute(self, context: IcebergContext) -> ServiceRun:
        options = self.options(context.settings, context.clock.now_ms())
        run = execute_expire(context.table.operations, options, clock=context.clock)
        run.refuse_failure(context.table.metadata.location)
        if run.outcome is None:
            return ServiceRun(self, not_due=NotDue("no snapshot is old enough"))
        return ServiceRun(self, (run,))


EXPIRE_SNAPSHOTS = ExpireSnapshots()
